//! Settings of the agent that change what policies mean.

use serde::{Deserialize, Serialize};

use crate::model::Families;

/// When endpoints are held to policy, `--enable-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// A direction of an endpoint is, once a rule with default deny selects it.
    #[default]
    Default,
    /// Always, whether or not a rule selects it.
    Always,
    /// Never: everything passes.
    Never,
}

/// What applies to all policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// When endpoints are held to policy.
    pub enforcement: Enforcement,
    /// Allow what the host sends to its endpoints, kubelet's probes for instance, unless a rule
    /// denies it.
    pub allow_localhost: bool,
    /// Name of the cluster if every pod carries it as the label `io.cilium.k8s.policy.cluster`.
    pub cluster: Option<String>,
    /// Whether peers are pods of that cluster where a rule does not name one.
    pub local_by_default: bool,
    /// Whether rules may select other nodes by their labels.
    pub node_selectors: bool,
    /// Whether rules for nodes are in force.
    pub host_firewall: bool,
    /// Address families that are enabled.
    pub families: Families,
    /// How many rows an endpoint's policy has room for: `--bpf-policy-map-max`.
    pub rows_max: u32,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            enforcement: Enforcement::Default,
            allow_localhost: true,
            cluster: None,
            local_by_default: true,
            node_selectors: false,
            host_firewall: false,
            families: Families::DUAL,
            rows_max: 16_384,
        }
    }
}
