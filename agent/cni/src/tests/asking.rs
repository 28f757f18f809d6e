//! Tests: CHECK names what was changed, STATUS follows the agent, and GC removes only what is ours.

use serde_json::{Value, json};
use volvox_system::netlink::Socket;

use super::scene::{CONTAINER, Scene, play};
use crate::{CniError, ErrorCode};

async fn check(scene: &Scene, previous: &Value) -> Result<(), CniError> {
    let mut config = scene.config("0.4.0");
    config["prevResult"] = previous.clone();
    scene.call_with(&scene.env("CHECK"), &config).await.map(|answer| assert_eq!(answer, None))
}

#[test]
fn a_container_that_is_as_it_was_made_passes() {
    play(async |scene| {
        scene.start_agent();
        for version in ["0.4.0", "1.0.0", "1.1.0"] {
            let added = scene.call_with(&scene.env("ADD"), &scene.config(version)).await;
            check(scene, &added.unwrap().unwrap()).await.unwrap();
            scene.call("DEL").await.unwrap();
        }
    });
}

#[test]
fn what_was_changed_in_a_container_is_named() {
    play(async |scene| {
        scene.start_agent();
        let result = scene.call("ADD").await.unwrap().unwrap();
        let refused = async |previous: &Value, word: &str| {
            let error = check(scene, previous).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Mismatch, "{error}");
            assert!(error.msg.contains(word), "{error}");
        };
        let mut other = result.clone();
        other["ips"][0]["address"] = "10.7.0.99/32".into();
        refused(&other, "10.7.0.99").await;
        let mut other = result.clone();
        other["interfaces"][1]["mac"] = "02:00:00:00:00:99".into();
        refused(&other, "02:00:00:00:00:99").await;
        let ifindex = scene.container_links()[0].ifindex;
        let inside = |work: fn(&mut Socket, u32)| {
            scene.container.run(|| work(&mut Socket::open().unwrap(), ifindex)).unwrap();
        };
        inside(|socket, ifindex| socket.set_link_down(ifindex).unwrap());
        refused(&result, "down").await;
        inside(|socket, ifindex| assert!(socket.delete_link(ifindex).unwrap()));
        refused(&result, "gone").await;
    });
}

#[test]
fn a_check_tells_what_passes_from_what_is_lost() {
    play(async |scene| {
        let agent = scene.start_agent();
        let result = scene.call("ADD").await.unwrap().unwrap();
        for (health, code) in [("Pending", ErrorCode::TryLater), ("Failure", ErrorCode::Agent)] {
            scene.agent.world().health = health;
            assert_eq!(check(scene, &result).await.unwrap_err().code, code);
        }
        scene.agent.world().endpoints.clear();
        let error = check(scene, &result).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownContainer, "{error}");
        let error = scene.call_with(&scene.env("CHECK"), &scene.config("1.0.0")).await.unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (ErrorCode::InvalidConfig, "prevResult is missing")
        );
        agent.abort();
    });
}

#[test]
fn status_follows_the_agent() {
    play(async |scene| {
        let error = scene.call("STATUS").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAvailable, "{error}");
        scene.start_agent();
        assert_eq!(scene.call("STATUS").await.unwrap(), None);
        scene.agent.world().state = "Failure";
        let error = scene.call("STATUS").await.unwrap_err();
        assert_eq!(
            (error.code, error.details.as_str()),
            (ErrorCode::LimitedConnectivity, "why not")
        );
    });
}

#[test]
fn gc_removes_what_the_runtime_does_not_know_and_is_ours() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        // Made through the API by somebody else, with an interface of another name.
        let mut foreign = scene.agent.world().endpoints[&format!("{CONTAINER}:eth0")].clone();
        foreign.interface_name = "veth7".into();
        scene.agent.world().endpoints.insert("foreign:eth0".into(), foreign);

        let without_list = scene.call("GC").await.unwrap_err();
        assert_eq!(without_list.code, ErrorCode::InvalidConfig, "{without_list}");
        let collect = async |valid: Value| {
            let mut config = scene.config("1.1.0");
            config["cni.dev/valid-attachments"] = valid;
            scene.call_with(&scene.env("GC"), &config).await.unwrap();
        };
        collect(json!([{"containerID": CONTAINER, "ifname": "eth0"}])).await;
        assert_eq!(scene.agent.world().endpoints.len(), 2);
        collect(json!([{"containerID": CONTAINER, "ifname": "eth1"}])).await;
        let left: Vec<_> = scene.agent.world().endpoints.keys().cloned().collect();
        assert_eq!(left, ["foreign:eth0"]);
        assert_eq!((scene.node_links(), scene.container_links()), (vec![], vec![]));
    });
}
