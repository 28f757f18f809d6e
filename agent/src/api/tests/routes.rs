//! Tests: endpoints, addresses, options and maps over their paths, and what each path refuses.

use axum::{body::Body, http::Method};
use serde_json::{Value, json};

use super::node_supervisor::Fixture;
use crate::api::{health_router, router};

fn body(id: u16) -> String {
    json!({
        "id": id, "container-id": "ab01", "container-interface-name": "eth0",
        "interface-name": "lxc1", "interface-index": 7, "labels": ["k8s:app=web"],
        "addressing": {"ipv4": "10.1.0.9"}, "k8s-namespace": "default", "k8s-pod-name": "web",
        "sync-build-endpoint": true,
    })
    .to_string()
}

#[test]
fn an_endpoint_is_made_found_by_every_name_and_deleted() {
    let api = Fixture::new();
    let made = api.call(Method::PUT, "/v1/endpoint/cilium-local:0", body(0));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["id"], 1);
    for name in [
        "1",
        "cilium-local:1",
        "container-id:ab01",
        "cni-attachment-id:ab01:eth0",
        "pod-name:default%2Fweb",
        "cep-name:default%2Fweb",
        "ipv4:10.1.0.9",
    ] {
        let found = api.get(&format!("/v1/endpoint/{name}"));
        assert_eq!((found.status.as_u16(), &found.body["id"]), (200, &json!(1)), "{name}");
    }
    let taken = api.call(Method::PUT, "/v1/endpoint/1", body(1));
    assert_eq!(taken.status, 400);
    assert_eq!(taken.body, "endpoint id 1 is already in use");
    assert_eq!(api.call(Method::DELETE, "/v1/endpoint/1", Body::empty()).status, 200);
    let gone = api.call(Method::DELETE, "/v1/endpoint/1", Body::empty());
    assert_eq!((gone.status.as_u16(), gone.body), (404, json!("endpoint not found")));
}

#[test]
fn a_container_is_deleted_with_all_its_endpoints() {
    let api = Fixture::new();
    api.call(Method::PUT, "/v1/endpoint/0", body(0));
    api.call(Method::PUT, "/v1/endpoint/99", body(99));
    let container = json!({"container-id": "ab01"}).to_string();
    let deleted = api.call(Method::DELETE, "/v1/endpoint", container.clone());
    assert_eq!((deleted.status.as_u16(), deleted.body), (206, json!(2)), "two leftovers");
    assert_eq!(api.call(Method::DELETE, "/v1/endpoint", container).status, 404);
    assert_eq!(api.call(Method::DELETE, "/v1/endpoint", "{}").status, 400);
}

#[test]
fn a_list_is_narrowed_by_labels_in_query_or_body() {
    let api = Fixture::new();
    assert_eq!(api.get("/v1/endpoint").body, json!([]));
    api.call(Method::PUT, "/v1/endpoint/0", body(0));
    let count = |answer: Value| answer.as_array().map(Vec::len);
    assert_eq!(count(api.get("/v1/endpoint").body), Some(1));
    assert_eq!(count(api.get("/v1/endpoint?labels=k8s:app%3Dweb").body), Some(1));
    assert_eq!(count(api.call(Method::GET, "/v1/endpoint", r#"["k8s:app=web"]"#).body), Some(1));
    assert_eq!(api.get("/v1/endpoint?labels=k8s:app%3Ddb").status, 404);
    assert_eq!(api.get("/v1/endpoint?labels=k8s:%3Ddb").status, 400);
}

#[test]
fn a_new_endpoints_number_is_said_once() {
    let api = Fixture::new();
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/5", body(6)).status, 400);
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/5", body(0)).body["id"], 5);
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/pod-name:a%2Fb", body(0)).status, 400);
}

#[test]
fn labels_and_options_are_changed() {
    let api = Fixture::new();
    api.call(Method::PUT, "/v1/endpoint/7", body(7));
    let user = r#"{"user":["k8s:team=blue"]}"#;
    assert_eq!(api.call(Method::PATCH, "/v1/endpoint/7/labels", user).status, 200);
    let labels = api.get("/v1/endpoint/7/labels").body;
    assert_eq!(labels["spec"]["user"], json!(["k8s:team=blue"]));
    let expected = r#"{"options":{"TraceNotification":"Enabled"}}"#;
    assert_eq!(api.call(Method::PATCH, "/v1/endpoint/7/config", expected).status, 200);
    let config = api.get("/v1/endpoint/7/config").body;
    assert_eq!(config["realized"]["options"]["TraceNotification"], "Enabled");
    let wrong = r#"{"options":{"Bogus":"Enabled"}}"#;
    let refused = api.call(Method::PATCH, "/v1/endpoint/7/config", wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.body.as_str().unwrap().contains("unknown option \"Bogus\""));
}

#[test]
fn options_of_all_endpoints_are_changed() {
    let api = Fixture::new();
    api.call(Method::PUT, "/v1/endpoint/7", body(7));
    let change = |body: &str| api.call(Method::PATCH, "/v1/config", body.to_owned());
    let changed = change(r#"{"options":{"TraceNotification":"true"}}"#);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(changed.body["options"]["TraceNotification"], "Enabled");
    // One that comes later has it too.
    let made = api.call(Method::PUT, "/v1/endpoint/8", body(8)).body;
    assert_eq!(made["status"]["realized"]["options"]["TraceNotification"], "Enabled");
    let living = api.get("/v1/endpoint/7").body;
    assert_eq!(living["status"]["realized"]["options"]["TraceNotification"], "Enabled");
    let config = api.get("/v1/config").body;
    assert_eq!(config["status"]["realized"]["options"]["TraceNotification"], "Enabled");
    // How much the agent logs is its own affair, and no endpoint's.
    let debug = change(r#"{"options":{"Debug":"Enabled"}}"#);
    assert_eq!(debug.status, 200, "{debug:?}");
    assert_eq!(debug.body["options"]["Debug"], "Enabled");
    let living = api.get("/v1/endpoint/7").body;
    assert_eq!(living["status"]["realized"]["options"]["Debug"], "Disabled");
    for (body, says) in [
        (r#"{"options":{"DebugLB":"Enabled"}}"#, "DebugLB cannot be changed"),
        (r#"{"options":{"Nonsense":"Enabled"}}"#, "unknown option \"Nonsense\""),
        (r#"{"policy-enforcement":"perhaps"}"#, "use default, always, never"),
    ] {
        let refused = change(body);
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.body.as_str().unwrap().contains(says), "{refused:?}");
    }
}

#[test]
fn when_endpoints_are_held_to_policy_is_changed() {
    let api = Fixture::new();
    let now = || api.get("/v1/config").body["spec"]["policy-enforcement"].clone();
    assert_eq!(now(), "default");
    for name in ["always", "never", "never", "default"] {
        let body = json!({ "policy-enforcement": name }).to_string();
        let changed = api.call(Method::PATCH, "/v1/config", body);
        assert_eq!(
            (changed.status.as_u16(), &changed.body["policy-enforcement"]),
            (200, &json!(name))
        );
        assert_eq!(now(), name);
    }
    // What is wrong changes nothing of the rest, and nothing at all changes nothing.
    let both = r#"{"options":{"TraceNotification":"Enabled"},"policy-enforcement":"perhaps"}"#;
    assert_eq!(api.call(Method::PATCH, "/v1/config", both).status, 400);
    let config = api.call(Method::PATCH, "/v1/config", "{}").body;
    assert_eq!(config["options"]["TraceNotification"], "Disabled");
    let dead = Fixture::over_dead_actors(router);
    let always = r#"{"policy-enforcement":"always"}"#;
    assert_eq!(dead.call(Method::PATCH, "/v1/config", always).status, 503);
}

#[test]
fn a_change_of_all_endpoints_is_made_whole_though_its_client_goes_away() {
    let api = Fixture::new();
    for id in [7, 8] {
        api.call(Method::PUT, &format!("/v1/endpoint/{id}"), body(id));
    }
    let change = r#"{"options":{"TraceNotification":"Enabled"}}"#;
    api.call_and_leave(Method::PATCH, "/v1/config", change);
    // Comes behind it, and changes nothing.
    let next = api.call(Method::PATCH, "/v1/config", "{}");
    assert_eq!(next.status, 200, "{next:?}");
    assert_eq!(next.body["options"]["TraceNotification"], "Enabled");
    for id in [7, 8] {
        let endpoint = api.get(&format!("/v1/endpoint/{id}")).body;
        assert_eq!(endpoint["status"]["realized"]["options"]["TraceNotification"], "Enabled");
    }
}

#[test]
fn addresses_are_handed_out_and_given_back() {
    let api = Fixture::new();
    let got = api.call_with(
        Method::POST,
        "/v1/ipam?family=ipv4&owner=default%2Fweb",
        &[("expiration", "true")],
        Body::empty(),
    );
    assert_eq!(got.status, 201);
    assert_eq!(
        got.body,
        json!({
            "address": {
                "ipv4": "10.1.0.7", "ipv4-pool-name": "default",
                "ipv4-expiration-uuid": "lease-10.1.0.7",
            },
            "host-addressing": {
                "ipv4": {"alloc-range": "10.1.0.0/16", "enabled": true, "ip": "10.1.0.1"},
            },
            "ipv4": {
                "cidrs": ["10.1.0.0/16"], "expiration-uuid": "lease-10.1.0.7",
                "gateway": "10.1.0.1", "ip": "10.1.0.7",
            },
        })
    );
    let leases = api.get("/v1/volvox/ipam").body;
    assert_eq!(leases[0]["owner"], "default/web");
    assert_eq!(leases[0]["expires-seconds"], 600.0);
    for (method, uri, status) in [
        (Method::POST, "/v1/ipam/10.1.0.7?owner=other", 409),
        (Method::POST, "/v1/ipam/10.1.0.8?owner=other", 200),
        (Method::POST, "/v1/ipam/10.1.0?owner=other", 400),
        (Method::POST, "/v1/ipam?owner=greedy", 502),
        (Method::POST, "/v1/ipam?family=ipv5", 400),
        (Method::DELETE, "/v1/ipam/10.1.0.7", 200),
        (Method::DELETE, "/v1/ipam/10.1.0.7", 404),
    ] {
        let answer = api.call(method, uri, Body::empty());
        assert_eq!(answer.status, status, "{uri}: {answer:?}");
    }
    api.call(Method::PUT, "/v1/endpoint/0", body(0));
    let used = api.call(Method::DELETE, "/v1/ipam/10.1.0.9", Body::empty());
    assert_eq!(used.status, 500);
    assert!(used.body.as_str().unwrap().contains("endpoint 1"), "{used:?}");
}

#[test]
fn unknown_paths_and_methods_are_refused_in_ciliums_words() {
    let api = Fixture::new();
    let refused = api.get("/v1/ipam");
    assert_eq!(refused.status, 405);
    assert_eq!(
        refused.body,
        json!({"code": 405, "message": "method GET is not allowed, but [POST] are"})
    );
    assert_eq!(refused.allow.as_deref(), Some("POST"));
    let refused = api.call(Method::POST, "/v1/endpoint/7", Body::empty());
    assert_eq!(refused.status, 405);
    assert_eq!(refused.allow.as_deref(), Some("GET,PUT,PATCH,DELETE"));
    for path in ["/", "/v1", "/v1/nope", "/v2/healthz", "/v1/endpoint/7/nope"] {
        let missing = api.get(path);
        assert_eq!(missing.status, 404, "{path}");
        assert_eq!(missing.body["message"], format!("path {path} was not found"));
    }
}

#[test]
fn a_crashed_actor_costs_one_question() {
    let api = Fixture::new();
    api.call(Method::PUT, "/v1/endpoint/98", body(98));
    let regenerate = "/v1/volvox/endpoint/98/regenerate?level=load";
    let crashed = api.call(Method::POST, regenerate, Body::empty());
    assert_eq!(crashed.status, 500);
    assert!(crashed.body.as_str().unwrap().contains("it crashed over the question"));
    assert_eq!(api.get("/v1/endpoint").status, 200);
    let actors = api.get("/v1/volvox/actors").body;
    let endpoints = actors.as_array().unwrap().iter().find(|a| a["name"] == "endpoints").unwrap();
    assert_eq!(endpoints["crashes"], 1);
    assert_eq!(endpoints["last-crash"], "number 98 crashes its builder");
}

#[test]
fn an_agent_without_actors_says_so_to_everybody() {
    let probe = Fixture::over_dead_actors(health_router).get("/healthz");
    assert_eq!(probe.status, 503, "{probe:?}");
    assert!(probe.body.as_str().unwrap().contains("shutting down"));
    let api = Fixture::over_dead_actors(router);
    for path in ["/v1/healthz", "/v1/endpoint", "/v1/config", "/metrics"] {
        assert_eq!(api.get(path).status, 503, "{path}");
    }
}

#[test]
fn an_endpoint_is_built_again() {
    let api = Fixture::new();
    api.call(Method::PUT, "/v1/endpoint/7", body(7));
    let path = "/v1/volvox/endpoint/7/regenerate";
    assert_eq!(api.call(Method::POST, path, Body::empty()).body["id"], 7);
    assert_eq!(api.call(Method::POST, &format!("{path}?level=x"), Body::empty()).status, 400);
}

#[test]
fn a_map_that_is_not_pinned_is_not_there() {
    let api = Fixture::new();
    for name in ["nope", "..", "..%2f..%2ftc", "%2fetc%2fpasswd"] {
        let missing = api.get(&format!("/v1/map/{name}"));
        assert_eq!(missing.status, 404, "{name}: {missing:?}");
    }
}

#[test]
fn limits_refuse_what_comes_too_often() {
    let api = Fixture::with_limits("endpoint-create=rate-limit:1/1h,max-wait-duration:5s");
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/0", body(0)).status, 201);
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/0", body(0)).status, 429);
    assert_eq!(api.get("/v1/endpoint/1").status, 200);
}

#[test]
fn other_nodes_are_listed_with_where_they_are_known_from() {
    let nodes = Fixture::new().get("/v1/cluster/nodes").body;
    let ipv4 = json!({ "enabled": true, "ip": "192.0.2.7", "alloc-range": "10.7.0.0/24" });
    let expected = json!({
        "name": "there", "source": "kvstore",
        "primary-address": { "ipv4": ipv4 },
        "secondary-addresses": [{ "ip": "192.0.2.8", "address-type": "ExternalIP" }],
        "health-endpoint-address": { "ipv4": { "enabled": true, "ip": "10.7.0.3" } },
    });
    assert_eq!(nodes["nodes-added"][1], expected);
}
