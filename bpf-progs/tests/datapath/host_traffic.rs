//! Sockets in real namespaces, and a node whose own policy is asked at every one of its interfaces.

use crate::common::overlay::{CLIENT, PEERS, World, attach, bits, heard, peer};
use crate::common::talk::*;
use crate::common::*;
use aya::programs::TcAttachType;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::TO_OVERLAY;

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;

/// A node with a pod, another node behind the overlay, and a client outside.
struct Network {
    world: World,
    /// Of the node's own namespace.
    here: Namespace,
}

impl Network {
    fn new(rows: &[(PolicyKey, PolicyRow)]) -> Self {
        let mut network = Self::unguarded();
        network.world.node.host_rules(rows);
        network
    }

    /// The same, before the node has a policy.
    fn unguarded() -> Self {
        let mut world = World::with(host_firewall());
        attach(&mut world.node, TO_OVERLAY, "overlay0", TcAttachType::Egress);
        let row = world.node.read_node();
        world.node.node(NodeRow { tunnel_port: Be16::new(8472), ..row });
        Self { world, here: Namespace::here() }
    }

    fn client(like: IpAddr) -> IpAddr {
        if like.is_ipv4() { CLIENT.0 } else { CLIENT.1 }.parse().unwrap()
    }

    /// What the node says to an endpoint of the other node goes by the overlay.
    fn route_by_overlay(&self, identity: u32) {
        let mac = self.world.pod.0.node_mac.map(|byte| format!("{byte:02x}")).join(":");
        for own in [IpAddr::from(GATEWAY.0), GATEWAY.1.into()] {
            let there = peer(identity, own).to_string();
            let (family, own) = (if own.is_ipv4() { "-4" } else { "-6" }, own.to_string());
            let id = identity.to_string();
            let route = [family, "route", "add", &there];
            let encapsulation = ["encap", "ip", "id", &id, "dst", "192.0.2.254", "ttl", "64"];
            let rest = ["dev", "overlay0", "src", &own];
            run_ip(&[&route[..], &encapsulation, &rest].concat());
            run_ip(&["neighbour", "add", &there, "lladdr", &mac, "dev", "overlay0"]);
        }
    }

    /// Checks whether one place's datagram reaches a port of another.
    fn reaches(&self, from: (&Namespace, IpAddr), to: (&Namespace, SocketAddr), expected: bool) {
        let (here, at) = (from.1, to.1);
        let hearing = to.0.run(move || udp_socket(at));
        let patience = if expected { PATIENCE } else { Duration::from_millis(300) };
        hearing.set_read_timeout(Some(patience)).unwrap();
        let asking = from.0.run(move || udp_socket((here, 0).into()));
        // A node's own policy refuses it at once.
        let got = match asking.send_to(b"hello", at) {
            Ok(_) => heard(&hearing),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied);
                false
            }
        };
        assert_eq!(got, expected, "from {here} to {at}");
    }
}

fn ports(direction: Direction, port: u16) -> [(PolicyKey, PolicyRow); 2] {
    [TCP, UDP].map(|protocol| allowed(PolicyKey::ports(direction, 0, protocol, port, 16)))
}

#[test]
fn the_node_hears_one_port_of_everybody() {
    let mut network = Network::new(&ports(IN, 8080));
    let (pod, near) = (&network.world.pod.1, network.world.pod.0);
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    network.world.reach(PEERS[0], &gateway);
    for gate in gateway {
        let up: IpAddr = if gate.is_ipv4() { UPLINK.0.into() } else { UPLINK.1.into() };
        let client = Network::client(gate);
        let elsewhere = peer(PEERS[0], gate);
        for (place, from, own) in [
            (&network.world.other, client, up),
            (pod, near.ip(gate), gate),
            (&network.world.other, elsewhere, gate),
        ] {
            network.reaches((place, from), (&network.here, (own, 8080).into()), true);
            network.reaches((place, from), (&network.here, (own, 8081).into()), false);
            let listener = network.here.run(move || TcpListener::bind((own, 8080)).unwrap());
            if from != elsewhere {
                stream(place, (own, 8080).into(), listener);
            }
        }
    }
    let drops = network.world.node.drops();
    assert_eq!(drops.keys().copied().collect::<Vec<_>>(), [133], "{drops:?}");
}

#[test]
fn the_node_speaks_to_one_port_of_everybody() {
    let mut network = Network::new(&ports(OUT, 8080));
    let (pod, near) = (&network.world.pod.1, network.world.pod.0);
    network.route_by_overlay(PEERS[0]);
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    network.world.reach(PEERS[0], &gateway);
    for gate in gateway {
        let up: IpAddr = if gate.is_ipv4() { UPLINK.0.into() } else { UPLINK.1.into() };
        let client = Network::client(gate);
        for (place, own, there) in [
            (&network.world.other, up, client),
            (pod, gate, near.ip(gate)),
            (&network.world.other, gate, peer(PEERS[0], gate)),
        ] {
            network.reaches((&network.here, own), (place, (there, 8080).into()), true);
            network.reaches((&network.here, own), (place, (there, 8081).into()), false);
            let asking = network.here.run(move || udp_socket((own, 0).into()));
            let answering = place.run(move || udp_socket((there, 8080).into()));
            assert_eq!(ask(&asking, (there, 8080).into(), &answering, 500), own);
        }
    }
    let drops = network.world.node.drops();
    assert_eq!(drops.keys().copied().collect::<Vec<_>>(), [133], "{drops:?}");
}

#[test]
fn a_connection_stays_while_the_policy_changes_around_it() {
    let mut network = Network::new(&ports(IN, 8080));
    for own in [IpAddr::from(UPLINK.0), UPLINK.1.into()] {
        let listener = network.here.run(move || TcpListener::bind((own, 8080)).unwrap());
        let connected = network.world.other.run(move || {
            TcpStream::connect_timeout(&(own, 8080).into(), PATIENCE).expect("it is allowed")
        });
        let (served, _) = listener.accept().unwrap();
        for rows in [&ports(IN, 8080)[..], &[everything(IN)], &[everything(IN), everything(OUT)]] {
            network.world.node.host_rules(rows);
            speak(&connected, &served);
            speak(&served, &connected);
        }
        network.world.node.host_rules(&[]);
        speak(&served, &connected);
        network.world.node.host_rules(&ports(IN, 8080));
    }
}

#[test]
fn the_router_s_address_is_the_node_s_own() {
    let mut network = Network::new(&ports(IN, 8080));
    for gate in [IpAddr::from(GATEWAY.0), GATEWAY.1.into()] {
        network.world.node.remove::<_, LxcRow>("cilium_lxc", LxcKey::new(gate));
    }
    let (pod, near) = (&network.world.pod.1, network.world.pod.0);
    network.route_by_overlay(PEERS[0]);
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    network.world.reach(PEERS[0], &gateway);
    for gate in gateway {
        network.world.node.ipcache(gate, bits(gate), 1);
        let there = peer(PEERS[0], gate);
        for (place, from) in [(pod, near.ip(gate)), (&network.world.other, there)] {
            network.reaches((place, from), (&network.here, (gate, 8080).into()), true);
            network.reaches((place, from), (&network.here, (gate, 8081).into()), false);
        }
    }
    network.world.node.host_rules(&ports(OUT, 8080));
    for gate in gateway {
        let there = peer(PEERS[0], gate);
        network.reaches((&network.here, gate), (&network.world.other, (there, 8080).into()), true);
        network.reaches((&network.here, gate), (&network.world.other, (there, 8081).into()), false);
    }
}

#[test]
fn a_connection_of_the_node_that_is_older_than_its_policy_goes_on() {
    for ipv6 in [false, true] {
        // Without a row of its own the node has no policy, and nothing is noted of what it opens.
        let mut network = Network::unguarded();
        let own: IpAddr = if ipv6 { UPLINK.1.into() } else { UPLINK.0.into() };
        let client = Network::client(own);
        let listener = network.world.other.run(move || TcpListener::bind((client, 443)).unwrap());
        let at = listener.local_addr().unwrap();
        let opened = network.here.run(move || TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        let (other, _) = listener.accept().unwrap();
        network.world.node.host_rules(&[everything(OUT)]);
        speak(&other, &opened);
        speak(&opened, &other);
        // What nobody opened is refused, from such a port to such a port, too.
        network.reaches(
            (&network.world.other, client),
            (&network.here, (own, 40_000).into()),
            false,
        );
    }
}

fn speak(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from, to);
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    from.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    to.read_exact(&mut got).expect("it arrives");
    assert_eq!(&got, b"hello");
}
