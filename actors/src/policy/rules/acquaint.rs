//! Identities of other nodes: every endpoint that enforces a policy knows them before the ipcache
//! maps an address to them, also one whose policy an earlier run left.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Policies, Touched, actor::ENFORCE_PATIENCE, answers::PolicyAnswer};
use crate::{
    host::{AskError, Cx, Reply},
    model::{IdentityId, NamedPorts},
    mutants::{Mutant, mutated},
    policy::{
        identity::Identity,
        rules::{AwaitedEndpoints, PolicyNews, Reached},
    },
};

/// How often in a row endpoints may be waited for in vain that would let new peers in where these
/// are denied, before it goes on without them: one that never answers must not keep them out for
/// ever.
const IN_VAIN_MAX: u8 = 8;

impl Policies {
    pub(super) fn acquaint(
        &mut self,
        cx: &mut Cx<'_, Self>,
        identities: Vec<Identity>,
        named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
        reply: Reply<()>,
    ) {
        let ids: BTreeSet<_> = identities.iter().map(|identity| identity.id).collect();
        let renamed = self.known.identity_users.hear_of_others(named_ports);
        let mut new = self.rename(renamed);
        new.extend(self.take_in(identities));
        let mut touched = Touched::default();
        if !new.is_empty() {
            touched = self.recompute_for(&new);
            // An endpoint of this node may get one of them meanwhile.
            self.begin_learning(ids.clone());
        }
        if mutated(Mutant::StrangersMappedEarly) {
            self.announce(cx, touched);
            return reply.send(());
        }
        let (endpoints, revision) = (self.peers.endpoints.clone(), self.known.revision);
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to know identities of other nodes",
            |reply| PolicyNews::PolicyChanged {
                revision,
                touched,
                strangers: ids,
                awaited: AwaitedEndpoints::Able,
                reply,
            },
            move |answer| PolicyAnswer::Acquainted { revision, reply, answer },
        );
    }

    pub(super) fn acquainted(
        &mut self,
        revision: u64,
        reply: Reply<()>,
        answer: Result<Reached, AskError>,
    ) {
        self.end_learning(revision);
        match answer {
            Ok(_) => self.in_vain = 0,
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
