//! What was there before: left by a call that was killed, in use, or somebody else's.

use std::os::fd::AsFd;

use axum::http::Method;
use serde_json::json;
use volvox_actors::{model::Mac, ports::Link};
use volvox_system::{
    netlink::{Socket, Veth},
    netns::Netns,
};

use super::{
    fake_agent::Fault,
    scene::{CONTAINER, Scene, play},
};
use crate::{CniError, ErrorCode, interface::host_name};

/// Makes a pair from here into a container.
fn pair(scene: &Scene, name: &str, peer: &str) {
    let (mac, peer_mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let peer_netns = Some(scene.container.as_fd());
    let veth = Veth { name, peer, peer_netns, mtu: 1500, mac, peer_mac };
    Socket::open().unwrap().create_veth(&veth).unwrap();
}

async fn of_interface(scene: &Scene, command: &str, ifname: &str) -> Result<(), CniError> {
    let mut env = scene.env(command);
    env.insert("CNI_IFNAME".into(), ifname.into());
    scene.call_with(&env, &scene.config("1.1.0")).await.map(drop)
}

/// Each interface of the container and the way by which its default routes lead.
fn inside(scene: &Scene) -> (Vec<Link>, String) {
    let routes = || std::fs::read_to_string("/proc/thread-self/net/route").unwrap();
    (scene.container_links(), scene.container.run(routes).unwrap())
}

#[test]
fn a_second_add_is_an_error_and_leaves_the_first_alone() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        let before = (scene.node_links(), inside(scene));
        let held = scene.agent.world().addresses.clone();
        let error = scene.call("ADD").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidEnvironment, "{error}");
        // The same container with another namespace, too.
        let other = Netns::create().unwrap();
        let mut env = scene.env("ADD");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&other.as_fd());
        env.insert("CNI_NETNS".into(), format!("/proc/self/fd/{fd}"));
        scene.call_with(&env, &scene.config("1.0.0")).await.unwrap_err();
        assert_eq!((scene.node_links(), inside(scene)), before);
        let world = scene.agent.world();
        assert_eq!((world.endpoints.len(), &world.addresses), (1, &held));
    });
}

#[test]
fn what_an_add_left_that_was_killed_is_replaced() {
    for killed_after in ["link", "alias", "put"] {
        play(async move |scene| {
            scene.start_agent();
            let name = host_name(&format!("{CONTAINER}:eth0"));
            if killed_after == "put" {
                scene.call("ADD").await.unwrap();
            } else {
                pair(scene, &name, "eth0");
            }
            if killed_after != "link" {
                let mut socket = Socket::open().unwrap();
                let left = socket.link_by_name(&name).unwrap().unwrap();
                socket.set_alias(left.ifindex, "volvox-cni:volvox (adding)").unwrap();
            }
            let before = scene.node_links()[0].ifindex;
            scene.call("ADD").await.unwrap();
            assert_eq!((scene.node_links().len(), scene.container_links().len()), (1, 1));
            let now = scene.node_links()[0].ifindex;
            assert_ne!(now, before, "{killed_after}");
            {
                let world = scene.agent.world();
                let endpoint = &world.endpoints[&format!("{CONTAINER}:eth0")];
                assert_eq!((world.endpoints.len(), endpoint.interface_index), (1, now));
                assert_eq!(world.addresses.len(), 2, "those of before were given back");
            }
            // It has answered by now.
            scene.call("ADD").await.unwrap_err();
        });
    }
}

#[test]
fn an_endpoint_whose_interface_is_gone_is_in_nobody_s_way() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        let left = scene.node_links()[0].ifindex;
        Socket::open().unwrap().delete_link(left).unwrap();
        scene.call("ADD").await.unwrap();
        assert_eq!(scene.agent.world().endpoints.len(), 1);
    });
}

#[test]
fn somebody_else_s_interface_is_not_removed() {
    play(async |scene| {
        scene.start_agent();
        pair(scene, "foreign", "eth0");
        let before = (scene.node_links(), inside(scene));
        let error = scene.call("ADD").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidEnvironment, "{error}");
        of_interface(scene, "ADD", "lo").await.unwrap_err();
        assert_eq!((scene.node_links(), inside(scene)), before);
        assert!(scene.agent.world().addresses.is_empty());
    });
}

#[test]
fn a_second_interface_leaves_the_first_its_routes_and_each_goes_by_itself() {
    for goes in ["net1", "eth0"] {
        play(async move |scene| {
            scene.start_agent();
            scene.call("ADD").await.unwrap();
            let first = inside(scene);
            of_interface(scene, "ADD", "net1").await.unwrap();
            let both = inside(scene);
            assert_eq!(both.1, first.1, "routes of the first");
            let second = both.0.iter().find(|link| link.name == "net1").unwrap();
            // What is sent from its address leaves by it.
            let (address, ifindex) = (second.addresses[0].addr(), second.ifindex);
            let way = scene.container.run(|| way_from(address)).unwrap();
            assert_eq!(way, Some(ifindex), "{address}");
            assert_eq!(scene.agent.world().endpoints.len(), 2);

            of_interface(scene, "DEL", goes).await.unwrap();
            let left: Vec<_> = scene.container_links().into_iter().map(|it| it.name).collect();
            assert_eq!(left, [if goes == "net1" { "eth0" } else { "net1" }]);
            assert_eq!((scene.node_links().len(), scene.agent.world().endpoints.len()), (1, 1));
            of_interface(scene, "DEL", goes).await.unwrap();
            assert_eq!(scene.agent.world().endpoints.len(), 1);
        });
    }
}

/// The interface by which the calling thread's namespace sends from an address.
fn way_from(source: std::net::IpAddr) -> Option<u32> {
    let to = if source.is_ipv4() { "198.51.100.1" } else { "2001:db8::1" };
    let source = source.to_string();
    let asked = std::process::Command::new("ip")
        .args(["-j", "route", "get", to, "from", &source])
        .output()
        .unwrap();
    let routes: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    let device = routes[0]["dev"].as_str()?.to_owned();
    Some(Socket::open().unwrap().link_by_name(&device).unwrap()?.ifindex)
}

#[test]
fn what_is_collected_is_of_that_network_and_of_no_attachment_that_is_valid() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        let mut env = scene.env("ADD");
        env.insert("CNI_IFNAME".into(), "net1".into());
        let mut second = scene.config("1.1.0");
        second["name"] = "second".into();
        scene.call_with(&env, &second).await.unwrap();
        let names = || {
            let world = scene.agent.world();
            world
                .endpoints
                .keys()
                .map(|it| it[CONTAINER.len() + 1..].to_owned())
                .collect::<Vec<_>>()
        };
        let valid = json!([{"containerID": CONTAINER, "ifname": "eth0"}]);
        let gc = async |name: &str, valid: &serde_json::Value| {
            let mut config = scene.config("1.1.0");
            (config["name"], config["cni.dev/valid-attachments"]) = (name.into(), valid.clone());
            scene.call_with(&scene.env("GC"), &config).await.unwrap();
        };
        gc("volvox", &valid).await;
        gc("third", &json!([])).await;
        assert_eq!(names(), ["eth0", "net1"]);
        gc("second", &valid).await;
        assert_eq!(names(), ["eth0"]);
        gc("volvox", &json!([])).await;
        scene.assert_untouched();
    });
}

#[test]
fn an_agent_that_cannot_say_who_is_there_has_nothing_removed() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        let before = (scene.node_links(), inside(scene));
        scene.agent.world().fault = Some((Method::GET, "/v1/endpoint", Fault::Refuse(500)));
        scene.call("ADD").await.unwrap_err();
        assert_eq!((scene.node_links(), inside(scene)), before);
        assert_eq!(scene.agent.world().endpoints.len(), 1);
    });
}
