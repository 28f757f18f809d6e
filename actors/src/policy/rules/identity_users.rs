//! Takes in which endpoint has which identity, with the names of its ports: what an identity is known
//! by beside its labels.

use std::collections::BTreeSet;

use super::{PeerFacts, Policies, messages::IdentityUser};
use crate::{
    host::Cx,
    model::{EndpointId, IdentityId, NamedPorts},
};

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
