//! How nodes and their health endpoints are probed.

use clap::{ArgAction, Args};
use serde::Serialize;

use super::values::parse_ratio;

/// Flags of the health of nodes.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeHealthOptions {
    /// Whether nodes are probed, and other nodes are answered
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub enable_health_checking: bool,

    /// Whether this node has a health endpoint, and those of other nodes are probed, too
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub enable_endpoint_health_checking: bool,

    /// Port at which all nodes and their health endpoints answer each other's probes by HTTP
    #[arg(long, value_name = "PORT", default_value_t = 4240, value_parser = clap::value_parser!(u16).range(1..))]
    pub cluster_health_port: u16,

    /// ICMP echo requests of a probe, a tenth of a second apart, until one is answered
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    #[serde(rename = "HealthCheckICMPFailureThreshold")]
    pub health_check_icmp_failure_threshold: u32,

    /// How seldom nodes are asked by HTTP, from 0 to 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.5, value_parser = parse_ratio)]
    pub connectivity_probe_frequency_ratio: f64,
}

impl NodeHealthOptions {
    /// Whether this node has a health endpoint.
    pub fn has_endpoint(&self) -> bool {
        self.enable_health_checking && self.enable_endpoint_health_checking
    }
}
