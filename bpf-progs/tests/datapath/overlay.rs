//! The overlay: what endpoints of other nodes say and hear through it.

use crate::common::frame::ANY_MACS;
use crate::common::host::host_firewall;
use crate::common::overlay::*;
use crate::common::talk::*;
use crate::common::*;
use aya::maps::HashMap;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::programs::tc::TcAttachType;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::TO_OVERLAY;
use zerocopy::IntoBytes;

#[test]
fn the_other_node_hears_the_pod_itself_with_its_identity() {
    let mut world = World::new();
    let pod = world.pod.0;
    for near in [pod.v4(), pod.v6()] {
        // The device of the pod's identity is the only one that takes its packets.
        let there = peer(pod.identity, near);
        let asking = world.pod.1.run(move || udp_socket((near, 0).into()));
        let answering = world.other.run(move || udp_socket((there, 5300).into()));
        for bytes in [1, 1000] {
            assert_eq!(ask(&asking, (there, 5300).into(), &answering, bytes), near);
        }
    }
    assert_eq!(world.node.drops(), [].into());
    assert_eq!(world.node.translations(), [], "nothing of the overlay is translated");
}

#[test]
fn policy_sees_the_identity_that_the_overlay_tells_of_whom_nobody_knows_yet() {
    let mut world = World::new();
    let pod = world.pod.0;
    world.only_from(PEERS[0]);
    for like in [pod.v4(), pod.v6()] {
        world.not_in_ipcache(peer(PEERS[0], like));
        world.not_in_ipcache(peer(PEERS[1], like));
        assert!(world.hears(PEERS[0], like));
        assert!(!world.hears(PEERS[1], like));
    }
    assert_eq!(world.node.drops(), [(133, 2)].into());
}

#[test]
fn what_is_known_of_an_endpoint_counts_more_than_what_the_overlay_tells() {
    let mut world = World::new();
    let pod = world.pod.0;
    world.only_from(PEERS[0]);
    for like in [pod.v4(), pod.v6()] {
        world.behind_overlay(peer(PEERS[0], like), PEERS[1]);
        assert!(!world.hears(PEERS[0], like), "it is another one");
        world.behind_overlay(peer(PEERS[1], like), PEERS[0]);
        assert!(world.hears(PEERS[1], like));
        // Nobody becomes more by what is known than the other node says: a stranger may have the address.
        world.behind_overlay(peer(WORLD[0], like), PEERS[0]);
        assert!(!world.hears(WORLD[0], like));
    }
}

/// Strangers are known by no address of a node.
#[test]
fn only_nodes_of_the_cluster_speak_by_the_overlay() {
    let mut world = World::new();
    let pod = world.pod.0;
    for like in [pod.v4(), pod.v6()] {
        world.not_in_ipcache(peer(PEERS[0], like));
        assert!(world.hears(PEERS[0], like));
    }
    for who in [0, 1, 9, 777] {
        // Nobody, this node, the world, an endpoint.
        world.node.ipcache(OTHER_NODE.into(), 32, who);
        for like in [pod.v4(), pod.v6()] {
            assert!(!world.hears(PEERS[0], like), "{who}");
        }
    }
    // What the other node's devices say of themselves is dropped with it.
    let drops = world.node.drops();
    assert!(drops.len() == 1 && drops[&132] >= 8, "{drops:?}");
    // By the labels of a node, or as one with an API server.
    for who in [7, 2 << 24 | 5] {
        world.node.ipcache(OTHER_NODE.into(), 32, who);
        assert!(world.hears(PEERS[0], pod.v4()), "{who}");
    }
}

#[test]
fn a_node_speaks_only_for_what_lives_behind_it() {
    let mut world = World::new();
    let pod = world.pod.0;
    for like in [pod.v4(), pod.v6()] {
        let endpoint = peer(PEERS[0], like);
        world.behind([192, 0, 2, 77], endpoint, PEERS[0]);
        assert!(!world.hears(PEERS[0], like), "it lives behind a third node");
        world.behind_overlay(endpoint, PEERS[0]);
        assert!(world.hears(PEERS[0], like));
    }
    assert_eq!(world.node.drops(), [(132, 2)].into());
    // A further address of a node is behind its first one, and reached without the overlay.
    world.behind([192, 0, 2, 77], peer(PEERS[0], pod.v4()), PEERS[0]);
    let flags = IpcacheFlags::HAS_TUNNEL_ENDPOINT | IpcacheFlags::SKIP_TUNNEL;
    world.row([192, 0, 2, 77], OTHER_NODE.into(), REMOTE_NODE, flags);
    assert!(world.hears(PEERS[0], pod.v4()));
}

#[test]
fn a_node_that_claims_to_be_this_one_or_nobody_is_a_remote_node() {
    let mut world = World::new();
    let pod = world.pod.0;
    for claimed in [HOST, 0] {
        for like in [pod.v4(), pod.v6()] {
            world.only_from(HOST);
            assert!(!world.hears(claimed, like), "{claimed} is not this node");
            world.only_from(REMOTE_NODE);
            assert!(world.hears(claimed, like), "{claimed} is another one");
        }
    }
}

#[test]
fn an_address_of_this_node_does_not_come_by_the_overlay() {
    let mut world = World::new();
    let pod = world.pod.0;
    let forged = peer(PEERS[0], pod.v4());
    assert!(world.hears(PEERS[0], pod.v4()));
    world.node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
        map.insert(LxcKey::new(forged), LxcRow { lxc_id: 9, ..LxcRow::default() }, 0).unwrap()
    });
    assert!(!world.hears(PEERS[0], pod.v4()));
    assert_eq!(world.node.drops(), [(132, 1)].into());
}

#[test]
fn the_node_itself_hears_the_overlay() {
    let mut world = World::new();
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    world.reach(PEERS[0], &gateway);
    for own in gateway {
        let hearing = udp_socket((own, 0).into());
        let (from, to) = (peer(PEERS[0], own), hearing.local_addr().unwrap());
        world.other.run(move || udp_socket((from, 0).into()).send_to(b"hello", to).unwrap());
        let (_, heard) = receive(&hearing, &mut [0; 16], "what the other node says");
        assert_eq!(heard.ip(), from);
    }
    assert_eq!(world.node.drops(), [].into());
}

/// Routes lead to addresses that the ipcache does not have yet.
#[test]
fn what_the_stack_sends_by_the_overlay_keeps_its_sender() {
    for features in [Features::default(), host_firewall()] {
        let mut world = World::with(features);
        let pod = world.pod.0;
        attach(&mut world.node, TO_OVERLAY, "overlay0", TcAttachType::Egress);
        // The other node does not hear the identity that the routes name.
        world.other.run(|| run_ip(&["link", "delete", &format!("vx{REMOTE_NODE}")]));
        for near in [pod.v4(), pod.v6()] {
            let there = peer(pod.identity, near);
            world.not_in_ipcache(there);
            routed(there, pod.node_mac);
            let asking = world.pod.1.run(move || udp_socket((near, 0).into()));
            let answering = world.other.run(move || udp_socket((there, 5300).into()));
            assert_eq!(ask(&asking, (there, 5300).into(), &answering, 500), near);
            // Answers to who asks the pod itself go the same way.
            let asked = world.pod.1.run(move || udp_socket((near, 5301).into()));
            let asking = world.other.run(move || udp_socket((there, 0).into()));
            assert_eq!(ask(&asking, (near, 5301).into(), &asked, 500), there);
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn the_node_itself_is_another_node_to_others() {
    let mut world = World::new();
    let mac = world.pod.0.node_mac;
    attach(&mut world.node, TO_OVERLAY, "overlay0", TcAttachType::Egress);
    for own in [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)] {
        let there = peer(REMOTE_NODE, own);
        routed(there, mac);
        world.reach(REMOTE_NODE, &[own]);
        let asking = udp_socket((own, 0).into());
        let answering = world.other.run(move || udp_socket((there, 5300).into()));
        assert_eq!(ask(&asking, (there, 5300).into(), &answering, 500), own);
    }
}

/// Whoever has the node forward his packets is not the node, nor whoever's address he takes.
#[test]
fn strangers_behind_the_node_are_the_world() {
    let mut world = World::new();
    attach(&mut world.node, TO_OVERLAY, "overlay0", TcAttachType::Egress);
    let stranger = Namespace::new();
    run_ip(&["link", "add", "near0", "type", "veth", "peer", "name", "far0"]);
    run_ip(&["link", "set", "far0", "netns", &stranger.path]);
    for (name, value) in [("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/near0/rp_filter", "0")] {
        std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
    }
    let plug = |name: &str, addresses: [&str; 2]| {
        let [four, six] = addresses.map(|it| format!("address add {it} dev {name}"));
        for command in [format!("link set {name} up"), four, six + " nodad"] {
            run_ip(&command.split(' ').collect::<Vec<_>>());
        }
    };
    plug("near0", ["172.31.0.1/24", "fd31::1/64"]);
    stranger.run(move || plug("far0", ["172.31.0.2/24", "fd31::2/64"]));
    for (nth, own) in ["172.31.0.2", "fd31::2"].into_iter().enumerate() {
        let own: IpAddr = own.parse().unwrap();
        let there = peer(WORLD[nth], own);
        let forged: IpAddr = ["10.2.0.250", "f00d:2::250"][nth].parse().unwrap();
        world.behind_overlay(forged, PEERS[0]);
        routed(there, ANY_MACS.1);
        world.reach(WORLD[nth], &[own]);
        stranger.run(move || {
            let family = if own.is_ipv4() { "-4" } else { "-6" };
            let gateway = if own.is_ipv4() { "172.31.0.1" } else { "fd31::1" };
            run_ip(&[family, "route", "add", "default", "via", gateway]);
            let forged = format!("{forged}/{}", bits(forged));
            std::fs::write("/proc/sys/net/ipv6/conf/far0/accept_dad", "0").unwrap();
            run_ip(&["address", "add", &forged, "dev", "far0", "nodad"]);
        });
        let asking = stranger.run(move || udp_socket((own, 0).into()));
        let answering = world.other.run(move || udp_socket((there, 5300).into()));
        assert_eq!(ask(&asking, (there, 5300).into(), &answering, 500), own);
        let forging = stranger.run(move || udp_socket((forged, 0).into()));
        forging.send_to(b"hello", (there, 5300)).unwrap();
        let (_, heard) = receive(&answering, &mut [0; 16], "what has another's address");
        assert_eq!(heard.ip(), forged);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn rows_that_skip_the_overlay_and_nodes_without_one_use_the_stack() {
    let (mut node, _) = Node::with_uplink();
    let pod = node.endpoint(1);
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&pod, &[(key, PolicyRow::allow(&key, 1))]);
    let there = peer(PEERS[0], pod.v4());
    for (tunnel_ifindex, flags, action) in [
        (1, IpcacheFlags::HAS_TUNNEL_ENDPOINT, REDIRECT),
        (0, IpcacheFlags::HAS_TUNNEL_ENDPOINT, OK),
        (1, IpcacheFlags::HAS_TUNNEL_ENDPOINT | IpcacheFlags::SKIP_TUNNEL, OK),
        (1, 0, OK),
    ] {
        node.node(NodeRow { tunnel_ifindex, ..NodeRow::default() });
        let key = IpcacheKey::new(there, 32);
        let row = IpcacheRow { identity: 777, flags, ..IpcacheRow::default() };
        node.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
        let sent = sealed(udp(pod.v4(), there, 1000, 53));
        let got = node.send(&pod, &sent);
        assert_eq!((got.action, got.frame), (action, sent), "{tunnel_ifindex} {flags}");
        let mark = if action == OK { pod.identity << 16 | 0x0f00 } else { 0x0400 };
        assert_eq!(got.mark, mark);
    }
}
