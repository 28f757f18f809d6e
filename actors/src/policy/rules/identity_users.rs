//! Which endpoint has which identity, with the names of its ports: what an identity is known by
//! beside its labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{PeerFacts, Policies};
use crate::{
    host::Cx,
    model::{EndpointId, IdentityId, NamedPorts},
};

/// An endpoint that has an identity, and the names of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityUser {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The identity.
    pub identity: IdentityId,
    /// Names of the endpoint's ports.
    pub named_ports: NamedPorts,
}

/// Every endpoint whose ports have names, by its identity, and other nodes' pods. While an endpoint
/// changes its identity it has both: packets may still carry the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Bearers {
    here: BTreeMap<IdentityId, BTreeMap<EndpointId, NamedPorts>>,
    /// All names that pods of other nodes have.
    others: BTreeMap<IdentityId, Arc<NamedPorts>>,
}

impl Bearers {
    /// Takes in what is said of an endpoint; whether that is new.
    fn insert(&mut self, identity_user: IdentityUser) -> bool {
        let IdentityUser { endpoint, identity, named_ports } = identity_user;
        if named_ports.is_empty() {
            return self.remove(endpoint, identity);
        }
        let all = self.here.entry(identity).or_default();
        all.insert(endpoint, named_ports.clone()) != Some(named_ports)
    }

    fn remove(&mut self, endpoint: EndpointId, identity: IdentityId) -> bool {
        let Some(all) = self.here.get_mut(&identity) else { return false };
        let removed = all.remove(&endpoint).is_some();
        if all.is_empty() {
            self.here.remove(&identity);
        }
        removed
    }

    /// The endpoint has no identity but that one; which others it had.
    fn keep_only(
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

    fn of(&self, identity: IdentityId) -> impl Iterator<Item = &NamedPorts> {
        self.here.get(&identity).into_iter().flat_map(BTreeMap::values)
    }
}

impl Policies {
    /// Takes in who has which ports: what was known and what is known now of each identity for
    /// which that is new.
    pub(super) fn learn_users(&mut self, identity_users: Vec<IdentityUser>) -> Vec<PeerFacts> {
        let mut changed = BTreeSet::new();
        for identity_user in identity_users {
            let identity = identity_user.identity;
            if self.known.identity_users.insert(identity_user) {
                changed.insert(identity);
            }
        }
        self.look_again(changed)
    }

    /// An endpoint has only that identity now, or is gone.
    pub(super) fn bears_only(
        &mut self,
        cx: &mut Cx<'_, Self>,
        endpoint: EndpointId,
        identity: Option<IdentityId>,
    ) {
        let lost = self.known.identity_users.keep_only(endpoint, identity);
        let changed = self.look_again(lost);
        if changed.is_empty() {
            return;
        }
        let touched = self.recompute_for(&changed);
        self.announce(cx, touched);
    }

    /// Ports of this node's endpoints that have these identities changed.
    fn look_again(&mut self, identities: BTreeSet<IdentityId>) -> Vec<PeerFacts> {
        let known = &mut *self.known;
        for &id in &identities {
            let Some(before) = known.view.get(id).cloned() else { continue };
            let identity_users = &known.identity_users;
            // Nobody asks any more for the policy of an endpoint with the ports of before.
            known.computed.retain(|subject, _| {
                let has = |ports: &NamedPorts| *ports == subject.named_ports;
                subject.labels != before.labels
                    || subject.named_ports.is_empty()
                    || identity_users.of(id).any(has)
            });
        }
        self.rename(identities)
    }

    /// Ports of those who have these identities changed: what was known and what is known now of
    /// each for which that is new.
    pub(super) fn rename(&mut self, identities: BTreeSet<IdentityId>) -> Vec<PeerFacts> {
        let mut changed = Vec::new();
        for id in identities {
            let Some(before) = self.known.view.get(id).cloned() else { continue };
            let named_ports = self.known.identity_users.named_ports(id);
            let after = PeerFacts { named_ports, ..before.clone() };
            if self.known.view.insert(id, after.clone()) {
                changed.extend([before, after]);
            }
        }
        changed
    }
}
