//! Settings of the agent that change what policies mean.

use serde::{Deserialize, Serialize};

use crate::model::{Families, Labels};

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

impl Enforcement {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Default, Self::Always, Self::Never];

    /// Its name, as the flag and the API have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether an endpoint with these labels is held to policy in a direction, of which it is said whether a
    /// rule with default deny selects it.
    pub(super) fn holds(self, labels: &Labels, is_denied: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            // An endpoint whose labels are not known yet gets nothing but what is meant for it.
            Self::Default => labels.has_reserved("init") || is_denied(),
        }
    }
}

/// The cluster that this node is of, if every pod of it carries its name as the label
/// `io.cilium.k8s.policy.cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCluster {
    /// Its name.
    pub name: String,
    /// Whether peers are pods of it where a rule does not name a cluster.
    pub by_default: bool,
}

impl OwnCluster {
    /// The cluster of that name, of which peers are by default.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), by_default: true }
    }
}

/// What applies to all policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// When endpoints are held to policy.
    pub enforcement: Enforcement,
    /// Allow what the host sends to its endpoints, kubelet's probes for instance, unless a rule
    /// denies it.
    pub allow_localhost: bool,
    /// The cluster that this node is of, if pods say so.
    pub cluster: Option<OwnCluster>,
    /// Whether rules may select other nodes by their labels.
    pub node_selectors: bool,
    /// Whether rules for nodes are in force.
    pub host_firewall: bool,
    /// Address families that are enabled.
    pub families: Families,
    /// How many rows an endpoint's policy has room for: `--bpf-policy-map-max`.
    pub rows_max: u32,
}

impl PolicySettings {
    /// Name of the cluster that this node is of, if pods say so.
    pub fn cluster_name(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| cluster.name.as_str())
    }
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            enforcement: Enforcement::Default,
            allow_localhost: true,
            cluster: None,
            node_selectors: false,
            host_firewall: false,
            families: Families::DUAL,
            rows_max: 16_384,
        }
    }
}
