use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use super::{others::Others, remote::Remote};
use crate::{
    crd::PodAddresses,
    endpoint::EndpointView,
    model::{ClusterId, EndpointId, IdentityId},
};

/// What outlives a crash: it is said only once.
pub(super) struct Kept {
    pub(super) remote: Remote,
    pub(super) others: Others,
    pub(super) pods: PodAddresses,
    pub(super) claimed: BTreeSet<IdentityId>,
    pub(super) disputed: BTreeSet<IdentityId>,
    /// Endpoints that were told to get another identity.
    pub(super) told: BTreeSet<EndpointId>,
    pub(super) own: BTreeMap<EndpointId, Arc<EndpointView>>,
    pub(super) announced: BTreeMap<EndpointId, BTreeMap<String, Vec<u8>>>,
    /// The keys of these, with whose they are.
    keys: BTreeMap<String, EndpointId>,
}

impl Kept {
    /// `mapped` is what an earlier life of the agent mapped, `held` the identities that policies know
    /// since then.
    pub(super) fn inherited(
        mapped: BTreeMap<IpNet, IdentityId>,
        held: BTreeSet<IdentityId>,
        meshed: bool,
    ) -> Self {
        Self {
            remote: Remote::inherited(mapped, held),
            others: Others::new(meshed),
            pods: PodAddresses::default(),
            claimed: BTreeSet::new(),
            disputed: BTreeSet::new(),
            told: BTreeSet::new(),
            own: BTreeMap::new(),
            announced: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// What this cluster says of a prefix now. Where it says nothing, others may.
    pub(super) fn want(&mut self, prefix: IpNet, identity: Option<IdentityId>) {
        let wanted = identity.or_else(|| self.others.claim(&prefix));
        self.remote.want(prefix, wanted, identity.is_some());
    }

    /// Other clusters say something new of these. What this one says of its own counts more.
    pub(super) fn heed_others(&mut self, prefixes: Vec<IpNet>) {
        for prefix in prefixes {
            if !self.remote.is_ours(&prefix) {
                self.remote.want(prefix, self.others.claim(&prefix), false);
            }
        }
    }

    /// What an earlier life mapped goes once all have spoken who may know of it.
    pub(super) fn settle(&mut self, own: ClusterId) {
        let Self { remote, others, .. } = self;
        let own = (own, remote.is_listed());
        remote.settle(|id| others.have_said(id, own));
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
