//! What the node and an endpoint of its own say to each other: two ends, two policies.

use crate::common::*;
use std::net::{IpAddr, Ipv6Addr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::drop_reason::source_file;
use volvox_bpf_progs::layouts::*;

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;
const HOST: u32 = 1;
/// Mark of what the node itself sends.
const HOST_MARK: u32 = 0x0c00;

struct World {
    node: Node,
    pod: Endpoint,
}

impl World {
    /// A node with these rules, and an endpoint that may all.
    fn new(features: Features, rows: &[(PolicyKey, PolicyRow)]) -> Self {
        let mut node = Node::with(features);
        let pod = node.endpoint(1);
        for address in [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)] {
            node.host_address(address);
        }
        node.rules(&pod, &[everything(IN), everything(OUT)]);
        node.host_rules(rows);
        Self { node, pod }
    }

    /// The endpoint's address and the node's, of each family.
    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        [(self.pod.v4(), GATEWAY.0.into()), (self.pod.v6(), GATEWAY.1.into())]
    }

    fn pod_may(&mut self, rows: &[(PolicyKey, PolicyRow)]) {
        let pod = self.pod;
        self.node.rules(&pod, rows);
    }

    /// Why a frame of the endpoint to the node drops; otherwise it passes as it is.
    fn up(&mut self, frame: Vec<u8>) -> Option<u8> {
        let (pod, frame) = (self.pod, sealed(frame));
        self.node.drop_of(|node| {
            let got = node.send(&pod, &frame);
            assert!(got.action == SHOT || (got.action, &got.frame) == (OK, &frame), "{got:?}");
            got
        })
    }

    /// Why a frame of the node to the endpoint drops.
    fn down(&mut self, mark: u32, frame: Vec<u8>) -> Option<u8> {
        let (pod, frame) = (self.pod, sealed(frame));
        self.node.drop_of(|node| node.deliver(&pod, mark, &frame))
    }
}

fn each(from: IpAddr, to: IpAddr, port: u16) -> [Vec<u8>; 3] {
    [tcp(from, to, 5000, port, SYN), udp(from, to, 5000, port), echo(from, to, port, false)]
}

fn answers(from: IpAddr, to: IpAddr, port: u16) -> [Vec<u8>; 3] {
    [tcp(from, to, port, 5000, SYN | ACK), udp(from, to, port, 5000), echo(from, to, port, true)]
}

#[test]
fn switched_off_or_without_a_row_the_node_is_not_asked() {
    for (features, rows) in [(Features::default(), true), (host_firewall(), false)] {
        let mut world = World::new(features, &[]);
        if !rows {
            world.node.remove::<u32, ConfigRow>("volvox_config", HOST_IFINDEX);
        }
        for (near, own) in world.families() {
            for frame in each(near, own, 22) {
                assert_eq!(world.up(frame), None);
            }
            for frame in each(own, near, 23) {
                assert_eq!(world.down(0, frame), None);
            }
        }
        assert_eq!(world.node.tracked_count(), 12, "the endpoint's own");
    }
}

#[test]
fn an_endpoint_speaks_to_the_node_if_both_let_it() {
    let mut world = World::new(host_firewall(), &[]);
    let identity = world.pod.identity;
    for (near, own) in world.families() {
        world.node.host_rules(&[]);
        for frame in each(near, own, 22) {
            assert_eq!(world.up(frame), Some(133));
        }
        let ports = [TCP, UDP].map(|protocol| PolicyKey::ports(IN, identity, protocol, 22, 16));
        world.node.host_rules(&ports.map(allowed));
        assert_eq!(world.up(udp(near, own, 6000, 22)), None);
        assert_eq!(world.up(udp(near, own, 6000, 23)), Some(133));
        world.node.host_rules(&[allowed(PolicyKey::any(IN, identity + 1))]);
        assert_eq!(world.up(udp(near, own, 6000, 22)), Some(133), "another endpoint's identity");
        world.node.host_rules(&[everything(IN), denied(PolicyKey::any(IN, identity))]);
        assert_eq!(world.up(udp(near, own, 6000, 22)), Some(181));
        world.node.host_rules(&[everything(IN)]);
        for (asked, answered) in each(near, own, 24).into_iter().zip(answers(own, near, 24)) {
            assert_eq!(world.down(0, answered.clone()), Some(133), "nobody asked");
            assert_eq!(world.up(asked), None);
            assert_eq!(world.down(0, answered), None);
        }
        world.pod_may(&[]);
        assert_eq!(world.up(udp(near, own, 7000, 22)), Some(133), "the endpoint may not");
        world.pod_may(&[everything(IN), everything(OUT)]);
    }
}

#[test]
fn the_node_speaks_to_an_endpoint_if_both_let_it() {
    let mut world = World::new(host_firewall(), &[]);
    let identity = world.pod.identity;
    for (near, own) in world.families() {
        for mark in [0, HOST_MARK] {
            world.node.host_rules(&[]);
            for frame in each(own, near, 80) {
                assert_eq!(world.down(mark, frame), Some(133));
            }
            world.node.host_rules(&[allowed(PolicyKey::ports(OUT, identity, UDP, 80, 16))]);
            assert_eq!(world.down(mark, udp(own, near, 6000, 80)), None);
            assert_eq!(world.down(mark, udp(own, near, 6000, 81)), Some(133));
            world.node.host_rules(&[everything(OUT)]);
            let port = 1000 + mark as u16;
            let pairs = each(own, near, port).into_iter().zip(answers(near, own, port));
            for (asked, answered) in pairs {
                assert_eq!(world.up(answered.clone()), Some(133), "nobody asked");
                assert_eq!(world.down(mark, asked), None);
                assert_eq!(world.up(answered), None);
            }
            world.pod_may(&[everything(OUT)]);
            assert_eq!(world.down(mark, udp(own, near, 7000, 80)), Some(133), "it does not hear");
            world.pod_may(&[allowed(PolicyKey::any(IN, HOST)), everything(OUT)]);
            assert_eq!(world.down(mark, udp(own, near, 7000, 80)), None);
            world.pod_may(&[everything(IN), everything(OUT)]);
        }
        let pods = sealed(udp("192.0.2.9".parse().unwrap(), world.pod.v4(), 1, 2));
        world.node.host_rules(&[]);
        assert_eq!(world.down(0, pods), None, "not of the node's own");
    }
}

#[test]
fn what_one_end_permits_does_not_stand_for_the_other() {
    let mut world = World::new(host_firewall(), &[]);
    for (near, own) in world.families() {
        let into = Connection { opener: (near, 5000), other: (own, 22), protocol: UDP };
        let out = Connection { opener: (own, 22), other: (near, 5000), protocol: UDP };
        // The endpoint's policy lets its question out; the node's does not let it in, nor the answer out.
        world.node.host_rules(&[]);
        assert_eq!(world.up(udp(near, own, 5000, 22)), Some(133));
        assert!(world.node.tracked(into, TupleFlags::OUT).is_some(), "the endpoint has asked");
        assert!(world.node.tracked(into, TupleFlags::IN).is_none(), "the node has not heard");
        assert_eq!(world.down(0, udp(own, near, 22, 5000)), Some(133), "so there is no answer");
        // The node's policy lets it speak; the endpoint's does not hear, nor answer.
        world.node.host_rules(&[everything(OUT)]);
        world.node.untrack(into, TupleFlags::OUT);
        world.pod_may(&[]);
        assert_eq!(world.down(0, udp(own, near, 22, 5000)), Some(133));
        assert!(world.node.tracked(out, TupleFlags::OUT).is_some(), "the node has asked");
        assert!(world.node.tracked(out, TupleFlags::IN).is_none(), "the endpoint has not heard");
        assert_eq!(world.up(udp(near, own, 5000, 22)), Some(133), "so it does not answer");
        // The entries of one end go: the other's packets pass no more.
        world.pod_may(&[everything(IN)]);
        assert_eq!(world.down(0, udp(own, near, 22, 5000)), None);
        assert_eq!(world.up(udp(near, own, 5000, 22)), None);
        world.node.untrack(out, TupleFlags::OUT);
        assert_eq!(world.up(udp(near, own, 5000, 22)), Some(133), "the node did not ask");
        world.pod_may(&[everything(IN), everything(OUT)]);
    }
}

#[test]
fn the_drop_names_the_end_that_refuses() {
    stay_here();
    let mut world = World::new(host_firewall(), &[]);
    let mut listener = Listener::new(&mut world.node);
    let pod = world.pod;
    for (near, own) in world.families() {
        let refused = |listener: &mut Listener| {
            let samples = listener.samples();
            let Some(Record::Drop(record, _)) = Record::parse(samples.last().unwrap()) else {
                panic!("{samples:?}")
            };
            assert_eq!(source_file(record.file), Some("policy.h"));
            (record.header.source, record.src_identity, record.dst_identity)
        };
        world.up(udp(near, own, 5000, 22));
        assert_eq!(refused(&mut listener), (HOST_ENDPOINT, pod.identity, HOST));
        world.down(0, udp(own, near, 5001, 80));
        assert_eq!(refused(&mut listener), (HOST_ENDPOINT, HOST, pod.identity));
        world.node.host_rules(&[everything(OUT)]);
        world.pod_may(&[]);
        world.down(0, udp(own, near, 5002, 80));
        assert_eq!(refused(&mut listener), (pod.id, HOST, pod.identity));
        world.pod_may(&[everything(OUT)]);
        world.node.host_rules(&[]);
    }
}

#[test]
fn the_node_may_serve_and_the_endpoint_hears_the_service() {
    let mut world = World::new(host_firewall(), &[]);
    let pod = world.pod;
    for (near, own) in world.families() {
        let service = service_address(near);
        let id = if near.is_ipv4() { 7 } else { 1007 };
        world.node.backend(id, (own, 6443).into(), 0, BackendState::Active);
        world.node.service((service, 443).into(), UDP, random_service(SERVICE), &[id]);
        let asked = sealed(udp(near, service, 5000, 443));
        let rules = [allowed(PolicyKey::ports(IN, pod.identity, UDP, 6443, 16))];
        for round in 0..3 {
            world.node.host_rules(&rules);
            // The second and third take the short way.
            let got = world.node.send(&pod, &asked);
            let expected = sealed(udp(near, own, 5000, 6443));
            assert_eq!((got.action, got.frame), (OK, expected), "{round} {:?}", world.node.drops());
            let got = world.node.deliver(&pod, 0, &sealed(udp(own, near, 6443, 5000)));
            assert_eq!((got.action, got.frame), (OK, sealed(udp(service, near, 443, 5000))));
            world.node.host_rules(&[]);
            assert_eq!(world.node.drop_of(|node| node.send(&pod, &asked)), Some(133), "{round}");
        }
    }
}

#[test]
fn errors_find_those_whose_connection_it_is() {
    let mut world = World::new(host_firewall(), &[everything(IN), everything(OUT)]);
    for (near, own) in world.families() {
        let far: IpAddr =
            if near.is_ipv4() { "198.51.100.7" } else { "2001:db8:7::7" }.parse().unwrap();
        let (up, down, out) =
            (udp(near, own, 5000, 22), udp(own, near, 6000, 80), udp(near, far, 7000, 53));
        assert_eq!(world.up(up.clone()), None);
        assert_eq!(world.down(0, down.clone()), None);
        assert_eq!(world.up(out.clone()), None);
        world.node.host_rules(&[]);
        world.pod_may(&[]);
        assert_eq!(world.down(0, unreachable(own, near, &sealed(up))), None);
        assert_eq!(world.up(unreachable(near, own, &sealed(down))), None);
        assert_eq!(world.down(0, unreachable(own, near, &sealed(out))), None, "of its router");
        let unknown = sealed(udp(near, far, 7000, 54));
        assert_eq!(world.down(0, unreachable(own, near, &unknown)), Some(133));
        world.pod_may(&[everything(IN), everything(OUT)]);
        world.node.host_rules(&[everything(IN), everything(OUT)]);
    }
}

#[test]
fn an_address_of_the_link_is_the_nodes_and_neighbours_find_it() {
    let mut world = World::new(host_firewall(), &[]);
    let link = IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));
    let pod = world.pod;
    let asked = tcp(pod.v6(), link, 5000, 22, SYN);
    assert_eq!(world.up(asked.clone()), Some(133));
    world.node.host_rules(&[allowed(PolicyKey::any(IN, pod.identity))]);
    assert_eq!(world.up(asked), None);
    world.node.host_rules(&[]);
    let IpAddr::V6(of_link) = link else { unreachable!() };
    let question = solicitation(pod.mac, pod.ipv6, of_link);
    assert_eq!(world.node.drop_of(|node| node.send(&pod, &question)), None);
    let question = solicitation(pod.node_mac, GATEWAY.1, pod.ipv6);
    assert_eq!(world.node.drop_of(|node| node.deliver(&pod, 0, &question)), None);
}
