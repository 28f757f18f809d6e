//! What is fixed when the agent starts, for the answers that mention it. What can change is asked
//! of the actors or is in the runtime options.

use std::{collections::BTreeMap, path::PathBuf};

use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::{Map, Value};
use volvox_actors::{model::ClusterId, node::routes::RoutingMode};

use super::Features;
use crate::datapath::AttachMode;

/// What the API says of the agent and never changes while it runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the agent began, nanoseconds since 1970.
    pub began: u64,
    /// The agent's version.
    pub version: String,
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's number.
    pub cluster_id: ClusterId,
    /// The node's name.
    pub node_name: String,
    /// Pool of IPv4 addresses; none if the family is off.
    pub ipv4_range: Option<Ipv4Net>,
    /// Pool of IPv6 addresses; none if the family is off.
    pub ipv6_range: Option<Ipv6Net>,
    /// By what programs are attached to interfaces.
    pub attach_mode: AttachMode,
    /// How packets of pods reach other nodes.
    pub routing: RoutingMode,
    /// Who chooses the pool: `kubernetes`, `cluster-pool`.
    pub ipam_mode: String,
    /// Whether the node itself is held to policy.
    pub host_firewall: bool,
    /// Whether flows are kept and served; and why not, if they should be.
    pub hubble: Result<bool, String>,
    /// What it does besides policy.
    pub features: Features,
    /// Whether a cluster is followed.
    pub follows_cluster: bool,
    /// Options of endpoints that say nothing else, by Cilium's names; 0 is disabled.
    pub options: BTreeMap<String, i64>,
    /// Root of the BPF filesystem.
    pub bpf_root: PathBuf,
    /// Where the proc file system is mounted.
    pub procfs: PathBuf,
    /// The socket that the API listens on.
    pub socket_path: PathBuf,
    /// Every setting, by Cilium's names where it has them.
    pub settings: Map<String, Value>,
}
