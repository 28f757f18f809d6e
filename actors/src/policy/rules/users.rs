//! Who has an identity, with the names of its ports: endpoints of this node, and other nodes' pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::messages::IdentityUser;
use crate::model::{EndpointId, IdentityId, NamedPorts};

/// Every endpoint whose ports have names, by its identity, and other nodes' pods. While an endpoint
/// changes its identity it has both: packets may still carry the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct IdentityUsers {
    here: BTreeMap<IdentityId, BTreeMap<EndpointId, NamedPorts>>,
    /// All names that pods of other nodes have.
    others: BTreeMap<IdentityId, Arc<NamedPorts>>,
}

impl IdentityUsers {
    /// Takes in what is said of an endpoint; whether that is new.
    pub(super) fn insert(&mut self, identity_user: IdentityUser) -> bool {
        let IdentityUser { endpoint, identity, named_ports } = identity_user;
        if named_ports.is_empty() {
            return self.remove(endpoint, identity);
        }
        let all = self.here.entry(identity).or_default();
        all.insert(endpoint, named_ports.clone()) != Some(named_ports)
    }

    pub(super) fn remove(&mut self, endpoint: EndpointId, identity: IdentityId) -> bool {
        let Some(all) = self.here.get_mut(&identity) else { return false };
        let removed = all.remove(&endpoint).is_some();
        if all.is_empty() {
            self.here.remove(&identity);
        }
        removed
    }

    /// The endpoint has no identity but that one; which others it had.
    pub(super) fn keep_only(
        &mut self,
        endpoint: EndpointId,
        identity: Option<IdentityId>,
    ) -> BTreeSet<IdentityId> {
        let others: Vec<IdentityId> =
            self.here.keys().copied().filter(|&id| Some(id) != identity).collect();
        others.into_iter().filter(|&id| self.remove(endpoint, id)).collect()
    }

    /// The identity is nobody's.
    pub(super) fn forget(&mut self, identity: IdentityId) {
        self.here.remove(&identity);
        self.others.remove(&identity);
    }

    /// Takes in all names that other nodes' pods of these identities have; of which that is new.
    pub(super) fn hear_of_others(
        &mut self,
        named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
    ) -> BTreeSet<IdentityId> {
        let mut changed = BTreeSet::new();
        for (id, ports) in named_ports {
            let after = (!ports.is_empty()).then_some(ports);
            if self.others.get(&id) != after.as_ref() {
                changed.insert(id);
            }
            match after {
                Some(ports) => self.others.insert(id, ports),
                None => self.others.remove(&id),
            };
        }
        changed
    }

    /// All names of ports of those who have that identity.
    pub(super) fn named_ports(&self, identity: IdentityId) -> Arc<NamedPorts> {
        let mut all = self.others.get(&identity).cloned().unwrap_or_default();
        for (name, ports) in self.of(identity).flatten() {
            Arc::make_mut(&mut all).entry(name.clone()).or_default().extend(ports);
        }
        all
    }

    pub(super) fn of(&self, identity: IdentityId) -> impl Iterator<Item = &NamedPorts> {
        self.here.get(&identity).into_iter().flat_map(BTreeMap::values)
    }
}
