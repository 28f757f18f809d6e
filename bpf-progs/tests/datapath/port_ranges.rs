//! Policy lookup against a naive reading of the same rows.

use crate::common::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use volvox_bpf_progs::layouts::*;

/// Identity that the rows call the peer.
const PEER: u32 = 10_002;

type Rows = BTreeMap<PolicyKey, PolicyRow>;

/// Few ports and protocols, so that rows and packets meet.
fn port() -> impl Strategy<Value = u16> {
    prop_oneof![0..16u16, 65_520..=65_535u16, any::<u16>()]
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(TCP), Just(UDP), Just(SCTP)]
}

fn row() -> impl Strategy<Value = (PolicyKey, PolicyRow)> {
    let identity = prop_oneof![Just(0), Just(PEER), Just(77)];
    let key = (identity, 0..4u8, protocol(), port(), 0..=16u8).prop_map(
        |(identity, kind, protocol, port, bits)| match kind {
            0 => PolicyKey::any(Direction::Egress, identity),
            1 => PolicyKey::protocol(Direction::Egress, identity, protocol),
            _ => PolicyKey::ports(Direction::Egress, identity, protocol, port, bits),
        },
    );
    (key, any::<bool>(), 1..4u32).prop_map(|(key, deny, priority)| {
        let row = if deny { PolicyRow::deny(&key, 0) } else { PolicyRow::allow(&key, 0) };
        (key, PolicyRow { precedence: priority << 8 | (row.precedence & 0xff), ..row })
    })
}

/// The row with the longest prefix that covers a packet, for one identity.
fn longest(rows: &Rows, identity: u32, protocol: u8, port: u16) -> Option<PolicyRow> {
    let covers = |key: &PolicyKey| match key.l4_bits() {
        0 => true,
        bits => {
            let port_bits = u32::from(bits) - 8;
            let same_port = (key.port.get() ^ port).leading_zeros() >= port_bits;
            key.protocol == protocol && same_port
        }
    };
    rows.iter()
        .filter(|(key, _)| key.identity == identity && covers(key))
        .max_by_key(|(key, _)| key.prefix_len)
        .map(|(_, row)| *row)
}

/// The reason to drop that the rows give.
fn oracle(rows: &Rows, protocol: u8, port: u16) -> Option<u8> {
    let peer = longest(rows, PEER, protocol, port);
    let every = longest(rows, 0, protocol, port);
    let row = match (peer, every) {
        (Some(peer), Some(every)) => {
            let rank = |row: PolicyRow| (row.precedence, row.flags >> 3);
            if rank(every) > rank(peer) { every } else { peer }
        }
        (one, other) => match one.or(other) {
            Some(row) => row,
            None => return Some(133),
        },
    };
    row.is_deny().then_some(181)
}

fn frame(a: &Endpoint, b: &Endpoint, protocol: u8, port: u16, sport: u16) -> Vec<u8> {
    let l4 = match protocol {
        TCP => tcp_header(sport, port, SYN),
        UDP => udp_header(sport, port),
        _ => sctp_header(sport, port, SCTP_INIT),
    };
    ip(a.v4(), b.v4(), protocol, &l4)
}

#[test]
fn rows_mean_what_they_say() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    assert_eq!(b.identity, PEER);
    let all = PolicyKey::any(Direction::Ingress, 0);
    node.rules(&b, &[(all, PolicyRow::allow(&all, 0))]);
    let (node, sport) = (RefCell::new(node), RefCell::new(0u16));
    let packets = prop::collection::vec((protocol(), port()), 20);
    let rows = prop::collection::btree_map(
        row().prop_map(|(key, _)| key),
        row().prop_map(|(_, row)| row),
        0..24,
    );
    proptest!(ProptestConfig::with_cases(200), |(drawn in rows, packets in packets)| {
        // The row repeats its key's prefix length.
        let rows: Rows = drawn
            .into_iter()
            .map(|(key, row)| (key, PolicyRow { flags: key.l4_bits() << 3 | (row.flags & PolicyRow::DENY), ..row }))
            .collect();
        let mut node = node.borrow_mut();
        node.rules(&a, &rows.iter().map(|(key, row)| (*key, *row)).collect::<Vec<_>>());
        for (protocol, port) in packets {
            *sport.borrow_mut() += 1;
            let sent = frame(&a, &b, protocol, port, *sport.borrow());
            let got = node.drop_of(|node| node.send(&a, &sent));
            prop_assert_eq!(got, oracle(&rows, protocol, port), "protocol {} port {}", protocol, port);
        }
    });
}
