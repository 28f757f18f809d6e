use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use ipnet::IpNet;

use super::{
    ADDRESSES, Addresses, AddressesMsg, AddressesPeers, Allocator, AllocatorMsg, IDENTITIES,
    KvSettings, Session, SessionMsg, Watcher, WatcherMsg,
};
use crate::{
    colony::{Inheritance, Late},
    endpoints::{Announcer, EndpointsMsg},
    host::{Host, Ref},
    identity::IdentityMsg,
    ipcache::{IpcacheEntry, IpcacheMsg, Source},
    model::{IdentityId, Labels, Scope},
    policy::PolicyMsg,
    ports::KvStore,
};

/// Capacity of a mailbox, messages: what the store tells while an actor is busy waits there.
const CAPACITY: usize = 65_536;

/// Those who share a store with other nodes.
#[derive(Clone)]
pub struct KvActors {
    /// The owner of the lease.
    pub session: Ref<SessionMsg>,
    /// The owner of the cluster's identities.
    pub allocator: Ref<AllocatorMsg>,
    /// The owner of the cluster's addresses.
    pub addresses: Ref<AddressesMsg>,
    /// Who follows identities, and who follows addresses.
    pub watchers: [Ref<WatcherMsg>; 2],
}

/// Whom they work for.
pub struct KvPeers {
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// The owner of identities.
    pub identities: Ref<IdentityMsg>,
    /// The owner of the policy.
    pub policy: Ref<PolicyMsg>,
    /// The owner of the ipcache.
    pub ipcache: Ref<IpcacheMsg>,
}

/// What an earlier life mapped for other nodes: in force until the store has said what there is.
#[derive(Debug, Default)]
pub struct Inherited {
    rows: BTreeMap<IpNet, IdentityId>,
    /// Identities among it, with their labels.
    pub identities: BTreeMap<IdentityId, Labels>,
}

impl Inherited {
    /// Rows of identities of the cluster whose address is none of this node's.
    pub fn of(inheritance: &Inheritance) -> Self {
        let kernel = &inheritance.kernel;
        let is_remote = |prefix: &IpNet, id: IdentityId| {
            let own = kernel.lxc.contains_key(&prefix.addr());
            !own && id.scope() == Scope::Global && !id.is_reserved()
        };
        let rows = kernel.ipcache.iter().map(|(&prefix, row)| (prefix, row.identity));
        let rows: BTreeMap<_, _> = rows.filter(|(prefix, id)| is_remote(prefix, *id)).collect();
        let used: BTreeSet<IdentityId> = rows.values().copied().collect();
        let known = inheritance.identities.cluster.iter();
        let identities = known
            .filter(|numbered| used.contains(&numbered.id))
            .map(|numbered| (numbered.id, numbered.labels.clone()))
            .collect();
        Self { rows, identities }
    }
}

impl KvActors {
    /// Brings them to life, and has those whom they work for know them.
    pub fn spawn(
        host: &Host,
        store: &Rc<dyn KvStore>,
        settings: KvSettings,
        peers: &KvPeers,
        inherited: Inherited,
    ) -> Self {
        let settings = Rc::new(settings);
        let seed = |nth: u64| settings.seed.wrapping_add(nth);
        let name = |name: &str| name.to_owned();
        let held: BTreeSet<_> = inherited.identities.into_keys().collect();
        let entry = |identity| IpcacheEntry { identity, source: Source::Cluster };
        let entries: BTreeMap<_, _> =
            inherited.rows.iter().map(|(&prefix, &id)| (prefix, entry(id))).collect();

        let session = Session::factory(Rc::clone(store), settings.lease_ttl, seed(1));
        let session = host.spawn(name("kvstore"), CAPACITY, session);
        let late = Late::<WatcherMsg>::default();
        let watcher = {
            let late = late.clone();
            move || late.get()
        };
        let allocator =
            Allocator::factory(Rc::clone(store), session.clone(), watcher, Rc::clone(&settings));
        let allocator = host.spawn(name("kvstore-identities"), CAPACITY, allocator);
        let addresses = Addresses::factory(
            AddressesPeers {
                session: session.clone(),
                identities: peers.identities.clone(),
                policy: peers.policy.clone(),
                ipcache: peers.ipcache.clone(),
                endpoints: peers.endpoints.clone(),
            },
            Rc::clone(&settings),
            inherited.rows,
            held.clone(),
        );
        let addresses = host.spawn(name("kvstore-addresses"), CAPACITY, addresses);
        // Identities first: an address waits for the labels of its identity.
        let identity_watcher = {
            let listener = allocator.clone();
            let listener = move || listener.clone();
            let store = Rc::clone(store);
            Watcher::factory(store, IDENTITIES, seed(2), listener, AllocatorMsg::Update)
        };
        let identity_watcher =
            host.spawn(name("kvstore-watch identities"), CAPACITY, identity_watcher);
        late.set(identity_watcher.clone());
        let address_watcher = {
            let listener = addresses.clone();
            let listener = move || listener.clone();
            let store = Rc::clone(store);
            Watcher::factory(store, ADDRESSES, seed(3), listener, AddressesMsg::Update)
        };
        let address_watcher =
            host.spawn(name("kvstore-watch addresses"), CAPACITY, address_watcher);

        // Mailboxes of new cells are empty.
        let _ = allocator.tell(AllocatorMsg::Tell(addresses.clone(), peers.identities.clone()));
        let _ = peers.identities.tell(IdentityMsg::AllocateBy(allocator.clone()));
        let _ = peers.identities.tell(IdentityMsg::Inherit(held));
        let _ =
            peers.endpoints.tell(EndpointsMsg::AnnounceTo(Announcer::Addresses(addresses.clone())));
        let reply = crate::host::Reply::to(|_| {});
        let _ = peers.ipcache.tell(IpcacheMsg::Upsert { entries, reply });
        let watchers = [identity_watcher, address_watcher];
        Self { session, allocator, addresses, watchers }
    }
}
