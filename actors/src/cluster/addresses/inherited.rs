//! What a restart starts with: mappings of other nodes' pods, taken from the kernel's ipcache, and
//! the identities and port names that they need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    model::{IdentityId, IdentityScope, Labels, NamedPorts, Tunnel},
    restore::Inheritance,
};

/// Identities that no pod has: nodes and the world.
const NO_POD: [IdentityId; 8] = [
    IdentityId::UNKNOWN,
    IdentityId::HOST,
    IdentityId::WORLD,
    IdentityId::REMOTE_NODE,
    IdentityId::KUBE_APISERVER,
    IdentityId::INGRESS,
    IdentityId::WORLD_IPV4,
    IdentityId::WORLD_IPV6,
];

/// What an earlier run mapped for other nodes: in force until the cluster has said what there is.
#[derive(Debug, Default)]
pub struct InheritedAddresses {
    pub(super) rows: BTreeMap<IpNet, (IdentityId, Tunnel)>,
    /// Identities among it, with their labels.
    pub identities: BTreeMap<IdentityId, Labels>,
    /// Names of their ports.
    pub named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
}

impl InheritedAddresses {
    /// Rows of identities that pods of other nodes have, and whose address is none of this node's.
    pub fn of(inheritance: &Inheritance) -> Self {
        let kernel = &inheritance.kernel;
        let is_remote = |prefix: &IpNet, id: IdentityId| {
            let own = kernel.lxc.contains_key(&prefix.addr());
            !own && id.scope() == IdentityScope::Global && !NO_POD.contains(&id)
        };
        let rows = kernel.ipcache.iter().filter(|(prefix, row)| is_remote(prefix, row.identity));
        let rows = rows.map(|(&prefix, row)| (prefix, (row.identity, row.tunnel.into())));
        let rows: BTreeMap<IpNet, (IdentityId, Tunnel)> = rows.collect();
        let used: BTreeSet<IdentityId> = rows.values().map(|(id, _)| *id).collect();
        let known = inheritance.identities.cluster.iter();
        let identities = known
            .filter(|numbered| used.contains(&numbered.id))
            .map(|numbered| (numbered.id, numbered.labels.clone()))
            .collect();
        let named_ports = inheritance.identities.ports_by_identity();
        let named_ports = named_ports.filter(|(id, _)| used.contains(id)).collect();
        Self { rows, identities, named_ports }
    }
}
