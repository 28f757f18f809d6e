//! The state of the actor that outlives its crash: what the cluster says, what is mapped, and what
//! this node announces under which key.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use serde_json::Value;

use super::{InheritedAddresses, others::Others, remote::RemoteAddresses};
use crate::{
    cluster::{addresses::pods::PodAddresses, kvstore::Owner},
    endpoints::endpoint::Announcement,
    model::{ClusterId, EndpointId, IdentityId, SharedPorts},
    ports::ObjectKey,
};

/// What outlives a crash: it is said only once.
pub(super) struct AddressesState {
    pub(super) remote: RemoteAddresses,
    pub(super) others: Others,
    pods: PodAddresses,
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
        value: Option<Value>,
        own: IpAddr,
        cluster: ClusterId,
    ) -> Vec<(IpNet, Option<Owner>)> {
        self.pods.take(key, value, own, cluster, &mut self.ports)
    }

    /// What this cluster says of a prefix now. Where it says nothing, others may.
    pub(super) fn want(&mut self, prefix: IpNet, owner: Option<Owner>) {
        let ours = owner.is_some();
        let desired = owner.or_else(|| self.others.claim(&prefix));
        self.remote.want(prefix, desired, ours);
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
