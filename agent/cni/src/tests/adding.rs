//! Tests: what ADD makes, and that an ADD that fails at any step leaves nothing.

use axum::http::Method;
use serde_json::json;
use volvox_actors::model::Mac;
use volvox_rest::delete_queue::{Deletion, LOCK_PATIENCE};

use super::{
    fake_agent::Fault,
    scene::{CONTAINER, play},
};
use crate::{ErrorCode, interface::host_name};

#[test]
fn an_added_container_has_interface_addresses_routes_and_endpoint() {
    play(async |scene| {
        scene.start_agent();
        let result = scene.call("ADD").await.unwrap().unwrap();

        let name = host_name(&format!("{CONTAINER}:eth0"));
        let host = &scene.node_links()[0];
        let inside = &scene.container_links()[0];
        assert_eq!((host.name.as_str(), host.up, host.mtu), (name.as_str(), true, 1450));
        assert_eq!((inside.name.as_str(), inside.up, inside.mtu), ("eth0", true, 1450));
        for net in ["10.7.0.2/32", "fd07::2/128"] {
            assert!(inside.addresses.contains(&net.parse().unwrap()), "{:?}", inside.addresses);
        }
        let routes = scene
            .container
            .run(|| std::fs::read_to_string("/proc/thread-self/net/route").unwrap())
            .unwrap();
        assert!(routes.contains("eth0\t00000000\t0100070A"), "default via the router: {routes}");
        assert!(routes.contains("eth0\t0100070A\t00000000"), "the router on the link: {routes}");

        let host_side = format!("/proc/sys/net/ipv6/conf/{name}");
        let is = |parameter: &str| std::fs::read_to_string(format!("{host_side}/{parameter}"));
        for (parameter, value) in [("accept_dad", "0\n"), ("forwarding", "1\n")] {
            assert_eq!(is(parameter).unwrap(), value, "{parameter}");
        }

        let world = scene.agent.world();
        let endpoint = &world.endpoints[&format!("{CONTAINER}:eth0")];
        assert_eq!((endpoint.interface_index, endpoint.host_mac), (host.ifindex, host.mac));
        assert_eq!((endpoint.mac, endpoint.sync_build_endpoint), (inside.mac, true));
        assert_eq!((endpoint.k8s_namespace.as_str(), endpoint.k8s_uid.as_str()), ("shop", "u-1"));
        assert_eq!(endpoint.k8s_pod_name, "web-1");
        assert_eq!(endpoint.netns_cookie, scene.container.cookie().unwrap().to_string());
        assert!(world.requests.contains(&"POST /v1/ipam?owner=shop%2Fweb-1".to_owned()));

        assert_eq!(result["interfaces"][0]["name"], json!(name));
        assert_eq!(result["interfaces"][1]["mac"], json!(inside.mac.to_string()));
        assert_eq!(result["ips"][0]["address"], "10.7.0.2/32");
        assert_eq!(result["ips"][1]["gateway"], "fd07::1");
    });
}

#[test]
fn a_node_without_ipv6_gives_no_ipv6() {
    play(async |scene| {
        scene.agent.world().ipv6 = false;
        scene.start_agent();
        let result = scene.call("ADD").await.unwrap().unwrap();
        assert_eq!(result["ips"].as_array().unwrap().len(), 1);
        assert_eq!(result["routes"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn the_agent_may_choose_the_mac() {
    play(async |scene| {
        scene.agent.world().mac = "0a:00:00:00:00:09";
        scene.start_agent();
        let result = scene.call("ADD").await.unwrap().unwrap();
        assert_eq!(result["interfaces"][1]["mac"], "0a:00:00:00:00:09");
        assert_eq!(scene.container_links()[0].mac, Mac([0x0a, 0, 0, 0, 0, 9]));
    });
}

#[test]
fn a_failure_at_any_request_leaves_nothing() {
    let faults = [
        (Method::GET, "/v1/config", Fault::Refuse(500), ErrorCode::Agent),
        (Method::GET, "/v1/config", Fault::Refuse(503), ErrorCode::TryLater),
        (Method::GET, "/v1/config", Fault::Garble, ErrorCode::Agent),
        (Method::GET, "/v1/config", Fault::DieAfter, ErrorCode::TryLater),
        (Method::GET, "/v1/config", Fault::HangUntilCancelled, ErrorCode::TryLater),
        (Method::POST, "/v1/ipam", Fault::Refuse(502), ErrorCode::Agent),
        (Method::PUT, "/v1/endpoint", Fault::Refuse(400), ErrorCode::Rejected),
        (Method::PUT, "/v1/endpoint", Fault::Refuse(429), ErrorCode::TryLater),
        (Method::PUT, "/v1/endpoint", Fault::Refuse(500), ErrorCode::Agent),
        (Method::PUT, "/v1/endpoint", Fault::Garble, ErrorCode::Agent),
        (Method::PUT, "/v1/endpoint", Fault::DieAfter, ErrorCode::TryLater),
        (Method::PUT, "/v1/endpoint", Fault::HangUntilCancelled, ErrorCode::TryLater),
    ];
    for (method, path, fault, code) in faults {
        play(async move |scene| {
            scene.agent.world().fault = Some((method.clone(), path, fault));
            scene.start_agent();
            let error = scene.call("ADD").await.unwrap_err();
            assert_eq!(error.code, code, "{method} {path} {fault:?}: {error}");
            scene.assert_untouched();
        });
    }
}

#[test]
fn an_agent_restarted_meanwhile_costs_an_attempt_and_not_the_pod() {
    for (method, path) in
        [(Method::GET, "/v1/config"), (Method::POST, "/v1/ipam"), (Method::PUT, "/v1/endpoint")]
    {
        play(async move |scene| {
            scene.agent.world().fault = Some((method.clone(), path, Fault::DieOnceAfter));
            scene.start_agent();
            scene.call("ADD").await.unwrap();
            assert_eq!((scene.node_links().len(), scene.container_links().len()), (1, 1));
            let world = scene.agent.world();
            let asked =
                world.requests.iter().filter(|request| request.contains("/v1/config")).count();
            assert_eq!((asked, world.endpoints.len()), (2, 1), "{:?}", world.requests);
        });
    }
}

#[test]
fn a_failure_in_the_kernel_leaves_nothing() {
    play(async |scene| {
        scene.agent.world().mtu = 1 << 30;
        scene.start_agent();
        let error = scene.call("ADD").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Interface, "{error}");
        scene.assert_untouched();
    });
}

#[test]
fn a_mac_that_the_kernel_refuses_takes_the_endpoint_away_again() {
    play(async |scene| {
        // A multicast address.
        scene.agent.world().mac = "ff:ff:ff:ff:ff:ff";
        scene.start_agent();
        let error = scene.call("ADD").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Interface, "{error}");
        scene.assert_untouched();
        // The endpoint took its addresses with it: they were not released a second time.
        let requests = scene.agent.world().requests.clone();
        assert!(!requests.iter().any(|request| request.starts_with("DELETE /v1/ipam")));
    });
}

#[test]
fn an_agent_that_dies_for_good_finds_the_deletion_queued() {
    play(async |scene| {
        scene.agent.world().fault = Some((Method::PUT, "/v1/endpoint", Fault::HangUntilCancelled));
        let agent = scene.start_agent();
        let mut cancelled = scene.agent.cancelled();
        let (error, ()) = tokio::join!(scene.call("ADD"), async {
            cancelled.wait_for(|cancelled| *cancelled).await.unwrap();
            agent.abort();
        });
        assert_eq!(error.unwrap_err().code, ErrorCode::TryLater);
        assert_eq!((scene.node_links(), scene.container_links()), (vec![], vec![]));
        let entries = scene.queue().hold(LOCK_PATIENCE).unwrap().read().unwrap().0;
        let expected = Deletion::Endpoint(format!("cni-attachment-id:{CONTAINER}:eth0"));
        assert_eq!(entries[0].deletion, expected);
    });
}

#[test]
fn the_nodes_own_namespace_is_no_container() {
    play(async |scene| {
        scene.start_agent();
        let mut env = scene.env("ADD");
        env.insert("CNI_NETNS".into(), "/proc/thread-self/ns/net".into());
        let error = scene.call_with(&env, &scene.config("1.0.0")).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidEnvironment, "{error}");
        env.insert("CNI_NETNS".into(), "/run/netns/none-such".into());
        let error = scene.call_with(&env, &scene.config("1.0.0")).await.unwrap_err();
        assert!(error.to_string().contains("/run/netns/none-such"), "{error}");
        scene.assert_untouched();
    });
}
