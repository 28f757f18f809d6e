//! Whatever is switched on or off, the kernel takes the programs: it looks at other paths each time.

use crate::common::*;
use volvox_bpf_progs::object::{
    FROM_CONTAINER, FROM_NETDEV, FROM_OVERLAY, TO_CONTAINER, TO_NETDEV, TO_OVERLAY,
};
use volvox_bpf_progs::{Features, Parts};

/// All of endpoints, devices and the overlay.
const PROGRAMS: [&str; 6] =
    [FROM_CONTAINER, TO_CONTAINER, FROM_NETDEV, TO_NETDEV, FROM_OVERLAY, TO_OVERLAY];

/// Loads all programs with each set of features of a family, or of both.
fn all_load(ipv4: bool, ipv6: bool) {
    for bits in 0..20u8 {
        let is_on = |bit: u8| bits & 1 << bit != 0;
        let (policy_stats, host_firewall) = (is_on(0), is_on(1));
        let (dsr, refuse) = (is_on(2), is_on(3));
        let parts = match (is_on(4), is_on(0)) {
            (false, _) => Parts::ALL,
            (true, false) => Parts::ALL.without(Parts::PAST_STACK),
            (true, true) => Parts::ALL.without(Parts::ALL),
        };
        let plain = Features { ipv4, ipv6, refuse, parts, ..Features::default() };
        // Of two that ask for it, one asks each service.
        let dsr_by_service = dsr && refuse;
        let features = Features { policy_stats, host_firewall, dsr, dsr_by_service, ..plain };
        let (mut node, _) = Node::with_uplink_and(features);
        for name in PROGRAMS {
            node.program(name);
        }
    }
}

#[test]
fn all_features_load_with_both_families() {
    all_load(true, true);
}

#[test]
fn all_features_load_with_ipv4_only() {
    all_load(true, false);
}

#[test]
fn all_features_load_with_ipv6_only() {
    all_load(false, true);
}
