//! What an endpoint wants of the kernel, of the ipcache and of the policy.

use std::sync::Arc;

use ipnet::IpNet;

use super::{Endpoint, OwnRows, options, plan::Desired, realised::RealisedEndpoint};
use crate::{
    model::{EndpointKind, Label, Labels, PolicyRows},
    mutants::{Mutant, mutated},
    policy::{
        ipcache::{IpcacheEntry, IpcacheSource},
        rules::{Subject, fit},
    },
    ports::EndpointRow,
};

/// Kubernetes pod names may be longer; the kernel's record holds that many bytes.
const POD_NAME_BYTES_MAX: usize = 200;

impl Endpoint {
    pub(super) fn desired(&self, policy: Arc<PolicyRows>, known: &RealisedEndpoint) -> Desired {
        let rows =
            OwnRows::of(self.id, &self.record.spec, self.record.identity, &self.record.options);
        Desired {
            id: self.id,
            interface: self.record.spec.interface_of_its_own(),
            chained: self.record.spec.is_chained(),
            config: rows.config,
            lxc: rows.lxc,
            record: (!known.record.is_right || known.record.unsaved != self.is_unsaved())
                .then(|| self.kernel_record()),
            policy: self.with_room(policy, known),
            rows_max: self.peers.settings.policy_rows_max,
        }
    }

    /// What of a policy its map has room for. While nothing is in force, all of it or nothing is to
    /// be: nobody counts on what was before.
    fn with_room(&self, desired: Arc<PolicyRows>, known: &RealisedEndpoint) -> Arc<PolicyRows> {
        let most = self.peers.settings.policy_rows_max;
        match &known.policy {
            Some(had) if desired.len() > most && !mutated(Mutant::FullMapKeepsAll) => {
                Arc::new(fit(had, &desired, most))
            }
            _ => desired,
        }
    }

    /// What people are told while its map has no room for all of its policy.
    pub(super) fn lack_of_room(&self, desired: &PolicyRows) -> String {
        let most = self.peers.settings.policy_rows_max;
        format!(
            "its policy needs {} rows and its map has room for {most}: what policies take away is in \
             force, what they add waits for room; name fewer peers and ports, wider prefixes, or \
             start the agent with a larger --bpf-policy-map-max",
            desired.len()
        )
    }

    /// What the kernel keeps so that a lost state file can be rebuilt.
    pub(super) fn kernel_record(&self) -> EndpointRow {
        let spec = &self.record.spec;
        let mut pod_name = spec.pod_name.clone();
        pod_name.truncate(POD_NAME_BYTES_MAX);
        EndpointRow {
            container_id: spec.container_id.clone(),
            container_ifname: spec.container_ifname.clone(),
            ifname: spec.ifname.clone(),
            ifindex: spec.ifindex,
            identity: self.record.identity,
            netns_cookie: spec.netns_cookie,
            addresses: spec.addresses,
            mac: spec.mac,
            node_mac: spec.node_mac,
            namespace: spec.namespace.clone(),
            pod_name,
            pod_uid: spec.pod_uid.clone(),
            own_options: options::pack(&self.record.own_options),
            unsaved: self.is_unsaved(),
            chained: spec.is_chained(),
        }
    }

    /// Its addresses with its identity.
    pub(super) fn ipcache_entries(&self) -> Vec<(IpNet, IpcacheEntry)> {
        let entry = IpcacheEntry::of(self.record.identity, IpcacheSource::Endpoint(self.id));
        let addresses = self.record.spec.addresses.iter();
        addresses.map(|address| (IpNet::from(address), entry)).collect()
    }

    /// Whom its policy is for: by the ports that everyone knows it by, as by its labels.
    pub(super) fn subject(&self) -> Subject {
        let named_ports = self.naming.ports_known.as_ref().unwrap_or(&self.record.spec.named_ports);
        Subject {
            labels: Arc::clone(&self.record.identity_labels),
            named_ports: named_ports.clone(),
        }
    }

    /// All its labels, split by whether they count for its identity.
    pub(super) fn split_labels(&self) -> (Labels, Labels) {
        let (custom, disabled) = &self.record.user_labels;
        self.split(self.record.spec.labels.iter().chain(custom.iter()), disabled)
    }

    /// The same of what its orchestrator says, without what its user added.
    pub(super) fn orchestrator_labels(&self) -> (Labels, Labels) {
        self.split(self.record.spec.labels.iter(), &self.record.user_labels.1)
    }

    /// All labels of a node count; which of a pod's do, the filter says.
    fn split<'a>(
        &self,
        labels: impl Iterator<Item = &'a Label>,
        disabled: &Labels,
    ) -> (Labels, Labels) {
        let desired = labels.filter(|label| disabled.get(&label.key).is_none()).cloned();
        let desired = desired.collect();
        match self.record.spec.kind {
            EndpointKind::Pod => self.peers.settings.label_filter.split(&desired),
            EndpointKind::Host | EndpointKind::Health => (desired, Labels::default()),
        }
    }
}
