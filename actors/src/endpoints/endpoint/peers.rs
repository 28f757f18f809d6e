//! The actors, ports and settings that every endpoint of the node shares.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    endpoints::{build_queue::BuildQueueMsg, endpoint::EndpointNews, ipam::IpamMsg},
    host::{Outlet, Ref},
    model::drift::DriftWatch,
    policy::{
        identity::{IdentityMsg, LabelFilter},
        ipcache::IpcacheMsg,
        rules::PolicyMsg,
    },
    ports::{AgentNotices, Disk, Kernel},
};

/// Whom an endpoint talks to.
#[derive(Clone)]
pub struct EndpointPeers {
    /// BPF maps, programs, interfaces.
    pub kernel: Rc<dyn Kernel>,
    /// The state directory.
    pub disk: Rc<dyn Disk>,
    /// Who has the identities.
    pub identities: Ref<IdentityMsg>,
    /// Who has the policy.
    pub policy: Ref<PolicyMsg>,
    /// Who gives build permits.
    pub build_queue: Ref<BuildQueueMsg>,
    /// Who maps addresses to identities.
    pub ipcache: Ref<IpcacheMsg>,
    /// Who has the addresses.
    pub ipam: Ref<IpamMsg>,
    /// The supervisor of endpoints.
    pub supervisor: Outlet<EndpointNews>,
    /// What is the same for every endpoint.
    pub settings: Rc<Settings>,
    /// Who hears what somebody else changed in the kernel.
    pub watch: DriftWatch,
    /// Who hears of endpoints that are made, built and deleted, if anybody does.
    pub notices: Option<Rc<dyn AgentNotices>>,
}

/// What is the same for every endpoint of this node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which labels count for an identity.
    pub label_filter: LabelFilter,
    /// Options of a new endpoint, by Cilium's names.
    pub options: BTreeMap<String, i64>,
    /// How many rows a policy map has room for.
    pub policy_rows_max: usize,
}
