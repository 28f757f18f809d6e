//! Spawns the owners of the cluster's identities and addresses where the API server shares these.

use std::rc::Rc;

use crate::{
    cluster::{
        addresses::{AddressesMsg, AddressesPeers, InheritedAddresses},
        allocator::{Allocator, AllocatorMsg, ObjectIdentities},
        api_server::ClusterMsg,
        kvstore::KvSettings,
        resources::further,
    },
    host::{Host, Ref},
    model::Feed,
    ports::Cluster,
};

/// Capacity of a mailbox, messages: what the sources tell while an actor is busy waits there.
const CAPACITY: usize = 65_536;

/// Those who share identities and addresses with other nodes through the API server.
#[derive(Clone)]
pub struct CrdActors {
    /// The owner of the cluster's identities.
    pub allocator: Ref<AllocatorMsg>,
    /// The owner of the cluster's addresses.
    pub addresses: Ref<AddressesMsg>,
}

impl CrdActors {
    /// Brings them to life, and has those whom they work for know them. `follower` hands on what
    /// the sources tell.
    pub fn spawn(
        host: &Host,
        cluster: &Rc<dyn Cluster>,
        follower: Ref<ClusterMsg>,
        settings: &KvSettings,
        peers: &AddressesPeers,
        inherited: InheritedAddresses,
    ) -> Self {
        let (cluster, id) = (Rc::clone(cluster), settings.cluster_id);
        let listed = follower.outlet(|reply| ClusterMsg::AwaitSync(Feed::CiliumIdentities, reply));
        let identities = further("").into_iter().find(|(feed, _)| *feed == Feed::CiliumIdentities);
        let (_, mut forms) = identities.expect("each feed has its resource");
        let resource = forms.remove(0);
        let backend = move || {
            let (listed, resource) = (listed.clone(), resource.clone());
            Box::new(ObjectIdentities::new(&cluster, listed, resource, id)) as Box<_>
        };
        let allocator = Allocator::factory(move || backend() as _, settings.seed);
        let allocator = host.spawn("cluster-identities".to_owned(), CAPACITY, allocator);
        let addresses =
            inherited.spawn(host, "cluster-addresses", CAPACITY, peers, settings, &allocator);
        Self { allocator, addresses }
    }
}
