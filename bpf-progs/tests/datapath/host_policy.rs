//! What the node itself may hear and send, at its device.

use crate::common::outside::World;
use crate::common::*;
use aya::maps::PerCpuHashMap;
use std::net::IpAddr;
use volvox_bpf_progs::drop_reason::source_file;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{Features, TracePoint};

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;

fn world(rows: &[(PolicyKey, PolicyRow)]) -> World {
    let mut world = World::with(host_firewall());
    world.node.host_rules(rows);
    world
}

/// Why a frame from the wire drops, which otherwise passes as it is.
fn hears(world: &mut World, frame: Vec<u8>) -> Option<u8> {
    let (up, frame) = (world.up, sealed(frame));
    world.node.drop_of(|node| {
        let got = node.receive(&up, &frame);
        assert!(got.action == SHOT || (got.action, &got.frame) == (OK, &frame), "{got:?}");
        got
    })
}

/// Why a frame to the wire drops, which otherwise passes as it is.
fn sends(world: &mut World, frame: Vec<u8>) -> Option<u8> {
    let (up, frame) = (world.up, sealed(frame));
    world.node.drop_of(|node| {
        let got = node.emit(&up, 0, &frame);
        assert!(got.action == SHOT || (got.action, &got.frame) == (OK, &frame), "{got:?}");
        got
    })
}

/// One packet of each protocol.
fn each(from: IpAddr, to: IpAddr, port: u16) -> [Vec<u8>; 3] {
    [tcp(from, to, 5000, port, SYN), udp(from, to, 5000, port), echo(from, to, port, false)]
}

fn ping(like: IpAddr) -> (u8, u16) {
    if like.is_ipv4() { (ICMP, 8) } else { (ICMPV6, 128) }
}

/// All passes both ways, and nothing is noted of it.
fn nobody_is_asked(mut world: World) {
    for (_, own, far) in world.families() {
        for frame in each(far, own, 22) {
            assert_eq!(hears(&mut world, frame), None);
        }
        for frame in each(own, far, 22) {
            assert_eq!(sends(&mut world, frame), None);
        }
    }
    assert_eq!(world.node.tracked_count(), 0);
}

#[test]
fn switched_off_nobody_is_asked() {
    let mut world = World::new();
    world.node.host_rules(&[]);
    nobody_is_asked(world);
}

#[test]
fn without_a_row_nobody_is_asked() {
    nobody_is_asked(World::with(host_firewall()));
}

#[test]
fn what_no_rule_allows_is_not_heard_and_not_sent() {
    let mut world = world(&[]);
    for (_, own, far) in world.families() {
        for frame in each(far, own, 22) {
            assert_eq!(hears(&mut world, frame), Some(133));
        }
        for frame in each(own, far, 22) {
            assert_eq!(sends(&mut world, frame), Some(133));
        }
    }
    assert_eq!(world.node.tracked_count(), 0);
}

#[test]
fn a_rule_allows_its_port_in_its_direction() {
    let mut world = world(&[]);
    for (_, own, far) in world.families() {
        let (protocol, kind) = ping(own);
        for direction in [IN, OUT] {
            let rows = [TCP, UDP].map(|protocol| PolicyKey::ports(direction, 0, protocol, 22, 16));
            let rows = [rows[0], rows[1], PolicyKey::ports(direction, 0, protocol, kind, 16)];
            world.node.host_rules(&rows.map(allowed));
            let (into, out) = if direction == IN { (None, Some(133)) } else { (Some(133), None) };
            // Other ends for the other direction, lest one answers the other.
            for frame in each(far, own, 22) {
                assert_eq!(hears(&mut world, frame), into);
            }
            for frame in [tcp(own, far, 6000, 22, SYN), udp(own, far, 6000, 22)] {
                assert_eq!(sends(&mut world, frame), out);
            }
            assert_eq!(sends(&mut world, echo(own, far, 77, false)), out);
            assert_eq!(hears(&mut world, udp(far, own, 5000, 23)), Some(133));
            assert_eq!(sends(&mut world, udp(own, far, 5000, 23)), Some(133));
        }
    }
}

#[test]
fn a_deny_stands_against_what_is_allowed() {
    let ssh = |direction| denied(PolicyKey::ports(direction, 0, TCP, 22, 16));
    let mut world = world(&[everything(IN), everything(OUT), ssh(IN), ssh(OUT)]);
    for (_, own, far) in world.families() {
        assert_eq!(hears(&mut world, tcp(far, own, 5000, 22, SYN)), Some(181));
        assert_eq!(hears(&mut world, tcp(far, own, 5000, 23, SYN)), None);
        assert_eq!(sends(&mut world, tcp(own, far, 5000, 22, SYN)), Some(181));
        assert_eq!(sends(&mut world, tcp(own, far, 5000, 24, SYN)), None);
    }
}

#[test]
fn the_ipcache_tells_who_the_other_end_is() {
    let mut world = world(&[]);
    for ((_, own, far), outside) in world.families().into_iter().zip(WORLD_IDENTITIES) {
        let bits = if far.is_ipv4() { 32 } else { 128 };
        for (identity, here) in [(outside, false), (777, true)] {
            if here {
                world.node.ipcache(far, bits, identity);
            }
            for other in [outside, 777] {
                let expected = if other == identity { None } else { Some(133) };
                world.node.host_rules(&[allowed(PolicyKey::any(IN, other))]);
                assert_eq!(hears(&mut world, udp(far, own, 5000, 22)), expected, "{identity}");
                world.node.host_rules(&[allowed(PolicyKey::any(OUT, other))]);
                assert_eq!(sends(&mut world, udp(own, far, 6000, 22)), expected, "{identity}");
            }
        }
    }
}

#[test]
fn other_addresses_of_the_node_are_its_own_too() {
    let mut world = world(&[]);
    for (other, far) in [("203.0.113.5", "198.51.100.7"), ("2001:db8:5::5", "2001:db8:7::7")] {
        let (other, far): (IpAddr, IpAddr) = (other.parse().unwrap(), far.parse().unwrap());
        assert_eq!(hears(&mut world, udp(far, other, 5000, 22)), None, "somebody's");
        assert_eq!(sends(&mut world, udp(other, far, 5000, 22)), None);
        world.node.host_address(other);
        assert_eq!(hears(&mut world, udp(far, other, 5000, 22)), Some(133));
        assert_eq!(sends(&mut world, udp(other, far, 5000, 22)), Some(133));
    }
}

#[test]
fn nobody_outside_has_an_address_of_this_node() {
    let mut world = world(&[everything(IN)]);
    for (near, own, _) in world.families() {
        for forged in [near, own] {
            assert_eq!(hears(&mut world, udp(forged, own, 5000, 22)), Some(132));
        }
    }
}

#[test]
fn records_name_the_nodes_endpoint() {
    stay_here();
    let mut world = world(&[everything(IN), allowed(PolicyKey::ports(OUT, 0, UDP, 53, 16))]);
    let mut listener = Listener::new(&mut world.node);
    for ((_, own, far), outside) in world.families().into_iter().zip(WORLD_IDENTITIES) {
        assert_eq!(hears(&mut world, udp(far, own, 5000, 22)), None);
        let samples = listener.samples();
        let [Some(Record::Verdict(verdict, _)), Some(Record::Trace(trace, _))] =
            [0, 1].map(|n| Record::parse(&samples[n]))
        else {
            panic!("{samples:?}")
        };
        assert_eq!((verdict.header.source, verdict.remote_identity), (HOST_ENDPOINT, outside));
        assert_eq!((verdict.verdict, verdict.is_egress(), verdict.cookie), (0, false, 7));
        assert_eq!(trace.header.subtype, TracePoint::ToHost as u8);
        assert_eq!((trace.header.source, trace.dst_ep), (HOST_ENDPOINT, HOST_ENDPOINT));
        assert_eq!((trace.src_identity, trace.dst_identity), (outside, 1));
        assert_eq!(sends(&mut world, udp(own, far, 5000, 53)), None);
        let samples = listener.samples();
        let [Some(Record::Verdict(verdict, _)), Some(Record::Trace(trace, _))] =
            [0, 1].map(|n| Record::parse(&samples[n]))
        else {
            panic!("{samples:?}")
        };
        assert_eq!((verdict.header.source, verdict.is_egress()), (HOST_ENDPOINT, true));
        assert_eq!(verdict.remote_identity, outside);
        assert_eq!(trace.header.subtype, TracePoint::ToNetwork as u8);
        assert_eq!(trace.header.source, HOST_ENDPOINT);
        assert_eq!(sends(&mut world, udp(own, far, 5000, 54)), Some(133));
        let samples = listener.samples();
        let Some(Record::Drop(record, _)) = Record::parse(samples.last().unwrap()) else {
            panic!("{samples:?}")
        };
        assert_eq!((record.header.source, record.header.subtype), (HOST_ENDPOINT, 133));
        assert_eq!((record.src_identity, record.dst_identity), (1, outside));
        assert_eq!(source_file(record.file), Some("policy.h"));
    }
}

#[test]
fn its_rows_are_counted_as_an_endpoints() {
    let features = Features { policy_stats: true, ..host_firewall() };
    let mut world = World::with(features);
    world.node.host_rules(&[everything(IN), allowed(PolicyKey::ports(OUT, 0, UDP, 53, 16))]);
    let (_, own, far) = world.families()[0];
    assert_eq!(hears(&mut world, udp(far, own, 5000, 22)), None);
    assert_eq!(sends(&mut world, udp(own, far, 5000, 53)), None);
    let mut keys = Vec::new();
    world.node.map::<PerCpuHashMap<_, PolicyStatsKey, PolicyStatsRow>>(
        "cilium_policystats",
        |map| {
            keys.extend(map.keys().map(Result::unwrap));
        },
    );
    keys.sort_unstable();
    let heard = PolicyStatsKey { ep_id: HOST_ENDPOINT, ..PolicyStatsKey::default() };
    let port = Be16::new(53);
    let sent = PolicyStatsKey { prefix_len: 24, egress: 1, protocol: UDP, port, ..heard };
    assert_eq!(keys, [heard, sent]);
}
