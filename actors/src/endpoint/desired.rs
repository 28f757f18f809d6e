//! What an endpoint wants of the kernel, of the ipcache and of the policy.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{Endpoint, plan::Desired};
use crate::{
    ipcache::IpcacheEntry,
    model::{Label, Labels},
    policy::{EndpointPolicy, Subject},
    ports::{ConfigRow, EndpointRow, LxcRow, config_flags},
};

/// Kubernetes pod names may be longer; the kernel's record holds that many bytes.
const POD_NAME_BYTES_MAX: usize = 200;

/// Options that become flags of the configuration row.
const OPTION_FLAGS: [(&str, u16); 4] = [
    ("SourceIPVerification", config_flags::SOURCE_CHECK),
    ("TraceNotification", config_flags::TRACE),
    ("PolicyVerdictNotification", config_flags::POLICY_VERDICT),
    ("DropNotification", config_flags::DROP),
];

/// The option that is a level, and the levels from which its flags are set.
const AGGREGATION: &str = "MonitorAggregationLevel";
const AGGREGATION_FLAGS: [(i64, u16); 2] =
    [(1, config_flags::AGGREGATE_ARRIVALS), (3, config_flags::AGGREGATE_CONNECTIONS)];

/// Flags of the configuration row, by an endpoint's options; one that is absent is 0.
fn flags(options: &BTreeMap<String, i64>) -> u16 {
    let value = |name: &str| options.get(name).copied().unwrap_or(0);
    let switches = OPTION_FLAGS.into_iter().filter(|(name, _)| value(name) != 0);
    let levels = AGGREGATION_FLAGS.into_iter().filter(|(least, _)| value(AGGREGATION) >= *least);
    switches.map(|(_, flag)| flag).chain(levels.map(|(_, flag)| flag)).fold(0, |all, one| all | one)
}

impl Endpoint {
    pub(super) fn desired(&self, policy: &EndpointPolicy) -> Desired {
        let spec = &self.spec;
        let row = LxcRow {
            ifindex: spec.ifindex,
            endpoint: self.id.0,
            flags: 0,
            mac: spec.mac,
            node_mac: spec.node_mac,
            identity: self.identity,
            parent_ifindex: spec.parent_ifindex,
        };
        Desired {
            id: self.id,
            config: ConfigRow {
                generation: 0,
                endpoint: self.id,
                flags: flags(&self.options),
                identity: self.identity,
                policy_slot: 0,
                ifindex: spec.ifindex,
                addresses: spec.addresses,
                mac: spec.mac,
                node_mac: spec.node_mac,
            },
            lxc: spec.addresses.iter().map(|address| (address, row)).collect(),
            record: self.kernel_record(),
            policy: std::sync::Arc::clone(&policy.rows),
        }
    }

    /// What the kernel keeps so that a lost state file can be rebuilt.
    pub(super) fn kernel_record(&self) -> EndpointRow {
        let spec = &self.spec;
        let mut pod_name = spec.pod_name.clone();
        pod_name.truncate(POD_NAME_BYTES_MAX);
        EndpointRow {
            container_id: spec.container_id.clone(),
            container_ifname: spec.container_ifname.clone(),
            ifname: spec.ifname.clone(),
            ifindex: spec.ifindex,
            identity: self.identity,
            netns_cookie: spec.netns_cookie,
            addresses: spec.addresses,
            mac: spec.mac,
            node_mac: spec.node_mac,
            namespace: spec.namespace.clone(),
            pod_name,
            pod_uid: spec.pod_uid.clone(),
        }
    }

    /// Its addresses with its identity.
    pub(super) fn ipcache_entries(&self) -> BTreeMap<IpNet, IpcacheEntry> {
        let entry = IpcacheEntry { identity: self.identity, source: self.source() };
        let addresses = self.spec.addresses.iter();
        addresses.map(|address| (IpNet::from(address), entry.clone())).collect()
    }

    /// Its name as a source of ipcache entries and as an owner of addresses.
    pub(super) fn source(&self) -> String {
        format!("endpoint {}", self.id)
    }

    pub(super) fn subject(&self) -> Subject {
        Subject {
            labels: std::sync::Arc::clone(&self.identity_labels),
            named_ports: self.spec.named_ports.clone(),
        }
    }

    /// All its labels, split by whether they count for its identity.
    pub(super) fn split_labels(&self) -> (Labels, Labels) {
        let (custom, disabled) = &self.user_labels;
        self.split(self.spec.labels.iter().chain(custom.iter()), disabled)
    }

    /// The same of what its orchestrator says, without what its user added.
    pub(super) fn orchestrator_labels(&self) -> (Labels, Labels) {
        self.split(self.spec.labels.iter(), &self.user_labels.1)
    }

    fn split<'a>(
        &self,
        labels: impl Iterator<Item = &'a Label>,
        disabled: &Labels,
    ) -> (Labels, Labels) {
        let wanted = labels.filter(|label| disabled.get(&label.key).is_none()).cloned();
        self.peers.settings.label_filter.split(&wanted.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_flags() {
        let of = |options: &[(&str, i64)]| {
            flags(&options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
        };
        assert_eq!(of(&[("Debug", 1), ("TraceNotification", 0)]), 0);
        assert_eq!(of(&[("DropNotification", 1), ("SourceIPVerification", 1)]), 8 | 1);
        let levels = [0, 1, 2, 3, 4].map(|level| of(&[(AGGREGATION, level)]));
        assert_eq!(levels, [0, 16, 16, 16 | 32, 16 | 32]);
    }
}
