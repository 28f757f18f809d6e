//! Whatever is switched on or off, the kernel takes the programs: it looks at other paths each time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::*;
use volvox_bpf_progs::Features;

/// Loads all programs with each set of features of a family, or of both.
fn all_load(ipv4: bool, ipv6: bool) {
    for bits in 0..8u8 {
        let is_on = |bit: u8| bits & 1 << bit != 0;
        let (policy_stats, host_firewall, dsr) = (is_on(0), is_on(1), is_on(2));
        let features =
            Features { ipv4, ipv6, policy_stats, host_firewall, dsr, ..Features::default() };
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
