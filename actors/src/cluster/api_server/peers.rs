//! Whom the supervisor of sources talks to.

use std::rc::Rc;

use crate::{
    cluster::{
        addresses::AddressesMsg, allocator::AllocatorMsg, own_prefixes::OwnPrefixesMsg,
        publish::PublisherMsg, remote_nodes::RemoteNodesMsg,
    },
    endpoints::workloads::WorkloadsMsg,
    host::Ref,
    policy::rules::PolicyMsg,
    ports::Cluster,
    services::service_cache::ServicesMsg,
};

/// Whom the supervisor of sources talks to.
#[derive(Clone)]
pub struct ClusterPeers {
    /// The API server.
    pub cluster: Rc<dyn Cluster>,
    /// The owner of the policy.
    pub policy: Ref<PolicyMsg>,
    /// The keeper of pods and namespaces.
    pub workloads: Ref<WorkloadsMsg>,
    /// Who keeps what this node says of itself, if that is done.
    pub publisher: Option<Ref<PublisherMsg>>,
    /// The owners of the cluster's identities and addresses, if objects tell them.
    pub shared: Option<(Ref<AllocatorMsg>, Ref<AddressesMsg>)>,
    /// The owner of the cluster's nodes.
    pub nodes: Option<Ref<RemoteNodesMsg>>,
    /// The owner of this node's prefixes, if it has several pools.
    pub prefixes: Option<Ref<OwnPrefixesMsg>>,
    /// The owner of services, if they are served.
    pub services: Option<Ref<ServicesMsg>>,
}
