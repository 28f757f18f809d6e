//! The node's policy where the overlay leads to it.

use crate::common::overlay::{PEERS, World, heard, peer};
use crate::common::talk::*;
use crate::common::*;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::layouts::*;

/// A node with a policy, whose addresses the other node reaches by the overlay for all its endpoints.
fn world(rows: &[(PolicyKey, PolicyRow)]) -> World {
    let mut world = World::with(host_firewall());
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    for identity in PEERS {
        world.reach(identity, &gateway);
    }
    // The overlay's own packets come and go by the device.
    let row: NodeRow = world.node.read_node();
    world.node.node(NodeRow { tunnel_port: Be16::new(8472), ..row });
    world.node.host_rules(rows);
    world
}

/// Whether what an endpoint of the other node says reaches the node.
fn hears(world: &World, identity: u32, hearing: &UdpSocket) -> bool {
    hearing.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let to = hearing.local_addr().unwrap();
    let from = peer(identity, to.ip());
    world.other.run(move || udp_socket((from, 0).into()).send_to(b"hello", to).unwrap());
    heard(hearing)
}

#[test]
fn the_node_hears_whom_its_policy_lets_speak() {
    let mut world = world(&[allowed(PolicyKey::any(Direction::Ingress, PEERS[0]))]);
    for own in [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)] {
        let hearing = udp_socket((own, 0).into());
        assert!(hears(&world, PEERS[0], &hearing), "{:?}", world.node.drops());
        let before = world.node.drops().get(&133).copied().unwrap_or(0);
        assert!(!hears(&world, PEERS[1], &hearing));
        assert_eq!(world.node.drops().get(&133), Some(&(before + 1)));
    }
}

#[test]
fn the_pod_hears_the_overlay_whatever_the_node_may_hear() {
    let world = world(&[]);
    for like in [world.pod.0.v4(), world.pod.0.v6()] {
        assert!(world.hears(PEERS[0], like), "the outer packets are not the policy's concern");
    }
}

#[test]
fn an_address_of_this_node_does_not_speak_to_it_by_the_overlay() {
    let mut world = world(&[everything(Direction::Ingress)]);
    for own in [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)] {
        let hearing = udp_socket((own, 0).into());
        assert!(hears(&world, PEERS[0], &hearing));
        world.node.put("cilium_lxc", LxcKey::new(peer(PEERS[0], own)), LxcRow::default());
        let before = world.node.drops().get(&132).copied().unwrap_or(0);
        assert!(!hears(&world, PEERS[0], &hearing));
        assert_eq!(world.node.drops().get(&132), Some(&(before + 1)));
    }
}
