//! Tests: the plugin behind the real `bridge`, `ptp` and `host-local`, and real plugins behind it.

use std::os::fd::AsFd;

use axum::http::Method;
use serde_json::{Value, json};
use volvox_actors::{endpoints::endpoint::chained_datapath, model::Mac, ports::Link};
use volvox_rest::delete_queue::{Deletion, LOCK_PATIENCE};
use volvox_system::{
    netlink::{Socket, Veth},
    netns::Netns,
};

use super::{
    fake_agent::Fault,
    real_plugins::{bridge, ptp, run},
    scene::{CONTAINER, Scene, play},
};
use crate::{CniError, ErrorCode};

/// The plugin's configuration behind another one that answered `previous`.
fn behind(scene: &Scene, previous: &Value) -> Value {
    let mut config = scene.config("1.0.0");
    config["chaining-mode"] = json!("generic-veth");
    if !previous.is_null() {
        config["prevResult"] = previous.clone();
    }
    config
}

async fn call(scene: &Scene, command: &str, previous: &Value) -> Result<Option<Value>, CniError> {
    scene.call_with(&scene.env(command), &behind(scene, previous)).await
}

/// What is there of the other plugin: the node's side and the container's.
fn theirs(scene: &Scene) -> (Vec<Link>, Vec<Link>) {
    (scene.node_links(), scene.container_links())
}

#[track_caller]
fn refused(error: &CniError, code: ErrorCode, word: &str) {
    assert_eq!(error.code, code, "{error}");
    assert!(error.to_string().contains(word), "{error} does not say {word}");
}

#[test]
fn behind_another_plugin_the_interface_that_is_there_becomes_an_endpoint() {
    type Of = fn(&Scene, &str) -> Value;
    for (version, of) in
        [("0.4.0", bridge as Of), ("1.0.0", bridge), ("0.4.0", ptp), ("1.0.0", ptp)]
    {
        play(async move |scene| {
            scene.start_agent();
            let first = of(scene, version);
            let previous = run(scene, "ADD", &first).unwrap();
            let before = theirs(scene);
            let mut config = behind(scene, &previous);
            config["cniVersion"] = json!(version);
            let result = scene.call_with(&scene.env("ADD"), &config).await.unwrap().unwrap();
            assert_eq!(result, previous, "nothing is added, and nothing lost");
            assert_eq!(theirs(scene), before, "nothing of theirs is changed");

            let inside = &before.1[0];
            let host = before.0.iter().find(|link| link.ifindex == inside.peer_ifindex).unwrap();
            {
                let world = scene.agent.world();
                let endpoint = &world.endpoints[&format!("{CONTAINER}:eth0")];
                assert_eq!(
                    (endpoint.interface_index, endpoint.interface_name.as_str()),
                    (host.ifindex, host.name.as_str())
                );
                assert_eq!((endpoint.mac, endpoint.host_mac), (inside.mac, host.mac));
                assert_eq!(endpoint.datapath_configuration, chained_datapath());
                let cookie = scene.container.cookie().unwrap().to_string();
                assert_eq!(
                    (&endpoint.netns_cookie, endpoint.k8s_pod_name.as_str()),
                    (&cookie, "web-1")
                );
                for address in endpoint.addressing.addresses().iter() {
                    assert!(inside.addresses.iter().any(|own| own.addr() == address), "{address}");
                }
                assert_eq!(endpoint.addressing.addresses().iter().count(), 2);
                let asked = |path: &str| world.requests.iter().any(|it| it.contains(path));
                assert!(!asked("/v1/ipam"), "{:?}", world.requests);
            }
            scene.call_with(&scene.env("CHECK"), &config).await.unwrap();
            run(scene, "CHECK", &with(&first, &previous)).unwrap();
            scene.call_with(&scene.env("DEL"), &config).await.unwrap();
            assert_eq!(theirs(scene), before);
            assert!(scene.agent.world().endpoints.is_empty());
            run(scene, "DEL", &with(&first, &previous)).unwrap();
            assert_eq!(scene.container_links(), []);
        });
    }
}

fn with(config: &Value, previous: &Value) -> Value {
    let mut config = config.clone();
    config["prevResult"] = previous.clone();
    config
}

#[test]
fn a_second_add_is_refused_and_one_with_a_new_interface_takes_its_place() {
    play(async |scene| {
        scene.start_agent();
        let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
        call(scene, "ADD", &previous).await.unwrap();
        let before = theirs(scene);
        let error = call(scene, "ADD", &previous).await.unwrap_err();
        refused(&error, ErrorCode::InvalidEnvironment, "in use");
        assert_eq!((theirs(scene), scene.agent.world().endpoints.len()), (before, 1));

        // The bridge was asked to begin anew, and we never heard of the end.
        run(scene, "DEL", &with(&bridge(scene, "1.0.0"), &previous)).unwrap();
        let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
        call(scene, "ADD", &previous).await.unwrap();
        let world = scene.agent.world();
        let inside = &scene.container_links()[0];
        let endpoint = &world.endpoints[&format!("{CONTAINER}:eth0")];
        assert_eq!(endpoint.interface_index, inside.peer_ifindex);
    });
}

#[test]
fn what_the_kernel_does_not_show_is_refused() {
    play(async |scene| {
        scene.start_agent();
        let error = call(scene, "ADD", &Value::Null).await.unwrap_err();
        refused(&error, ErrorCode::InvalidConfig, "none came before");
        let lost = json!({"cniVersion": "1.0.0", "interfaces": [], "ips": []});
        let error = call(scene, "ADD", &lost).await.unwrap_err();
        refused(&error, ErrorCode::Mismatch, "no interface eth0");

        let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
        let before = theirs(scene);
        let mut foreign = previous.clone();
        for interface in foreign["interfaces"].as_array_mut().unwrap() {
            interface["name"] = json!("net1");
        }
        let error = call(scene, "ADD", &foreign).await.unwrap_err();
        refused(&error, ErrorCode::InvalidConfig, "does not name eth0");
        let mut foreign = previous.clone();
        foreign["ips"][0]["address"] = json!("10.99.0.9/24");
        let error = call(scene, "ADD", &foreign).await.unwrap_err();
        refused(&error, ErrorCode::Mismatch, "10.99.0.9");
        // Addresses of another interface of the container are not this one's.
        let mut more = previous.clone();
        more["interfaces"].as_array_mut().unwrap().push(json!({"name": "net1", "sandbox": "/x"}));
        let place = more["interfaces"].as_array().unwrap().len() - 1;
        let other = json!({"address": "10.99.0.9/24", "interface": place});
        more["ips"].as_array_mut().unwrap().push(other);
        call(scene, "ADD", &more).await.unwrap();
        call(scene, "DEL", &more).await.unwrap();

        let config = scene.config("1.0.0");
        let error =
            scene.call_with(&scene.env("ADD"), &with(&config, &previous)).await.unwrap_err();
        refused(&error, ErrorCode::InvalidConfig, "first plugin");
        assert_eq!(theirs(scene), before);
        assert!(scene.agent.world().endpoints.is_empty());
    });
}

#[test]
fn an_interface_without_a_side_on_this_node_is_refused() {
    play(async |scene| {
        scene.start_agent();
        let (mac, peer_mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let veth =
            |name, peer, peer_netns| Veth { name, peer, peer_netns, mtu: 1500, mac, peer_mac };
        // Another container has the other side; here a pair of the same numbers leads elsewhere.
        let (other, third) = (Netns::create().unwrap(), Netns::create().unwrap());
        other
            .run(|| {
                let peer = Some(scene.container.as_fd());
                Socket::open().unwrap().create_veth(&veth("a", "eth0", peer)).unwrap();
            })
            .unwrap();
        Socket::open().unwrap().create_veth(&veth("b", "c", Some(third.as_fd()))).unwrap();
        let inside = scene.container_links()[0].clone();
        let here = &scene.node_links()[0];
        assert_eq!(
            (inside.peer_ifindex, here.peer_ifindex),
            (here.ifindex, inside.ifindex),
            "the numbers alone prove nothing"
        );
        let error = call(scene, "ADD", &json!({"cniVersion": "1.0.0"})).await.unwrap_err();
        refused(&error, ErrorCode::Mismatch, "not on this node");
        assert!(scene.agent.world().endpoints.is_empty());
    });
}

#[test]
fn a_failure_at_any_request_leaves_the_other_plugins_interface() {
    let faults = [
        (Method::GET, "/v1/config", Fault::Refuse(503), ErrorCode::TryLater),
        (Method::GET, "/v1/endpoint", Fault::Refuse(500), ErrorCode::Agent),
        (Method::PUT, "/v1/endpoint", Fault::Refuse(400), ErrorCode::Rejected),
        (Method::PUT, "/v1/endpoint", Fault::DieAfter, ErrorCode::TryLater),
        (Method::PUT, "/v1/endpoint", Fault::HangUntilCancelled, ErrorCode::TryLater),
    ];
    for (method, path, fault, code) in faults {
        play(async move |scene| {
            let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
            let before = theirs(scene);
            scene.agent.world().fault = Some((method.clone(), path, fault));
            scene.start_agent();
            let error = call(scene, "ADD", &previous).await.unwrap_err();
            assert_eq!(error.code, code, "{method} {path} {fault:?}: {error}");
            scene.agent.world().fault = None;
            let left = scene.agent.world().endpoints.clone();
            assert_eq!((theirs(scene).1.len(), left.len()), (before.1.len(), 0), "{fault:?}");
        });
    }
}

#[test]
fn with_the_agent_dead_the_deletion_waits_and_their_interface_stays() {
    play(async |scene| {
        let agent = scene.start_agent();
        let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
        call(scene, "ADD", &previous).await.unwrap();
        agent.abort();
        drop(agent.await);
        let before = theirs(scene);
        call(scene, "DEL", &previous).await.unwrap();
        // A runtime may have lost the result.
        call(scene, "DEL", &Value::Null).await.unwrap();
        assert_eq!(theirs(scene), before);
        let entries = scene.queue().hold(LOCK_PATIENCE).unwrap().read().unwrap().0;
        let expected = Deletion::Endpoint(format!("cni-attachment-id:{CONTAINER}:eth0"));
        assert_eq!(entries.iter().map(|it| &it.deletion).collect::<Vec<_>>(), [&expected]);
        run(scene, "DEL", &with(&bridge(scene, "1.0.0"), &previous)).unwrap();
        call(scene, "DEL", &previous).await.unwrap();
    });
}

#[test]
fn check_sees_that_the_endpoint_is_at_another_interface() {
    play(async |scene| {
        scene.start_agent();
        let previous = run(scene, "ADD", &bridge(scene, "1.0.0")).unwrap();
        call(scene, "ADD", &previous).await.unwrap();
        let attachment = format!("{CONTAINER}:eth0");
        scene.agent.world().endpoints.get_mut(&attachment).unwrap().interface_index += 70;
        let error = call(scene, "CHECK", &previous).await.unwrap_err();
        refused(&error, ErrorCode::Mismatch, "another interface");
    });
}

/// What the plugin answers first is what real plugins behind it can work with.
#[test]
fn others_behind_it_understand_the_result() {
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        play(async move |scene| {
            scene.start_agent();
            let result = scene.call_with(&scene.env("ADD"), &scene.config(version)).await;
            let result = result.unwrap().unwrap();
            let ports = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
            let portmap = json!({
                "cniVersion": version, "name": "volvox", "type": "portmap", "snat": true,
                "capabilities": {"portMappings": true}, "runtimeConfig": {"portMappings": ports},
                "prevResult": result,
            });
            let after = run(scene, "ADD", &portmap).unwrap();
            assert_eq!(after["ips"][0]["address"], "10.7.0.2/32", "{version}");
            let tuning = json!({
                "cniVersion": version, "name": "volvox", "type": "tuning",
                "sysctl": {"net.ipv4.conf.IFNAME.log_martians": "1"}, "prevResult": after,
            });
            let last = run(scene, "ADD", &tuning).unwrap();
            assert_eq!(last["interfaces"].as_array().unwrap().len(), 2, "{version}: {last}");
            assert_eq!(last["interfaces"][1]["sandbox"], result["interfaces"][1]["sandbox"]);
            run(scene, "DEL", &portmap).unwrap();
            scene.call_with(&scene.env("DEL"), &scene.config(version)).await.unwrap();
        });
    }
}
