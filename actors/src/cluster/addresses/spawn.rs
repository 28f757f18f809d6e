//! Brings the owner of the cluster's addresses to life.

use super::{AddressesMsg, AddressesPeers, ClusterAddresses, inherited::InheritedAddresses};
use crate::{
    cluster::{allocator::AllocatorMsg, kvstore::KvSettings},
    endpoints::supervisor::{Announcer, EndpointsMsg},
    host::{Host, Ref, Reply},
    policy::{
        identity::IdentityMsg,
        ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource},
    },
};

impl InheritedAddresses {
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
