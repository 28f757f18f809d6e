//! Barriers: who waits until endpoints are built or enforce a revision of the policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    endpoints::endpoint::{EndpointState, EndpointView},
    host::Reply,
    model::{EndpointId, IdentityId},
    policy::rules::Reached,
};

/// What endpoints are waited for to do.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// To show that revision of the policy.
    Revision(u64),
    /// To be built, and well.
    Built,
}

impl Goal {
    pub(super) fn is_met(self, view: &EndpointView) -> bool {
        match self {
            Self::Revision(desired) => view.realised.policy_revision >= desired,
            Self::Built => view.state == EndpointState::Ready && (!view.failing || view.short),
        }
    }
}

/// Who is told once endpoints did what they are waited for.
pub(super) enum Waiter {
    /// Who waits for them to be built, however long that takes.
    Built(Reply<()>),
    /// Who waits for a policy, however long that takes.
    Everyone(Reply<Reached>),
    /// The same, but not for one that does not answer, if that opens nothing for these identities.
    Most(Reply<Reached>, BTreeSet<IdentityId>),
}

impl Waiter {
    fn is_gone(&self) -> bool {
        match self {
            Self::Built(reply) => reply.is_closed(),
            Self::Everyone(reply) | Self::Most(reply, _) => reply.is_closed(),
        }
    }
}

/// Somebody who waits for endpoints.
pub(super) struct Barrier {
    /// What restored endpoints are to do that are yet to be known.
    goal: Goal,
    missing: BTreeMap<EndpointId, Goal>,
    /// Whether those that are waited for are all known.
    all_known: bool,
    /// Whether it is not waited any more for one that did not answer.
    struck: bool,
    waiter: Waiter,
}

/// Everyone who waits so.
#[derive(Default)]
pub(super) struct Barriers(Vec<Barrier>);

impl Barriers {
    /// Waits for those, each to reach its goal. If restored endpoints are yet to be known, it waits
    /// for these too.
    pub(super) fn add(
        &mut self,
        goal: Goal,
        missing: BTreeMap<EndpointId, Goal>,
        all_known: bool,
        waiter: Waiter,
    ) {
        self.0.push(Barrier { goal, missing, all_known, struck: false, waiter });
        self.answer();
    }

    /// Restored endpoints are known.
    pub(super) fn restored(&mut self, endpoints: &BTreeSet<EndpointId>) {
        for barrier in self.0.iter_mut().filter(|barrier| !barrier.all_known) {
            let goal = barrier.goal;
            barrier.missing.extend(endpoints.iter().map(|&id| (id, goal)));
            barrier.all_known = true;
        }
        self.answer();
    }

    /// Those that nobody waits for any more although they did not reach their goal.
    pub(super) fn given_up(&mut self) -> BTreeSet<EndpointId> {
        let over = self.0.extract_if(.., |barrier| barrier.waiter.is_gone());
        over.flat_map(|barrier| barrier.missing.into_keys()).collect()
    }

    /// Whether somebody waits who goes on without one that does not answer.
    pub(super) fn is_pressing(&self) -> bool {
        self.0.iter().any(|barrier| matches!(barrier.waiter, Waiter::Most(..)))
    }

    /// Nobody waits any more for those that `holds` does not say to be waited for, given what is
    /// about to be mapped.
    pub(super) fn strike_overdue(
        &mut self,
        holds: impl Fn(EndpointId, &BTreeSet<IdentityId>) -> bool,
    ) {
        for Barrier { missing, struck, waiter, .. } in &mut self.0 {
            if let Waiter::Most(_, strangers) = waiter {
                let before = missing.len();
                missing.retain(|id, _| holds(*id, strangers));
                *struck |= missing.len() < before;
            }
        }
        self.answer();
    }

    /// An endpoint changed: those whom it was the last to satisfy are answered.
    pub(super) fn seen(&mut self, view: &EndpointView) {
        self.strike(view.id, |goal| goal.is_met(view));
    }

    /// An endpoint is gone: nobody waits for it any more.
    pub(super) fn gone(&mut self, id: EndpointId) {
        self.strike(id, |_| true);
    }

    fn strike(&mut self, id: EndpointId, done: impl Fn(Goal) -> bool) {
        for barrier in &mut self.0 {
            if barrier.missing.get(&id).is_some_and(|goal| done(*goal)) {
                barrier.missing.remove(&id);
            }
        }
        self.answer();
    }

    fn answer(&mut self) {
        let is_over = |barrier: &mut Barrier| barrier.missing.is_empty() && barrier.all_known;
        for Barrier { struck, waiter, .. } in self.0.extract_if(.., is_over) {
            let reached = if struck { Reached::Most } else { Reached::Everyone };
            match waiter {
                Waiter::Built(reply) => reply.send(()),
                Waiter::Everyone(reply) | Waiter::Most(reply, _) => reply.send(reached),
            }
        }
    }
}
