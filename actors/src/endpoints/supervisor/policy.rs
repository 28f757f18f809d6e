//! The policy's changes: endpoints are told, and it is waited until they enforce them. One that does
//! not answer holds up nobody, unless going on would let somebody in there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Endpoints,
    answers::EndpointsAnswer,
    barrier::{Goal, Waiter},
    child::{OVERDUE, SupervisedEndpoint},
    state::EndpointsState,
};
use crate::{
    host::{Cx, Reply},
    model::{EndpointId, IdentityId},
    mutants::{Mutant, mutated},
    policy::rules::{AwaitedEndpoints, PolicyNews, Reached, Touched},
};

impl Endpoints {
    pub(super) fn policy_news(&mut self, cx: &mut Cx<'_, Self>, news: PolicyNews) {
        match news {
            PolicyNews::PolicyChanged { revision, touched, strangers, awaited, reply } => {
                self.policy_changed(cx, revision, &touched, (awaited, strangers), reply);
            }
            PolicyNews::Revision(revision) => self.revised(revision),
            PolicyNews::Inherit { successors, reply } => self.inherit(cx, &successors, reply),
        }
    }

    fn policy_changed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        revision: u64,
        touched: &Touched,
        (awaited, strangers): (AwaitedEndpoints, BTreeSet<IdentityId>),
        reply: Reply<Reached>,
    ) {
        let reason = Arc::from("policy rules updated");
        for id in self.family.barriers.given_up() {
            self.family.children.get_mut(&id).into_iter().for_each(SupervisedEndpoint::give_up);
        }
        let mut missing = BTreeMap::new();
        let restored = awaited != AwaitedEndpoints::Concerned;
        let EndpointsState { children, restoring, .. } = &mut *self.family;
        for (&id, child) in children {
            let concerned = child.is_concerned(&touched.labels);
            if concerned {
                child.desired = revision;
                child.change_policy(&reason, &touched.policies, cx.now());
            }
            // Rules are in force when nobody enforces others, also not those of a change before.
            let is_awaited = match awaited {
                AwaitedEndpoints::Concerned => concerned && child.is_awaited(),
                AwaitedEndpoints::Able => child.enforces() && !child.is_given_up(),
                AwaitedEndpoints::All | AwaitedEndpoints::Everyone => child.enforces(),
            };
            // One that comes back may have asked for its policy before a change that is nothing to
            // it: any policy of this life will do then.
            let returns = restored && restoring.pending().contains(&id);
            let desired = child.desired.max(returns.into());
            if (is_awaited || returns) && child.view.realised.policy_revision < desired {
                missing.insert(id, Goal::Revision(desired));
            }
        }
        self.revised(revision);
        let all_known = !restored || self.family.restoring.known;
        let waiter = match awaited {
            AwaitedEndpoints::Everyone => Waiter::Everyone(reply),
            _ => Waiter::Most(reply, strangers),
        };
        self.family.barriers.add(Goal::Revision(revision), missing, all_known, waiter);
        self.strike_overdue(cx);
    }

    /// Whom it concerns was told of all that leads to that revision.
    pub(super) fn revised(&mut self, revision: u64) {
        self.family.revision = self.family.revision.max(revision);
    }

    /// Those of them that are gone, or built by now, are not waited for.
    pub(super) fn await_built(&mut self, mut missing: BTreeSet<EndpointId>, reply: Reply<()>) {
        let children = &self.family.children;
        missing.retain(|id| children.get(id).is_some_and(|child| !Goal::Built.is_met(&child.view)));
        let missing = missing.into_iter().map(|id| (id, Goal::Built)).collect();
        self.family.barriers.add(Goal::Built, missing, true, Waiter::Built(reply));
    }

    /// Nobody waits any more for those who have not answered for long, where that opens nothing.
    pub(super) fn strike_overdue(&mut self, cx: &mut Cx<'_, Self>) {
        let (EndpointsState { children, barriers, .. }, now) = (&mut *self.family, cx.now());
        barriers.strike_overdue(|id, strangers| {
            let is_over =
                |child: &SupervisedEndpoint| child.is_overdue(now) && !child.opens(strangers);
            mutated(Mutant::OverdueHoldsAll) || !children.get(&id).is_some_and(is_over)
        });
        self.look_for_overdue(cx);
    }

    /// Looks for them again as long as somebody waits.
    pub(super) fn look_for_overdue(&mut self, cx: &mut Cx<'_, Self>) {
        match (self.family.barriers.is_pressing(), self.overdue.take()) {
            (true, None) => self.overdue = Some(cx.after(OVERDUE, EndpointsAnswer::Overdue)),
            (true, timer) => self.overdue = timer,
            (false, Some(timer)) => cx.cancel(timer),
            (false, None) => {}
        }
    }
}
