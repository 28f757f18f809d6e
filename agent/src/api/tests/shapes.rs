//! The shapes of answers, member by member, as Cilium 1.19 writes them.

use axum::http::Method;
use serde_json::{Value, json};

use super::node_supervisor::Fixture;
use crate::api::router;

/// Members that an answer has of `shape` but not of the right kind, or has not at all.
///
/// A shape is a value whose leaves name kinds: `"text"`, `0` for a number, `true` for a switch,
/// `null` for anything; a list of one is a list of such.
fn differences(shape: &Value, answer: &Value, at: &str, found: &mut Vec<String>) {
    match (shape, answer) {
        (Value::Object(members), Value::Object(had)) => {
            for (name, shape) in members {
                match had.get(name) {
                    None => found.push(format!("{at}/{name} is missing")),
                    Some(value) => differences(shape, value, &format!("{at}/{name}"), found),
                }
            }
        }
        (Value::Array(shapes), Value::Array(had)) => {
            if let Some(shape) = shapes.first() {
                if had.is_empty() {
                    found.push(format!("{at} is empty"));
                }
                for value in had {
                    differences(shape, value, &format!("{at}[]"), found);
                }
            }
        }
        (Value::Null, _)
        | (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        _ => found.push(format!("{at} is {answer}")),
    }
}

#[track_caller]
fn assert_shape(api: &Fixture, path: &str, shape: &Value) {
    let answer = api.get(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let mut found = Vec::new();
    differences(shape, &answer.body, "", &mut found);
    assert!(found.is_empty(), "{path}: {found:#?}\n{:#}", answer.body);
}

fn with_endpoint() -> Fixture {
    let api = Fixture::new();
    let body = json!({
        "container-id": "ab01", "container-name": "c1", "container-interface-name": "eth0",
        "interface-name": "lxc1", "interface-index": 7, "mac": "02:00:00:00:00:01",
        "host-mac": "02:00:00:00:00:02", "labels": ["k8s:app=web"],
        "addressing": {"ipv4": "10.1.0.9", "ipv4-pool-name": "default"},
        "k8s-namespace": "default", "k8s-pod-name": "web",
    });
    let made = api.call(Method::PUT, "/v1/endpoint/442", body.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    api
}

fn options() -> Value {
    json!({
        "ConntrackAccounting": "text", "Debug": "text", "DebugLB": "text", "DebugPolicy": "text",
        "DropNotification": "text", "MonitorAggregationLevel": "text", "PolicyAccounting": "text",
        "PolicyAuditMode": "text", "PolicyVerdictNotification": "text",
        "SourceIPVerification": "text", "TraceNotification": "text",
    })
}

#[test]
fn an_endpoint() {
    let configuration = json!({"label-configuration": {}, "options": options()});
    assert_shape(
        &with_endpoint(),
        "/v1/endpoint/442",
        &json!({
            "id": 0,
            "spec": configuration,
            "status": {
                "controllers": [],
                "external-identifiers": {
                    "cni-attachment-id": "text", "container-id": "text",
                    "container-name": "text", "pod-name": "text",
                },
                "health": {
                    "bpf": "text", "connected": true, "overallHealth": "text", "policy": "text",
                },
                "identity": {"id": 0, "labels": ["text"]},
                "labels": {"realized": {}, "security-relevant": ["text"]},
                "log": [
                    {"code": "text", "message": "text", "state": "text", "timestamp": "text"}
                ],
                "networking": {
                    "addressing": [{"ipv4": "text", "ipv4-pool-name": "text"}],
                    "container-interface-name": "text", "host-mac": "text",
                    "interface-index": 0, "interface-name": "text", "mac": "text",
                },
                "policy": {
                    "proxy-policy-revision": 0, "proxy-statistics": [],
                    "realized": {
                        "allowed-egress-identities": null,
                        "allowed-ingress-identities": [0],
                        "build": 0,
                        "denied-egress-identities": [0],
                        "denied-ingress-identities": null,
                        "id": 0,
                        "l4": {
                            "egress": [],
                            "ingress": [{
                                "derived-from-rules": [["text"]], "rule": "text",
                                "rules-by-selector": {},
                            }],
                        },
                        "policy-enabled": "text", "policy-revision": 0,
                    },
                },
                "realized": configuration,
                "state": "text",
            },
        }),
    );
}

#[test]
fn an_endpoints_parts() {
    let api = with_endpoint();
    for (path, shape) in [
        (
            "healthz",
            json!({"bpf": "text", "connected": true, "overallHealth": "text", "policy": "text"}),
        ),
        ("labels", json!({"spec": {}, "status": {"realized": {}, "security-relevant": ["text"]}})),
        ("log", json!([{"code": "text", "message": "text", "state": "text", "timestamp": "text"}])),
        ("config", json!({"realized": {"label-configuration": {}, "options": options()}})),
    ] {
        assert_shape(&api, &format!("/v1/endpoint/442/{path}"), &shape);
    }
}

#[test]
fn the_policy_that_the_kernel_has() {
    let api = with_endpoint();
    let policy = |mut endpoint: Value| endpoint["status"]["policy"]["realized"].take();
    let listed = policy(api.get("/v1/endpoint").body[0].take());
    assert_eq!(listed["allowed-ingress-identities"], json!([1]));
    assert_eq!(listed["allowed-egress-identities"], Value::Null);
    assert_eq!(listed["denied-egress-identities"], json!([2]));
    assert_eq!(listed["policy-enabled"], "ingress");
    let rule = listed["l4"]["ingress"][0]["rule"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(rule).unwrap(),
        json!({"port": 80, "protocol": "TCP", "identities": [400, 401]})
    );
    let shown = policy(api.get("/v1/endpoint/442").body);
    let labels = json!([[
        "directory:filename=web.yaml",
        "directory:io.cilium.k8s.policy.name=web",
        "directory:io.cilium.k8s.policy.namespace=default",
        "directory:policy-derived-from=CiliumNetworkPolicy",
    ]]);
    assert_eq!(shown["l4"]["ingress"][0]["derived-from-rules"], labels);
    assert_eq!(shown["l4"]["ingress"][0]["rules-by-selector"], json!({"peer": labels}));
    let rule = shown["l4"]["ingress"][0]["rule"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(rule).unwrap(),
        json!({"port": 80, "protocol": "TCP", "l7-rules": [{"peer": null}]})
    );
}

#[test]
fn the_agents_configuration() {
    let options = json!({"Debug": "text", "TraceNotification": "text"});
    let spec = json!({"options": options, "policy-enforcement": "text"});
    assert_shape(
        &Fixture::new(),
        "/v1/config",
        &json!({
            "spec": spec,
            "status": {
                "GROIPv4MaxSize": 0, "GROMaxSize": 0, "GSOIPv4MaxSize": 0, "GSOMaxSize": 0,
                "addressing": {"ipv4": {"alloc-range": "text", "enabled": true, "ip": "text"}},
                "daemonConfigurationMap": {"ClusterName": "text"},
                "datapathMode": "text", "deviceMTU": 0, "ipam-mode": "text",
                "kvstoreConfiguration": {}, "masqueradeProtocols": {"ipv4": true, "ipv6": true},
                "realized": spec,
                "routeMTU": 0,
            },
        }),
    );
}

#[test]
fn the_agents_health() {
    let api = Fixture::new();
    let status = json!({"state": "text"});
    let mode = json!({"mode": "text"});
    assert_shape(
        &api,
        "/v1/healthz",
        &json!({
            "attach-mode": "text", "bpf-maps": {"dynamic-size-ratio": 0, "maps": [{"name": "text", "size": 0}]},
            "cilium": {"msg": "text", "state": "text"}, "clock-source": mode,
            "cluster": {"nodes": null, "self": "text"}, "cni-chaining": mode,
            "cni-file": status, "controllers": [], "datapath-mode": "text", "encryption": mode,
            "host-firewall": mode, "hubble": status,
            "identity-range": {"max-identity": 0, "min-identity": 0},
            "ipam": {"allocations": {}, "ipv4": null, "ipv6": null, "status": "text"},
            "kube-proxy-replacement": {
                "features": {
                    "externalIPs": {"enabled": true}, "hostPort": {"enabled": true},
                    "nodePort": {
                        "acceleration": "text", "algorithm": "text", "enabled": true,
                        "mode": "text", "portMax": 0, "portMin": 0,
                    },
                    "sessionAffinity": {"enabled": true}, "socketLB": {"enabled": true},
                    "annotations": [], "bpfSocketLBHostnsOnly": true,
                    "gracefulTermination": {"enabled": true},
                    "socketLBTracing": {"enabled": true},
                    "nat46X64": {
                        "enabled": true, "service": {"enabled": true},
                        "gateway": {"enabled": true, "prefixes": []},
                    },
                },
                "mode": "text",
            },
            "kubernetes": {"k8s-api-versions": null, "state": "text"}, "kvstore": status,
            "masquerading": {
                "enabled": true, "enabledProtocols": {"ipv4": true, "ipv6": true},
            },
            "routing": {"inter-host-routing-mode": "text", "intra-host-routing-mode": "text"},
        }),
    );
    let brief =
        api.call_with(Method::GET, "/v1/healthz", &[("brief", "true")], axum::body::Body::empty());
    assert_eq!(
        brief.body,
        json!({"cilium": {"msg": "0.1.0", "state": "Ok"}, "cluster": {"nodes": null}})
    );
}

#[test]
fn identities_addresses_and_nodes() {
    let api = with_endpoint();
    let identity = json!({"id": 0, "labels": ["text"]});
    for (path, shape) in [
        ("/v1/identity", json!([identity])),
        ("/v1/identity?labels=k8s:app%3Dweb", json!([identity])),
        ("/v1/identity/300", identity.clone()),
        ("/v1/identity/endpoints", json!([{"identity": identity, "refCount": 0}])),
        ("/v1/ip", json!([{"cidr": "text", "identity": 0}])),
        ("/v1/ip?cidr=10.1.0.7", json!([{"cidr": "text", "hostIP": "text", "identity": 0}])),
        ("/v1/node/ids", json!([{"id": 0, "ips": ["text"]}])),
        (
            "/v1/cluster/nodes",
            json!({
                "nodes-added": [{
                    "name": "text",
                    "primary-address": {
                        "ipv4": {"alloc-range": "text", "enabled": true, "ip": "text"},
                    },
                    "secondary-addresses": [{"address-type": "text", "ip": "text"}],
                    "source": "text",
                }],
                "nodes-removed": null,
                "self": "text",
            }),
        ),
        ("/v1/policy", json!({"policy": "text", "revision": 0})),
        ("/v1/policy/selectors", json!([{"identities": [0], "selector": "text", "users": 0}])),
        (
            "/v1/policy/subject-selectors",
            json!([{"identities": [0], "selector": "text", "users": 0}]),
        ),
    ] {
        assert_shape(&api, path, &shape);
    }
    assert_eq!(api.get("/v1/identity/301").status, 404);
    assert_eq!(api.get("/v1/identity/web").status, 400);
    assert_eq!(api.get("/v1/identity?labels=k8s:app%3Ddb").status, 404);
    assert_eq!(api.get("/v1/ip?cidr=192.0.2.0/24").status, 404);
    assert_eq!(api.get("/v1/ip?cidr=nope").status, 400);
}

#[test]
fn what_a_bug_report_needs() {
    let api = with_endpoint();
    let identity = json!({"id": 0, "labels": ["text"]});
    assert_shape(
        &api,
        "/v1/debuginfo",
        &json!({
            "cilium-memory-map": "text",
            "cilium-status": {"cilium": {"state": "text"}, "ipam": {"status": "text"}},
            "cilium-version": "text", "encryption": {},
            "endpoint-list": [{"id": 0, "status": {"state": "text"}}],
            "environment-variables": ["text"], "kernel-version": "text",
            "policy": {"policy": "text", "revision": 0},
            "service-list": [{"spec": {"id": 0, "frontend-address": {"ip": "text"}}, "status": {}}],
            "subsystem": {},
        }),
    );
    let info = api.get("/v1/debuginfo").body;
    assert_eq!(info["endpoint-list"], api.get("/v1/endpoint").body);
    assert_eq!(info["service-list"], api.get("/v1/service").body);
    for (name, shape) in [
        ("actors", json!([{"id": 0, "name": "text"}])),
        ("build-queue", json!({"permits": 0, "building": [0], "waiting": []})),
        ("identities", json!([identity])),
        ("ipcache", json!([{"cidr": "text", "identity": 0}])),
        ("restore", json!({"phases": [], "endpoints": {}, "finished": true})),
        ("services", json!({"frontends": 0, "backends": 0, "room": 0})),
        ("waits", json!({"waits": [], "cycle": []})),
    ] {
        let text = info["subsystem"][name].as_str().unwrap_or_else(|| panic!("{name}: {info:#}"));
        let part = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut found = Vec::new();
        differences(&shape, &part, "", &mut found);
        assert!(found.is_empty(), "{name}: {found:#?}\n{part:#}");
    }
    let (mappings, program) = (&info["cilium-memory-map"], std::env::current_exe().unwrap());
    assert!(mappings.as_str().unwrap().contains(program.to_str().unwrap()), "{mappings}");
    assert_eq!(info["subsystem"]["missing"], Value::Null);
}

#[test]
fn a_bug_report_on_actors_that_have_ended() {
    let answer = Fixture::over_dead_actors(router).get("/v1/debuginfo");
    assert_eq!(answer.status, 200, "{answer:?}");
    let info = answer.body;
    assert_eq!((&info["endpoint-list"], &info["service-list"]), (&json!([]), &json!([])));
    assert_eq!(info["environment-variables"], json!(["ClusterName:\"default\""]));
    let missing = info["subsystem"]["missing"].as_str().unwrap();
    for name in ["endpoint-list", "service-list", "policy"] {
        let says = format!("{name} cannot be had: the agent is shutting down");
        assert!(missing.contains(&says), "{missing}");
    }
    let waits = info["subsystem"]["waits"].as_str().unwrap();
    assert!(waits.starts_with("cannot be had: the agent is shutting down"), "{waits}");
}

#[test]
fn services() {
    let api = Fixture::new();
    let spec = |id, last, scope, backends: &[(u8, &str)], flags: Value| {
        let backend = |(last, state): &(u8, &str)| {
            json!({
                "ip": format!("10.96.0.{last}"), "port": 8080, "protocol": "TCP", "state": state,
            })
        };
        json!({
            "id": id,
            "frontend-address": {
                "ip": format!("10.96.0.{last}"), "protocol": "tcp", "port": 80, "scope": scope,
            },
            "backend-addresses": backends.iter().map(backend).collect::<Vec<_>>(),
            "flags": flags,
        })
    };
    let left = json!({
        "type": "ClusterIP", "trafficPolicy": "Cluster", "extTrafficPolicy": "Cluster",
        "intTrafficPolicy": "Local",
    });
    let left = spec(3, 2, "internal", &[], left);
    let web = json!({
        "type": "NodePort", "name": "web", "namespace": "default", "trafficPolicy": "Local",
        "extTrafficPolicy": "Local", "intTrafficPolicy": "Cluster",
    });
    let web = spec(9, 1, "external", &[(201, "active"), (202, "terminating")], web);
    let web = json!({ "spec": web, "status": { "realized": web } });
    let all = api.get("/v1/service");
    assert_eq!(all.status, 200);
    assert_eq!(all.body, json!([{ "spec": left, "status": {} }, web]), "by number");
    assert_eq!(api.get("/v1/service/9").body, web);
    assert_eq!(api.get("/v1/service/4").status, 404);
    assert_eq!(api.get("/v1/service/70000").status, 404);
    let refused = api.get("/v1/service/web");
    assert_eq!(refused.status, 400);
    assert_eq!(refused.body, "id: \"web\" is no service's number: 1 to 65535");
}

#[test]
fn what_the_agent_shows_of_itself() {
    let api = with_endpoint();
    for (path, shape) in [
        ("actors", json!([{"id": 0, "name": "text", "handled": 0, "busy-seconds": 0.5}])),
        ("actors/1", json!("text")),
        ("restore", json!({"phases": [], "endpoints": {}, "finished": true})),
        ("policy", json!({"revision": 0, "policies": [{"source": "text", "selects": 0}]})),
        ("policy/origins", json!({"7": [{"source": "text", "path": "text"}]})),
        ("waits", json!({"waits": [], "cycle": [], "pruning": [{"what": "text", "whom": "text"}]})),
        ("endpoint/442/why", json!({"id": 0, "state": "text", "since-seconds": 0.5, "chain": []})),
        ("build-queue", json!({"permits": 0, "building": [0], "waiting": []})),
        (
            "conntrack",
            json!({
                "interval-seconds": 0.5, "rounds": 0, "rounds-by-signal": 0, "deleted-total": 0,
            }),
        ),
        (
            "devices",
            json!({
                "devices": [{
                    "name": "text", "ifindex": 0, "addresses": {"ipv4": "text"}, "attached": true,
                }],
                "missing": [], "passed-over": {}, "unmasqueraded": [],
            }),
        ),
        (
            "services",
            json!({
                "frontends": 0, "backends": 0, "open": 0, "unread": 0, "room": 0, "rows": 0,
                "awaited": ["text"], "found": [], "foreign": [], "refused": [], "problems": [],
                "failures": 0,
            }),
        ),
        (
            "backends",
            json!([{"id": 0, "ip": "text", "port": 0, "protocol": "text", "state": "text"}]),
        ),
        ("ipam", json!([])),
        ("flight", json!({"file": null, "records": 0, "troubles": ["text"]})),
        ("endpoint-states", json!({})),
    ] {
        assert_shape(&api, &format!("/v1/volvox/{path}"), &shape);
    }
    assert_eq!(api.get("/v1/volvox/actors/4711").status, 404);
}

#[test]
fn what_is_not_there_is_said_in_the_form_of_its_answers() {
    let api = with_endpoint();
    assert_shape(&api, "/v1/fqdn/names", &json!({"FQDNPolicySelectors": [], "DNSPollNames": []}));
    assert_shape(&api, "/v1/cgroup-dump-metadata", &json!({"pod-metadatas": []}));
    assert_shape(&api, "/v1/lrp", &json!([]));
    for (path, status) in [
        ("fqdn/cache", 404),
        ("fqdn/cache/442", 404),
        ("prefilter", 500),
        ("bgp/peers", 501),
        ("bgp/routes", 501),
        ("bgp/route-policies", 501),
        ("map/cilium_lxc/events", 404),
    ] {
        let answer = api.get(&format!("/v1/{path}"));
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        // As Cilium's errors are: a text, and no object.
        assert!(answer.body.is_string(), "{path}: {answer:?}");
    }
    assert_eq!(api.call(Method::DELETE, "/v1/fqdn/cache", String::new()).status, 200);
}

#[test]
fn an_address_that_is_handed_out() {
    let api = Fixture::new();
    let answer = api.call(Method::POST, "/v1/ipam?owner=shop%2Fweb&expiration=true", String::new());
    assert_eq!(answer.status, 201, "{answer:?}");
    let mut found = Vec::new();
    let whole = json!({
        "cidrs": ["text"], "expiration-uuid": "text", "gateway": "text", "ip": "text",
    });
    let shape = json!({
        "address": {"ipv4": "text", "ipv4-pool-name": "text", "ipv4-expiration-uuid": "text"},
        "host-addressing": {"ipv4": {"alloc-range": "text", "enabled": true, "ip": "text"}},
        "ipv4": whole,
    });
    differences(&shape, &answer.body, "", &mut found);
    assert!(found.is_empty(), "{found:#?}\n{:#}", answer.body);
    assert_eq!(answer.body["ipv4"]["ip"], answer.body["address"]["ipv4"]);
    assert_eq!(
        answer.body["ipv4"]["expiration-uuid"],
        answer.body["address"]["ipv4-expiration-uuid"]
    );
}
