//! The state of the actor that outlives its crash: what the cluster says, what is mapped, and what
//! this node announces under which key.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::{InheritedAddresses, others::Others, remote::RemoteAddresses};
use crate::{
    cluster::{addresses::pods::PodAddresses, allocator::Renewed, kvstore::Owner},
    endpoints::endpoint::Announcement,
    model::{ApiObject, ClusterId, EndpointId, IdentityId, Labels, SharedPorts},
    policy::identity::reserved::NAMESPACE,
    ports::ObjectKey,
};

/// What outlives a crash: it is said only once.
pub(super) struct AddressesState {
    pub(super) remote: RemoteAddresses,
    pub(super) others: Others,
    pods: PodAddresses,
    /// What objects say of addresses whose number does not stand for their labels in the cluster.
    unmatched: BTreeMap<IpNet, Owner>,
    pub(super) ports: SharedPorts,
    pub(super) claimed: BTreeSet<IdentityId>,
    pub(super) disputed: BTreeSet<IdentityId>,
    /// Endpoints that were told to get another identity.
    pub(super) reported: BTreeSet<EndpointId>,
    pub(super) own: BTreeMap<EndpointId, Announcement>,
    pub(super) announced: BTreeMap<EndpointId, BTreeMap<String, Vec<u8>>>,
    /// The keys of these, with whose they are.
    keys: BTreeMap<String, EndpointId>,
}

impl AddressesState {
    /// What an earlier run of the agent mapped.
    pub(super) fn inherited(inherited: InheritedAddresses, meshed: bool) -> Self {
        Self {
            remote: RemoteAddresses::inherited(inherited),
            others: Others::new(meshed),
            pods: PodAddresses::default(),
            unmatched: BTreeMap::new(),
            ports: SharedPorts::default(),
            claimed: BTreeSet::new(),
            disputed: BTreeSet::new(),
            reported: BTreeSet::new(),
            own: BTreeMap::new(),
            announced: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Takes in what an object says of a pod: whose addresses are now.
    pub(super) fn take_object(
        &mut self,
        key: ObjectKey,
        value: Option<ApiObject>,
        own: IpAddr,
        cluster: ClusterId,
    ) -> Vec<(IpNet, Option<Owner>)> {
        self.pods.take(key, value, own, cluster, &mut self.ports)
    }

    /// What this cluster says of a prefix now. Where it says nothing, others may.
    pub(super) fn want(&mut self, prefix: IpNet, owner: Option<Owner>) {
        self.unmatched.remove(&prefix);
        let owner = owner.and_then(|owner| self.translate(prefix, owner));
        let ours = owner.is_some();
        let desired = owner.or_else(|| self.others.claim(&prefix));
        self.remote.want(prefix, desired, ours);
    }

    /// Whose an address is by the numbers of this cluster. A node that still numbers in another way
    /// says numbers that are somebody else's here: the labels beside them count.
    fn translate(&mut self, prefix: IpNet, owner: Owner) -> Option<Owner> {
        let Some(labels) = owner.labels.clone().filter(|_| !owner.identity.is_reserved()) else {
            return Some(owner);
        };
        let said = self.remote.labels_of(owner.identity);
        let is_free = said.is_none();
        if said.is_some_and(|said| are_same(said, &labels)) {
            return Some(owner);
        }
        self.unmatched.insert(prefix, owner.clone());
        match self.remote.number_of(&labels) {
            Some(identity) => Some(Owner { identity, ..owner }),
            None => Some(owner).filter(|_| is_free),
        }
    }

    /// The cluster says something new of identities.
    pub(super) fn renew(&mut self, renewed: Vec<Renewed>) {
        let concerned: Vec<_> = match self.unmatched.is_empty() {
            true => Vec::new(),
            false => {
                let ids: BTreeSet<_> = renewed.iter().map(|(id, _)| *id).collect();
                let labels: BTreeSet<_> =
                    renewed.iter().filter_map(|(_, labels)| labels.clone()).collect();
                let concerns = |owner: &Owner| {
                    let labels = owner.labels.as_ref().is_some_and(|it| labels.contains(it));
                    labels || ids.contains(&owner.identity)
                };
                let all = self.unmatched.iter().filter(|(_, owner)| concerns(owner));
                all.map(|(&prefix, owner)| (prefix, owner.clone())).collect()
            }
        };
        renewed.into_iter().for_each(|(id, labels)| self.remote.renew(id, labels));
        for (prefix, owner) in concerned {
            self.want(prefix, Some(owner));
        }
    }

    /// Other clusters say something new of these. What this one says of its own counts more.
    pub(super) fn heed_others(&mut self, prefixes: Vec<IpNet>) {
        for prefix in prefixes {
            if !self.remote.is_ours(&prefix) {
                self.remote.want(prefix, self.others.claim(&prefix), false);
            }
        }
    }

    /// What an earlier run mapped goes once all have spoken who may know of it.
    pub(super) fn settle(&mut self, own: ClusterId) {
        let Self { remote, others, .. } = self;
        let own = (own, remote.is_listed());
        remote.settle(|id| others.have_said(id, own));
    }

    /// A number means something else to others. Who was told so once may now get another one.
    pub(super) fn dispute(&mut self, identity: IdentityId) {
        self.disputed.insert(identity);
        self.claimed.remove(&identity);
        let Self { own, reported, .. } = self;
        reported.retain(|id| own.get(id).is_none_or(|own| own.identity != identity));
    }

    /// The value under which this node announces a key.
    pub(super) fn announced_as(&self, key: &str) -> Option<&Vec<u8>> {
        self.announced.get(self.keys.get(key)?)?.get(key)
    }

    /// What an endpoint announces from now on; what it announced before.
    pub(super) fn replace(
        &mut self,
        id: EndpointId,
        after: BTreeMap<String, Vec<u8>>,
    ) -> BTreeMap<String, Vec<u8>> {
        let before = self.announced.remove(&id).unwrap_or_default();
        for key in before.keys() {
            // An address that passed to another endpoint is that one's.
            if self.keys.get(key) == Some(&id) {
                self.keys.remove(key);
            }
        }
        self.keys.extend(after.keys().map(|key| (key.clone(), id)));
        if !after.is_empty() {
            self.announced.insert(id, after);
        }
        before
    }
}

/// Whether labels of a CiliumEndpoint are those of an identity. Who leaves the namespace out means the
/// one that the object is in.
fn are_same(identity: &Labels, said: &Labels) -> bool {
    let is_shorter = said.get(NAMESPACE).is_none();
    identity.iter().filter(|label| !is_shorter || label.key != NAMESPACE).eq(said.iter())
}
