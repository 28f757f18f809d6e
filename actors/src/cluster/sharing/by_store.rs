//! Spawns the actors that share a store with other nodes, and connects them with each other.

use std::rc::Rc;

use crate::cluster::{
    allocator::StoredIdentities,
    kvstore::{ADDRESSES, Followed, IDENTITIES, KvSettings, Session, SessionMsg, WatcherMsg},
};
use crate::{
    cluster::{
        addresses::{AddressesMsg, AddressesPeers, InheritedAddresses},
        allocator::{Allocator, AllocatorMsg},
        kvstore::NODES,
        remote_nodes::RemoteNodesMsg,
    },
    host::{Host, Late, Ref},
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
    /// Who follows identities, who follows addresses, and who follows nodes.
    pub watchers: [Ref<WatcherMsg>; 3],
}

impl KvActors {
    /// Brings them to life, and has those whom they work for know them. `nodes` hears of the nodes of
    /// this cluster.
    pub fn spawn(
        host: &Host,
        store: &Rc<dyn KvStore>,
        settings: KvSettings,
        peers: AddressesPeers,
        inherited: InheritedAddresses,
        nodes: &Ref<RemoteNodesMsg>,
    ) -> Self {
        let settings = Rc::new(settings);
        let seed = |nth: u64| settings.seed.wrapping_add(nth);
        let name = |name: &str| name.to_owned();

        let before = settings.before;
        let session = Session::factory(Rc::clone(store), settings.lease_ttl, before, seed(1));
        let session = host.spawn(name("kvstore"), CAPACITY, session);
        let late = Late::<Ref<WatcherMsg>>::default();
        let backend = {
            let (store, session, late) = (Rc::clone(store), session.clone(), late.clone());
            let settings = Rc::clone(&settings);
            move || {
                let identities = StoredIdentities::new(&store, &session, late.get(), &settings);
                Box::new(identities) as _
            }
        };
        let allocator = Allocator::factory(backend, settings.seed);
        let allocator = host.spawn(name("kvstore-identities"), CAPACITY, allocator);
        let peers = AddressesPeers { session: Some(session.clone()), ..peers };
        let addresses =
            inherited.spawn(host, "kvstore-addresses", CAPACITY, &peers, &settings, &allocator);
        // Identities first: an address waits for the labels of its identity.
        let follow = |prefix: &str| Followed::new(store, prefix);
        let name = |of: &str| format!("kvstore-watch {of}");
        let nodes_prefix = format!("{NODES}{}/", settings.cluster);
        let watchers = [
            follow(IDENTITIES).tell(
                host,
                name("identities"),
                seed(2),
                &allocator,
                AllocatorMsg::Update,
            ),
            follow(ADDRESSES).tell(
                host,
                name("addresses"),
                seed(3),
                &addresses,
                AddressesMsg::Update,
            ),
            follow(&nodes_prefix).tell(host, name("nodes"), seed(4), nodes, RemoteNodesMsg::Update),
        ];
        late.set(watchers[0].clone());
        Self { session, allocator, addresses, watchers }
    }
}
