//! Tests: for random policies and packets, the rows say the same as the oracle.

use ipnet::Ipv4Net;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    oracle::{
        Drawn, DrawnClause, DrawnPeers, DrawnPorts, Expected, Packet, drawn_address, expected,
        services,
    },
    world::{Other, World, named_ports},
};
use crate::{
    model::{Direction, PolicyRows},
    policy::rules::{PolicySettings, Resolved, Verdict, lookup},
};

/// Ports close to each other and to the ends, so that ranges, prefixes and packets meet.
const PORTS: [u16; 14] = [0, 1, 2, 3, 4, 7, 8, 79, 80, 81, 255, 256, 65534, 65535];

fn port() -> impl Strategy<Value = u16> {
    select(&PORTS)
}

fn net() -> impl Strategy<Value = Ipv4Net> {
    (any::<u8>(), select(&[0, 7, 8, 9, 11, 12, 20, 24, 32])).prop_map(|(bits, length)| {
        let std::net::IpAddr::V4(address) = drawn_address(bits) else {
            unreachable!("drawn addresses are IPv4")
        };
        Ipv4Net::new(address, length).unwrap().trunc()
    })
}

fn cidr() -> impl Strategy<Value = (Ipv4Net, Vec<Ipv4Net>)> {
    (net(), vec(net(), 0..3)).prop_map(|(net, except)| {
        let inside = |part: &Ipv4Net| net.contains(part) && *part != net;
        (net, except.into_iter().filter(inside).collect())
    })
}

fn peers() -> impl Strategy<Value = DrawnPeers> {
    prop_oneof![
        Just(DrawnPeers::Missing),
        Just(DrawnPeers::OwnNamespace),
        vec(select(&["web", "db", "mail"]), 0..3).prop_map(DrawnPeers::Apps),
        vec(select(&["all", "world", "host", "cluster", "none"]), 1..3)
            .prop_map(DrawnPeers::Entities),
        vec(cidr(), 1..3).prop_map(DrawnPeers::Cidrs),
    ]
}

fn ports() -> impl Strategy<Value = DrawnPorts> {
    let range = (select(&["TCP", "UDP", "ANY"]), port(), port(), any::<bool>()).prop_map(
        |(protocol, a, b, one)| {
            if one { (protocol, a, 0) } else { (protocol, a.min(b), a.max(b)) }
        },
    );
    let named = (select(&["TCP", "UDP", "ANY"]), select(&["http", "dns", "nobodys"]));
    prop_oneof![
        Just(DrawnPorts::Missing),
        vec(range, 1..4).prop_map(DrawnPorts::Ports),
        vec(named, 1..3).prop_map(DrawnPorts::Named),
        vec(select(&[0, 3, 8]), 1..3).prop_map(DrawnPorts::Icmp),
    ]
}

/// Those that only a clause of egress names.
fn served() -> impl Strategy<Value = DrawnPeers> {
    let name = option::of(select(&["db", "mail", "lan", "gone"]));
    let namespace = option::of(select(&["default", "other"]));
    vec((name, namespace), 1..3).prop_map(DrawnPeers::Services)
}

fn clause() -> impl Strategy<Value = DrawnClause> {
    let side = prop_oneof![
        4 => (any::<bool>(), peers()),
        1 => (Just(true), served()),
    ];
    (side, prop::bool::weighted(0.3), ports())
        .prop_map(|((egress, peers), deny, ports)| DrawnClause { egress, deny, peers, ports })
}

pub(super) fn policy() -> impl Strategy<Value = Drawn> {
    let flag = || option::weighted(0.2, any::<bool>());
    (vec(clause(), 0..5), [flag(), flag()], prop::bool::weighted(0.1))
        .prop_map(|(clauses, default_deny, for_others)| Drawn { clauses, default_deny, for_others })
}

pub(super) fn packet() -> impl Strategy<Value = Packet> {
    let other = prop_oneof![
        select(&[1u32, 1000, 1001, 1002, 1003, 1004, 4000]).prop_map(Other::Identity),
        any::<u8>().prop_map(|bits| Other::Address(drawn_address(bits))),
    ];
    let port = prop_oneof![4 => port(), 1 => any::<u16>()];
    (any::<bool>(), other, select(&[6u8, 17, 132, 1, 47]), port)
        .prop_map(|(egress, other, protocol, port)| Packet { egress, other, protocol, port })
}

pub(super) fn world(policies: &[Drawn]) -> World {
    let mut world = World::new(PolicySettings::default());
    world.named_ports = named_ports(1000);
    let documents = policies.iter().enumerate().map(|(n, policy)| policy.document(n));
    let report = world.apply(documents.chain(services()));
    assert_eq!(report.rejected, []);
    assert_eq!(report.unsupported, []);
    world
}

pub(super) fn verdict(world: &World, resolved: &Resolved, packet: Packet) -> Verdict {
    let direction = if packet.egress { Direction::Egress } else { Direction::Ingress };
    let peer = world.identity_of(packet.other);
    lookup(&resolved.rows, direction, peer, packet.protocol, packet.port)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_say_what_policies_mean(
        policies in vec(policy(), 0..5), packets in vec(packet(), 40)
    ) {
        let world = world(&policies);
        let resolved = world.resolve("web");
        for packet in packets {
            let verdict = verdict(&world, &resolved, packet);
            let said = match verdict {
                Verdict::Allowed(_) => Expected::Pass,
                Verdict::Denied(_) => Expected::Deny,
                Verdict::NoMatch => Expected::NoMatch,
            };
            prop_assert_eq!(said, expected(&policies, packet), "{:?} {:?}", packet, resolved.rows);
        }
    }

    /// It is the same in whichever order objects come, each on its own, and come again.
    #[test]
    fn the_order_of_objects_does_not_matter(
        policies in vec(policy(), 1..4), order in vec(any::<u16>(), 24)
    ) {
        let together = world(&policies);
        let documents = policies.iter().enumerate().map(|(n, policy)| policy.document(n));
        let mut all: Vec<_> = documents.chain(services()).enumerate().collect();
        let mut one_by_one = World::new(PolicySettings::default());
        one_by_one.named_ports = named_ports(1000);
        all.sort_by_key(|(n, _)| order[n % order.len()]);
        for (n, document) in &all {
            one_by_one.apply_from(&format!("{n:02}.yaml"), &Ok(vec![document.clone()]));
        }
        let before = one_by_one.resolve("web");
        // Cookies tell the sources apart.
        let meant = |rows: &PolicyRows| rows.iter().map(|(key, row)| (*key, row.deny)).collect::<Vec<_>>();
        prop_assert_eq!(meant(&before.rows), meant(&together.resolve("web").rows));
        for (n, document) in &all {
            let source = format!("{n:02}.yaml");
            prop_assert!(!one_by_one.apply_from(&source, &Ok(vec![document.clone()])).changed);
            // What is gone and back leaves nothing behind.
            if document["kind"] != "CiliumNetworkPolicy" {
                one_by_one.apply_from(&source, &Ok(Vec::new()));
                one_by_one.apply_from(&source, &Ok(vec![document.clone()]));
            }
        }
        prop_assert_eq!(one_by_one.resolve("web").rows, before.rows);
    }

    /// Whatever clause a verdict names is about the packet, and decides as the verdict says.
    #[test]
    fn a_cookie_names_clauses_that_decided(
        policies in vec(policy(), 1..5), packets in vec(packet(), 40)
    ) {
        let world = world(&policies);
        let resolved = world.resolve("web");
        for packet in packets {
            let (cookie, deny) = match verdict(&world, &resolved, packet) {
                Verdict::Allowed(cookie) => (cookie, false),
                Verdict::Denied(cookie) => (cookie, true),
                Verdict::NoMatch => continue,
            };
            prop_assert!(cookie != 0 || !deny);
            let origins = resolved.origins.get(&cookie).cloned().unwrap_or_default();
            prop_assert_eq!(origins.is_empty(), cookie == 0);
            for origin in origins {
                let clause = named(&policies, &origin.policy.name, &origin.path);
                prop_assert_eq!(clause.direction(), origin.direction);
                prop_assert!(clause.deny == deny && clause.meets(packet), "{}", origin);
            }
        }
    }
}

/// The drawn clause that an origin's path names, `spec.ingressDeny[2]`.
pub(super) fn named<'a>(policies: &'a [Drawn], name: &str, path: &str) -> &'a DrawnClause {
    let number: usize = name.trim_start_matches("policy-").parse().unwrap();
    let (list, index) =
        path.trim_start_matches("spec.").trim_end_matches(']').split_once('[').unwrap();
    let (egress, deny) = (list.starts_with("egress"), list.ends_with("Deny"));
    let clauses = policies[number].clauses.iter();
    clauses
        .filter(|clause| clause.egress == egress && clause.deny == deny)
        .nth(index.parse().unwrap())
        .unwrap()
}
