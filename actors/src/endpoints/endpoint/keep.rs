//! A restart while the cluster cannot be asked: an endpoint keeps the identity and the policy that
//! the kernel holds, and is ready with them, until the policies of the cluster are known, and its
//! labels if those are lost.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{Endpoint, Realised, answers::EndpointAnswer};
use crate::{
    host::{AskError, Cx},
    model::{Direction, IdentityId, PolicyRows},
    policy::rules::PolicyMsg,
};

/// How long the first policies are waited for before they are asked for again: as long as it takes.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

impl Endpoint {
    /// Whether the kernel holds a policy for the identity that it has. With another one nobody else
    /// could know it yet.
    pub(super) fn may_keep(&self) -> bool {
        match &self.datapath.known {
            Some(known) => {
                known.config.is_some_and(|config| config.identity == self.record.identity)
            }
            // It is read before anything is built.
            None => true,
        }
    }

    /// Waits for the first policies, for everyone to see. A change of its own is told of then.
    pub(super) fn await_policies(&mut self, cx: &mut Cx<'_, Self>) {
        if std::mem::replace(&mut self.policy.awaited, true) {
            return;
        }
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.policy,
            PATIENCE,
            "the policies of the cluster; it keeps the policy of the life before",
            PolicyMsg::Ready,
            EndpointAnswer::PoliciesKnown,
        );
    }

    pub(super) fn policies_known(&mut self, cx: &mut Cx<'_, Self>, answer: Result<(), AskError>) {
        self.policy.awaited = false;
        if answer.is_err() && !self.phase.is_going() && self.realised.policy_revision == 0 {
            self.await_policies(cx);
        }
    }

    /// The kernel does what it did in the run before.
    pub(super) fn realise_kept(&mut self) {
        let Some(known) = &self.datapath.known else { return };
        let policy = known.policy.clone().unwrap_or_default();
        self.realised = Arc::new(Realised {
            policy_revision: 0,
            whole_revision: 0,
            labels: Arc::clone(&self.record.identity_labels),
            attachment: known.attachment,
            ingress_enforced: is_enforced(&policy, Direction::Ingress),
            egress_enforced: is_enforced(&policy, Direction::Egress),
            policy,
        });
    }
}

/// Whether something is dropped because no rule allows it: a direction that is not enforced has a
/// row that allows everything.
fn is_enforced(rows: &PolicyRows, direction: Direction) -> bool {
    !rows.iter().any(|(key, entry)| {
        let all = key.identity == IdentityId::UNKNOWN && key.bits == 0;
        key.direction == direction && all && !entry.deny
    })
}
