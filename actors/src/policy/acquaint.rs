//! Identities of other nodes: every endpoint that enforces a policy knows them before the ipcache
//! maps an address to them, also one whose policy an earlier life left.

use std::{collections::BTreeSet, sync::Arc};

use super::{PeerFacts, Policies, PolicyMsg, actor::ENFORCE_PATIENCE};
use crate::{
    endpoints::{Awaited, EndpointsMsg},
    host::{AskError, Cx, Reply},
    identity::Identity,
    model::Labels,
    mutants::{Mutant, mutated},
};

/// How often in a row endpoints may be waited for in vain before it goes on without them: one that
/// never answers must not keep the rest from new peers.
const IN_VAIN_MAX: u8 = 8;

impl Policies {
    pub(super) fn acquaint(
        &mut self,
        cx: &mut Cx<'_, Self>,
        identities: Vec<Identity>,
        reply: Reply<()>,
    ) {
        let touched = self.take_in(identities);
        if mutated(Mutant::StrangersMappedEarly) {
            self.announce(cx, touched);
            return reply.send(());
        }
        let (endpoints, revision) = (self.peers.endpoints.clone(), self.known.revision);
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to know identities of other nodes",
            |reply| EndpointsMsg::PolicyChanged {
                revision,
                touched,
                awaited: Awaited::Able,
                reply,
            },
            move |answer| PolicyMsg::Acquainted { reply, answer },
        );
    }

    /// The labels of endpoints whose policy is another one with these identities.
    fn take_in(&mut self, identities: Vec<Identity>) -> BTreeSet<Arc<Labels>> {
        let mut new = Vec::new();
        for identity in identities {
            let named_ports = self.known.bearers.named_ports(identity.id);
            let facts = PeerFacts { labels: identity.labels, prefix: identity.prefix, named_ports };
            if self.known.view.insert(identity.id, facts.clone()) {
                new.push(facts);
            }
        }
        if new.is_empty() {
            return BTreeSet::new();
        }
        self.recompute_for(&new)
    }

    pub(super) fn acquainted(&mut self, reply: Reply<()>, answer: Result<(), AskError>) {
        match answer {
            Ok(()) => self.in_vain = 0,
            Err(error) if self.in_vain < IN_VAIN_MAX => {
                self.in_vain += 1;
                // Who asks hears that nobody answers, and asks again.
                return tracing::warn!(%error, "not every endpoint knows new identities yet");
            }
            Err(error) => {
                tracing::warn!(%error, "not every endpoint knows new identities yet; going on");
            }
        }
        reply.send(());
    }
}
