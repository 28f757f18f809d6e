//! What of the datapath is switched on, and how much memory there is for its maps.

use std::fs;

use volvox_bpf_progs::Parts;

use crate::{
    config::{Config, LbAlgorithm, RoutingMode},
    kube_proxy::KubeProxy,
};

/// What of the datapath is switched on.
pub(super) fn parts(config: &Config) -> Parts {
    let node_port = config.kube_proxy.replacement;
    let (ipv4, ipv6) = (config.enable_ipv4_masquerade, config.enable_ipv6_masquerade);
    // Into the overlay goes the router's address where another program masquerades.
    let stands = node_port || config.routing_mode == RoutingMode::Tunnel;
    let has_tables = node_port
        && (config.bpf_lb_algorithm == LbAlgorithm::Maglev || config.bpf_lb_algorithm_annotation);
    // Rules of one that is about to go drop what they see one way only.
    let past_stack = node_port && !matches!(KubeProxy::look(&config.procfs), KubeProxy::Rules(_));
    [
        (Parts::PAST_STACK, past_stack),
        (Parts::NODE_PORT, node_port),
        (Parts::NAT_IPV4, stands || ipv4),
        (Parts::NAT_IPV6, stands || ipv6),
        (Parts::MASQUERADE_IPV4, ipv4),
        (Parts::MASQUERADE_IPV6, ipv6),
        (Parts::MAGLEV, has_tables),
        (Parts::SOCKETS, config.attaching.bpf_lb_sock),
    ]
    .into_iter()
    .filter(|(_, on)| !on)
    .fold(Parts::ALL, |all, (part, _)| all.without(part))
}

/// The machine's memory in bytes; 0 if it is not known, which makes maps of their least size.
pub(super) fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    line.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0)
        * 1024
}
