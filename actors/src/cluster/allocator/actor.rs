//! The actor that claims a number for each set of labels and keeps the claims of those in use.
//! It tries again what failed; how a claim is made is the backend's part.

use std::{sync::Arc, time::Duration};

use super::{
    AllocatorMsg, Candidate, Claim, ClaimError, Entry, Found,
    answers::AllocatorAnswer,
    claim::Disputed,
    messages::AllocatorView,
    state::{Allocator, AllocatorState, Attempt},
};
use crate::{
    cluster::{
        allocator::{AllocatorNews, read_object, read_pair},
        kvstore::IDENTITIES,
    },
    host::{Behaviour, Cx, Reply},
    model::{IdentityId, Labels},
    policy::identity::{IdentityMsg, Numbering},
};

/// Pause before a claim that somebody else was ahead of is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Allocator {
    /// The cluster says this of its identities now.
    fn update(
        &mut self,
        cx: &mut Cx<'_, Self>,
        changes: impl IntoIterator<Item = (IdentityId, Entry)>,
    ) {
        let state = &mut *self.state;
        let changes: Vec<_> = changes.into_iter().collect();
        let renewed = changes.iter().map(|(id, entry)| (*id, entry.labels().cloned())).collect();
        for (id, entry) in changes.iter().cloned() {
            state.directory.insert(id, entry);
        }
        // Claims whose number went or is about to, or stands for something else now.
        let lost: Vec<_> = changes
            .iter()
            .filter(|(id, entry)| {
                let fails = state.used.get(id) != entry.labels() || state.directory.is_marked(*id);
                state.disputed.contains(id) || (state.claimed.contains(id) && fails)
            })
            .filter_map(|(id, _)| Some((*id, Arc::clone(state.used.get(id)?))))
            .collect();
        lost.iter().for_each(|(id, _)| {
            state.claimed.remove(id);
        });
        self.tell(AllocatorNews::Identities(renewed));
        for (id, labels) in lost {
            self.hold(cx, id, labels);
        }
        let waiting: Vec<_> = self.attempts.keys().cloned().collect();
        for labels in waiting {
            self.attempt(cx, &labels);
        }
    }

    fn allocate(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        before: Option<IdentityId>,
        reply: Reply<IdentityId>,
    ) {
        let attempt = self.attempts.entry(Arc::clone(&labels)).or_default();
        attempt.wish.before = attempt.wish.before.or(before);
        attempt.replies.push(reply);
        self.attempt(cx, &labels);
    }

    /// Has the cluster know that this node uses a number.
    fn hold(&mut self, cx: &mut Cx<'_, Self>, id: IdentityId, labels: Arc<Labels>) {
        let state = &mut *self.state;
        state.used.insert(id, Arc::clone(&labels));
        if state.claimed.contains(&id) {
            return;
        }
        let wish = &mut self.attempts.entry(Arc::clone(&labels)).or_default().wish;
        (wish.held, wish.confirmed) = (Some(id), state.confirmed.contains(&id));
        self.attempt(cx, &labels);
    }

    fn unused(&mut self, cx: &mut Cx<'_, Self>, id: IdentityId) {
        let state = &mut *self.state;
        let Some(labels) = state.used.remove(&id) else { return };
        state.disputed.remove(&id);
        state.confirmed.remove(&id);
        let claimed = state.claimed.remove(&id);
        let mut others = state.used.iter().filter(|(_, used)| **used == labels);
        let other = others.next().map(|(&other, _)| other);
        if let Some(other) = other {
            state.claimed.remove(&other);
        }
        if let Some(attempt) = self.attempts.get_mut(&labels) {
            attempt.wish.held = None;
        }
        if let Some(other) = other {
            // A store has one number for each user of these labels.
            self.hold(cx, other, labels);
        } else if claimed {
            self.backend.give_up(&labels, id);
        }
    }

    /// Takes the next step for these labels.
    fn attempt(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>) {
        if !self.state.listed {
            return self.await_list(cx);
        }
        let Some(attempt) = self.attempts.get_mut(labels).filter(|it| it.step.is_idle()) else {
            return;
        };
        attempt.replies.retain(|reply| !reply.is_closed());
        if attempt.replies.is_empty() && attempt.wish.held.is_none() && !attempt.orphaned {
            self.attempts.remove(labels);
            return;
        }
        let state = &*self.state;
        let chosen = Candidate::choose(labels, &attempt.wish, &state.directory, &mut *self.backend);
        match chosen {
            Ok(candidate) => {
                attempt.step.asked();
                self.state.claiming.insert(Arc::clone(labels));
                let id = candidate.id;
                if self.backend.claim(cx, candidate) == Claim::Had {
                    self.claimed(cx, Arc::clone(labels), id, Ok(true));
                }
            }
            Err(Disputed(id)) => self.dispute(cx, labels, id),
        }
    }

    fn await_list(&mut self, cx: &mut Cx<'_, Self>) {
        if !std::mem::replace(&mut self.awaiting, true) {
            self.backend.await_list(cx);
        }
    }

    fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        id: IdentityId,
        answer: Result<bool, ClaimError>,
    ) {
        self.state.claiming.remove(&labels);
        let Some(attempt) = self.attempts.get_mut(&labels) else { return };
        match answer {
            Ok(true) => {
                let mut attempt = self.attempts.remove(&labels).unwrap_or_default();
                attempt.replies.retain(|reply| !reply.is_closed());
                let state = &mut *self.state;
                state.directory.insert(id, Entry::Labels(Arc::clone(&labels)));
                if state.used.get(&id).is_some_and(|used| *used != labels) {
                    return self.reserved(cx, labels, id, attempt);
                }
                state.used.insert(id, Arc::clone(&labels));
                state.claimed.insert(id);
                state.confirmed.insert(id);
                state.disputed.remove(&id);
                // Before who asked: what it publishes next is believed at once.
                let known = vec![(id, Some(Arc::clone(&labels)))];
                self.tell(AllocatorNews::Identities(known));
                self.tell(AllocatorNews::Claimed(id));
                let desired = !attempt.replies.is_empty() || attempt.wish.held == Some(id);
                attempt.replies.into_iter().for_each(|reply| reply.send(id));
                if !desired {
                    self.unused(cx, id);
                }
                self.hold_other(cx, labels);
            }
            Ok(false) => {
                attempt.wish.taken.insert(id);
                self.backend.look(cx, &labels, id);
            }
            Err(error) => self.rest(cx, labels, &error),
        }
    }

    /// A number is claimed that endpoints of this node have for other labels and are to leave: nothing
    /// is announced under it before.
    fn reserved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        id: IdentityId,
        attempt: Attempt,
    ) {
        self.tell(AllocatorNews::Identities(vec![(id, Some(Arc::clone(&labels)))]));
        let desired = !attempt.replies.is_empty();
        attempt.replies.into_iter().for_each(|reply| reply.send(id));
        if !desired {
            self.declined(id, &labels);
        }
        self.hold_other(cx, labels);
    }

    /// These labels may have further numbers in use, of which the cluster was not asked yet: an attempt
    /// is for one.
    fn hold_other(&mut self, cx: &mut Cx<'_, Self>, labels: Arc<Labels>) {
        let AllocatorState { used, claimed, disputed, .. } = &*self.state;
        let open = |id: &IdentityId| !claimed.contains(id) && !disputed.contains(id);
        let mut others = used.iter().filter(|(id, used)| **used == labels && open(id));
        if let Some(other) = others.next().map(|(&id, _)| id) {
            self.hold(cx, other, labels);
        }
    }

    /// Nobody uses what was reserved.
    fn declined(&mut self, id: IdentityId, labels: &Labels) {
        let state = &*self.state;
        let claims = |held: &IdentityId| state.used.get(held).is_some_and(|it| **it == *labels);
        if !state.claimed.iter().any(claims) {
            self.backend.give_up(labels, id);
        }
    }

    fn looked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        answer: Result<Found, ClaimError>,
    ) {
        match answer {
            Ok(Found::Users { number, strays }) => {
                let pause = self.dice.jitter(AGAIN_AFTER);
                let Some(attempt) = self.attempts.get_mut(&labels) else { return };
                (attempt.wish.peers, attempt.wish.strays) = (number, strays);
                // Meanwhile the watch may bring what others wrote.
                attempt.step.pause(cx, pause, AllocatorAnswer::Again(labels));
            }
            Ok(Found::Entry(id, entry)) => {
                self.update(cx, [(id, entry)]);
                self.again(cx, &labels);
            }
            Err(error) => self.rest(cx, labels, &error),
        }
    }

    /// The claim neither holds nor fails: it is tried again after a pause that everyone can see.
    fn rest(&mut self, cx: &mut Cx<'_, Self>, labels: Arc<Labels>, error: &ClaimError) {
        let Some(attempt) = self.attempts.get_mut(&labels) else { return };
        tracing::warn!(%labels, %error, "identity was not claimed; trying again");
        let pause = self.dice.jitter(error.pause);
        let why = format!("the number of {labels}, which was not claimed: {error}");
        let again = move || AllocatorAnswer::Again(labels);
        attempt.step.pause_in_sight(cx, (self.backend.name(), pause), why, again);
    }

    fn again(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>) {
        if let Some(attempt) = self.attempts.get_mut(labels) {
            attempt.step.give_up();
            self.attempt(cx, labels);
        }
    }

    /// The number is in force here, and to other nodes it is somebody else: it is not announced, and
    /// its endpoints get the one that the cluster has for them.
    fn dispute(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>, id: IdentityId) {
        if self.state.disputed.insert(id) {
            tracing::error!(
                identity = %id, %labels,
                "in the cluster this number stands for other labels, or these labels have another \
                 number: its endpoints get that one and are not announced before"
            );
            self.tell_identities(IdentityMsg::Disputed(id));
            self.tell(AllocatorNews::Disputed(id));
        }
        let Some(attempt) = self.attempts.get_mut(labels) else { return };
        attempt.wish.held = None;
        if attempt.replies.is_empty() {
            self.attempts.remove(labels);
            self.hold_other(cx, Arc::clone(labels));
        } else {
            self.attempt(cx, labels);
        }
    }

    fn tell_identities(&self, msg: IdentityMsg) {
        let state = &*self.state;
        if let Some(identities) = &state.identities
            && let Err(refused) = identities.tell(msg)
        {
            tracing::error!(%refused, "a disputed identity stays in use");
        }
    }

    fn tell(&self, news: AllocatorNews) {
        let state = &*self.state;
        if let Some(listener) = &state.listener
            && let Err(refused) = listener.say(news)
        {
            tracing::error!(%refused, "identities of the cluster are not known to its addresses");
        }
    }
}

impl Behaviour for Allocator {
    type Msg = AllocatorMsg;
    type Answer = AllocatorAnswer;
    type Observed = AllocatorView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &*self.state;
        let open = state.used.iter().filter(|(id, _)| !state.claimed.contains(id));
        let open: Vec<_> = open.map(|(&id, labels)| (id, Arc::clone(labels))).collect();
        let claiming = state.claiming.clone();
        for labels in claiming {
            self.attempts.entry(Arc::clone(&labels)).or_default().orphaned = true;
            self.attempt(cx, &labels);
        }
        open.into_iter().for_each(|(id, labels)| self.hold(cx, id, labels));
    }

    fn handle(&mut self, msg: AllocatorMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            AllocatorMsg::Update(update) => {
                self.state.listed |= update.listed;
                let entry = |change| read_pair(change, IDENTITIES);
                self.update(cx, update.changes.into_iter().filter_map(entry));
            }
            AllocatorMsg::Objects { objects, defined } => {
                self.state.listed = defined;
                let (entries, cluster) = (objects.into_iter(), self.backend.cluster());
                self.update(cx, entries.filter_map(|object| read_object(object, cluster)));
            }
            AllocatorMsg::Numbering(Numbering::Allocate { labels, before, reply }) => {
                self.allocate(cx, labels, before, reply);
            }
            AllocatorMsg::Numbering(Numbering::Used(id, labels)) => self.hold(cx, id, labels),
            AllocatorMsg::Numbering(Numbering::Unused(id)) => self.unused(cx, id),
            AllocatorMsg::Numbering(Numbering::Movable(id)) => {
                self.tell(AllocatorNews::Disputed(id));
            }
            AllocatorMsg::Numbering(Numbering::Declined(id, labels)) => {
                match self.state.used.get(&id) == Some(&labels) {
                    true => self.unused(cx, id),
                    false => self.declined(id, &labels),
                }
            }
            AllocatorMsg::Numbering(Numbering::OnlyUsed(ids)) => {
                let state = &*self.state;
                let others: Vec<_> =
                    state.used.keys().copied().filter(|id| !ids.contains(id)).collect();
                self.attempts.values_mut().for_each(|attempt| attempt.replies.clear());
                others.into_iter().for_each(|id| self.unused(cx, id));
            }
            AllocatorMsg::Tell(listener, identities) => {
                let state = &mut *self.state;
                (state.listener, state.identities) = (Some(listener), Some(identities));
            }
            AllocatorMsg::Show(reply) => reply.send(self.observe()),
        }
    }

    fn answered(&mut self, answer: AllocatorAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            AllocatorAnswer::Listed(answer) => {
                self.awaiting = false;
                // The list itself comes as an update.
                if answer.is_err() && !self.attempts.is_empty() {
                    self.await_list(cx);
                }
            }
            AllocatorAnswer::Claimed(labels, id, answer) => self.claimed(cx, labels, id, answer),
            AllocatorAnswer::Looked(labels, answer) => self.looked(cx, labels, answer),
            AllocatorAnswer::Again(labels) => self.again(cx, &labels),
        }
    }

    fn observe(&self) -> AllocatorView {
        let state = &*self.state;
        AllocatorView {
            known: state.directory.len(),
            listed: state.listed,
            used: state.used.len(),
            claimed: state.claimed.len(),
            disputed: state.disputed.clone(),
            waiting: self.attempts.len(),
        }
    }
}
