//! What a restart starts with: mappings of other nodes' pods, taken from the kernel's ipcache, and
//! the identities and port names that they need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use super::{AddressesMsg, AddressesPeers, ClusterAddresses};
use crate::{
    cluster::{allocator::AllocatorMsg, kvstore::KvSettings},
    endpoints::supervisor::{Announcer, EndpointsMsg},
    host::{Host, Ref, Reply},
    model::{IdentityId, IdentityScope, Labels, NamedPorts, Tunnel},
    policy::{
        identity::IdentityMsg,
        ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource},
    },
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

    /// Brings the owner of addresses to life, which has it all from the start, and has those who
    /// work with it know it and who hands out numbers.
    pub(crate) fn spawn(
        self,
        host: &Host,
        name: &str,
        capacity: usize,
        peers: &AddressesPeers,
        settings: &KvSettings,
        allocator: &Ref<AllocatorMsg>,
    ) -> Ref<AddressesMsg> {
        let held = self.identities.keys().copied().collect();
        let entry = |&(identity, tunnel)| IpcacheEntry {
            tunnel,
            ..IpcacheEntry::of(identity, IpcacheSource::Cluster)
        };
        let entries = self.rows.iter().map(|(&prefix, row)| (prefix, entry(row))).collect();
        let addresses = ClusterAddresses::factory(peers.clone(), settings.clone(), self);
        let addresses = host.spawn(name.to_owned(), capacity, addresses);
        // Mailboxes of new cells are empty.
        let _ = allocator.tell(AllocatorMsg::Tell(
            addresses.outlet(AddressesMsg::Allocator),
            peers.identities.clone(),
        ));
        let _ = peers
            .identities
            .tell(IdentityMsg::AllocateBy(allocator.outlet(AllocatorMsg::Numbering)));
        let _ = peers.identities.tell(IdentityMsg::Inherit(held));
        let announcer = Announcer::Addresses(addresses.outlet(AddressesMsg::Endpoint));
        let _ = peers.endpoints.tell(EndpointsMsg::AnnounceTo(announcer));
        let reply = Reply::to(|_| {});
        let _ = peers.ipcache.tell(IpcacheMsg::Upsert { entries, reply });
        addresses
    }
}
