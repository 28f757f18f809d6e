//! Whatever is switched on or off, the kernel takes the programs: it looks at other paths each time.

use crate::common::*;
use volvox_bpf_progs::Features;

/// Loads all programs with each set of features of a family, or of both.
fn all_load(ipv4: bool, ipv6: bool) {
    for bits in 0..16u8 {
        let is_on = |bit: u8| bits & 1 << bit != 0;
        let (policy_stats, host_firewall) = (is_on(0), is_on(1));
        let (dsr, refuse) = (is_on(2), is_on(3));
        let plain = Features { ipv4, ipv6, refuse, ..Features::default() };
        // Of two that ask for it, one asks each service.
        let dsr_by_service = dsr && refuse;
        let features = Features { policy_stats, host_firewall, dsr, dsr_by_service, ..plain };
        Node::with_uplink_and(features);
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
