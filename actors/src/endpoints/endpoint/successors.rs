//! Prefixes that came with rules while no agent lived. What endpoints enforce then is what an earlier
//! life left in the kernel: it learns of these prefixes before they are mapped.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Endpoint, EndpointState, answers::EndpointAnswer, build::KERNEL_PATIENCE,
    datapath::PendingInherit,
};
use crate::{
    host::{AskError, Cx, Reply},
    model::{IdentityId, PolicyRows},
    policy::rules::{InheritResult, Successors, fit},
    ports::{KernelDone, KernelJob, KernelOp, KernelOutcome},
};

/// The rows of a policy with which packets of successors meet the verdicts of those whose successors they
/// are. Rows that an successor had long ago mean nothing any more.
fn with_successors(rows: &PolicyRows, successors: &Successors) -> PolicyRows {
    let mut of: BTreeMap<IdentityId, Vec<IdentityId>> = BTreeMap::new();
    for (&successor, &from) in successors {
        of.entry(from).or_default().push(successor);
    }
    let mut all = PolicyRows::new();
    for (key, entry) in rows {
        if !successors.contains_key(&key.identity) {
            all.insert(*key, *entry);
        }
        for &successor in of.get(&key.identity).into_iter().flatten() {
            all.insert(crate::model::PolicyKey { identity: successor, ..*key }, *entry);
        }
    }
    all
}

impl Endpoint {
    /// Has the policy map that an earlier run left in that slot know the successors.
    pub(super) fn inherit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        slot: u32,
        successors: Arc<Successors>,
        reply: Reply<InheritResult>,
    ) {
        if self.phase.is_going() {
            return reply.send(Ok(()));
        }
        // Whoever keeps its policy may be at it; who asks again has given up the question before.
        if self.datapath.busy {
            self.datapath.legacy = Some(PendingInherit { slot, successors, reply });
            return;
        }
        self.datapath.busy = true;
        let ops = vec![KernelOp::ReadPolicy { slot }];
        let then = move |answer| EndpointAnswer::Bequest { slot, successors, reply, answer };
        let read = cx.expect("kernel", KERNEL_PATIENCE, "the policy of an earlier life", then);
        self.peers.kernel.submit(KernelJob::new(ops), read);
    }

    /// Takes up the question that came while the kernel was at something.
    pub(super) fn take_up_legacy(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.datapath.busy
            && let Some(PendingInherit { slot, successors, reply }) = self.datapath.legacy.take()
            && !reply.is_closed()
        {
            self.inherit(cx, slot, successors, reply);
        }
    }

    pub(super) fn inherited_policy_read(
        &mut self,
        cx: &mut Cx<'_, Self>,
        slot: u32,
        successors: &Successors,
        reply: Reply<InheritResult>,
        answer: Result<KernelDone, AskError>,
    ) {
        let rows = KernelDone::of_one(answer, |outcome| match outcome {
            KernelOutcome::Policy(rows) => Some(rows),
            _ => None,
        });
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return self.inherited(cx, reply, Err(error.into())),
        };
        // Without a map every packet is dropped. And if nobody waits any more, the policy went on.
        let Some(rows) = rows else { return self.inherited(cx, reply, Ok(())) };
        // Where there is no room, packets of some are denied.
        let most = self.peers.settings.policy_rows_max;
        let desired = match with_successors(&rows, successors) {
            desired if desired.len() > most => fit(&desired, &desired, most),
            desired => desired,
        };
        if desired == rows || self.phase.is_going() || reply.is_closed() {
            return self.inherited(cx, reply, Ok(()));
        }
        self.datapath.retained = None;
        // Whoever builds next reads it again.
        if let Some(known) = &mut self.datapath.known {
            known.policy = None;
        }
        // As in a build, there is no pin of another policy at any moment.
        let endpoint = self.id;
        let ops = vec![
            KernelOp::BuildPolicy { slot, rows: desired },
            KernelOp::UnpinPolicy { endpoint },
            KernelOp::FlipPolicy { slot },
            KernelOp::PinPolicy { endpoint, slot },
        ];
        let submitted = ops.clone();
        let then = move |answer| EndpointAnswer::Inherited { submitted, reply, answer };
        let written = cx.expect("kernel", KERNEL_PATIENCE, "new prefixes in its policy", then);
        self.peers.kernel.submit(KernelJob::new(ops), written);
    }

    pub(super) fn inherited_policy_written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        submitted: &[KernelOp],
        reply: Reply<InheritResult>,
        answer: Result<KernelDone, AskError>,
    ) {
        let outcome = match answer {
            Ok(KernelDone { outcomes, failed }) => {
                if let Some(known) = &mut self.datapath.known {
                    submitted.iter().take(outcomes.len()).for_each(|op| known.done(op, None));
                }
                failed.map_or(Ok(()), |(_, error)| Err(error.to_string().into()))
            }
            Err(error) => {
                // Nobody can say how far it came: read before the next build.
                self.datapath.known = None;
                Err(error.to_string().into())
            }
        };
        self.inherited(cx, reply, outcome);
    }

    fn inherited(
        &mut self,
        cx: &mut Cx<'_, Self>,
        reply: Reply<InheritResult>,
        outcome: InheritResult,
    ) {
        self.datapath.busy = false;
        self.datapath.worked_at = cx.now();
        reply.send(outcome);
        if self.state == EndpointState::Ready
            && let Some(stored) = self.desired.stored.take()
        {
            self.trigger(cx, stored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Direction, PolicyEntry, PolicyKey};

    fn row(identity: u32, port: u16, deny: bool) -> (PolicyKey, PolicyEntry) {
        let identity = IdentityId(identity);
        let key =
            PolicyKey { direction: Direction::Ingress, identity, protocol: 6, port, bits: 16 };
        (key, PolicyEntry { deny, precedence: 1, cookie: 0 })
    }

    #[test]
    fn an_heir_has_the_rows_of_whom_it_inherits_and_no_others() {
        let rows = PolicyRows::from([row(0, 53, false), row(9, 80, true), row(70, 81, false)]);
        let successors =
            Successors::from([(IdentityId(70), IdentityId(9)), (IdentityId(71), IdentityId(9))]);
        let all = [row(0, 53, false), row(9, 80, true), row(70, 80, true), row(71, 80, true)];
        assert_eq!(with_successors(&rows, &successors), PolicyRows::from(all));
    }
}
