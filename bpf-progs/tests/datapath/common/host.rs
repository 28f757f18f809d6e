//! The node itself as an endpoint with a policy.

use super::Node;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

/// Number of the node's own endpoint.
pub const HOST_ENDPOINT: u16 = 900;

/// Whom a sender or receiver is that nobody knows, of each family.
pub const WORLD_IDENTITIES: [u32; 2] = [9, 10];

/// Programs that ask the node's policy.
pub fn host_firewall() -> Features {
    Features { host_firewall: true, ..Features::default() }
}

pub fn allowed(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 7))
}

pub fn denied(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::deny(&key, 8))
}

/// A row for everything in one direction.
pub fn everything(direction: Direction) -> (PolicyKey, PolicyRow) {
    allowed(PolicyKey::any(direction, 0))
}

impl Node {
    /// Gives the node itself this policy.
    pub fn host_rules(&mut self, rows: &[(PolicyKey, PolicyRow)]) {
        let policy_slot = policy_slot(HOST_ENDPOINT, 0);
        self.policy(policy_slot, rows);
        let notify =
            ConfigFlags::TRACE_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::DROP_NOTIFY;
        self.configure(ConfigRow {
            generation: 1,
            ep_id: HOST_ENDPOINT,
            flags: notify,
            identity: 1,
            policy_slot,
            ifindex: HOST_IFINDEX,
            ..ConfigRow::default()
        });
    }
}
