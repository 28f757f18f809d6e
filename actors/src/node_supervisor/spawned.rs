//! Who has been spawned so far, by kind of work: what the next steps need of it.

use crate::{
    cluster::{
        api_server::ClusterMsg,
        kvstore::SessionMsg,
        own_prefixes::OwnPrefixesMsg,
        sharing::{CrdActors, KvActors},
    },
    endpoints::{
        build_queue::BuildQueueMsg, ipam::IpamMsg, supervisor::EndpointsMsg,
        workloads::WorkloadsMsg,
    },
    host::{Late, Ref},
    node::{conntrack::ConntrackMsg, devices::DevicesMsg, local_node::NodeMsg, routes::RoutesMsg},
    policy::{identity::IdentityMsg, ipcache::IpcacheMsg, rules::PolicyMsg},
    restore::RestoreMsg,
    services::{health_checks::HealthChecksMsg, service_cache::ServicesMsg},
};

/// Owners of what pods have: addresses, identities, the ipcache, permits, labels and connections.
pub(super) struct Basis {
    pub(super) ipam: Ref<IpamMsg>,
    pub(super) identities: Ref<IdentityMsg>,
    pub(super) ipcache: Ref<IpcacheMsg>,
    pub(super) build_queue: Ref<BuildQueueMsg>,
    pub(super) workloads: Ref<WorkloadsMsg>,
    pub(super) conntrack: Ref<ConntrackMsg>,
}

/// Who serves services.
pub(super) struct ServiceActors {
    pub(super) services: Ref<ServicesMsg>,
    pub(super) health_checks: Option<Ref<HealthChecksMsg>>,
}

/// Who keeps what is the node's own.
pub(super) struct NodeActors {
    pub(super) devices: Ref<DevicesMsg>,
    pub(super) routes: Ref<RoutesMsg>,
    pub(super) node: Ref<NodeMsg>,
}

/// Who shares identities and addresses with other nodes: by a store, or by the API server.
pub(super) struct SharingActors {
    pub(super) kvstore: Option<KvActors>,
    pub(super) crd: Option<CrdActors>,
}

/// Addresses of those who are spawned later than who needs them.
#[derive(Default)]
pub(super) struct Lates {
    pub(super) cluster: Late<Ref<ClusterMsg>>,
    pub(super) endpoints: Late<Ref<EndpointsMsg>>,
    pub(super) session: Late<Option<Ref<SessionMsg>>>,
    pub(super) policy: Late<Ref<PolicyMsg>>,
    pub(super) restore: Late<Ref<RestoreMsg>>,
    pub(super) crd: Late<CrdActors>,
    pub(super) own_prefixes: Late<Ref<OwnPrefixesMsg>>,
    pub(super) workloads: Late<Ref<WorkloadsMsg>>,
}
