//! What should be: what policies and services mean, told again straight from their words, and which
//! versions of each there were. It knows no agent and, but for rows and links, no kernel.

pub(super) mod devices;
pub(super) mod expected;
pub(super) mod manifests;
pub(super) mod other_nodes;
pub mod policies;
pub mod service_members;
pub(super) mod services;

/// Namespace of every pod.
pub const NAMESPACE: &str = "ns";
/// Pods that a node has.
pub const PODS: u8 = 26;
/// Sources of policies.
pub const SOURCES: u8 = 2;
/// Sources of policies in tiers that have an order, behind those without.
pub const RANKED_SOURCES: std::ops::Range<u8> = 100..102;
/// Pods that another node has.
pub const REMOTE_PODS: u8 = 4;
/// Pods of the other cluster; their numbers follow.
pub const REMOTE_CLUSTER_PODS: u8 = 2;
