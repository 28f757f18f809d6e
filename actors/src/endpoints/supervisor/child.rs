//! What the supervisor keeps of each endpoint: its address, its last view, and what it was told.
//! It keeps what a full mailbox refused, and tells whether a late endpoint lets denied peers pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    endpoints::{
        endpoint::{
            Announcement, Brought, EndpointMsg, EndpointState, EndpointView, Level, Realised,
        },
        workloads::PodFacts,
    },
    host::{Ref, Time},
    model::{IdentityId, Labels, PolicyRows},
    policy::rules::{Changed, Subject, opens},
};

/// How often an endpoint whose builds are refused is waited for before it is given up.
const IN_VAIN_MAX: u8 = 8;

/// Whom nobody waits for who has not done for so long what it was told, unless that would open
/// something: that one never answers has no proof.
pub(super) const OVERDUE: Duration = Duration::from_secs(1);

/// Policies that are remembered of one that does not answer.
const TOLD_MAX: usize = 32;

/// An endpoint as its supervisor knows it.
pub(super) struct SupervisedEndpoint {
    pub(super) address: Ref<EndpointMsg>,
    /// How it said that it looks.
    pub(super) view: Arc<EndpointView>,
    /// It was told to build since then.
    reported: bool,
    /// Where the policy is that an earlier run left it.
    pub(super) slot: Option<u32>,
    /// The newest revision of the policy that concerns it.
    pub(super) desired: u64,
    /// The kernel has a policy of it, of this life or an earlier one.
    enforces: bool,
    /// Labels whose policy the kernel has, if it is of this life; they outlive the actor's crash.
    enforced: Option<Arc<Labels>>,
    /// How often in a row it was waited for in vain while the kernel refused its builds.
    in_vain: u8,
    /// Rows that an earlier run left, if they were read.
    left: Option<Arc<PolicyRows>>,
    /// Since when it has not done what it was told.
    behind: Option<Time>,
    /// Policies that it was told of meanwhile, the newest last: the kernel may have any of them.
    /// None if it was told of one that is not known here.
    told_of: Option<Vec<Arc<PolicyRows>>>,
    /// What other nodes were told of it.
    pub(super) announced: Option<Announcement>,
    owed: Owed,
}

/// What its full mailbox handed back.
#[derive(Default)]
struct Owed {
    restore: bool,
    trigger: Option<(Level, Arc<str>)>,
    pod: Option<PodFacts>,
}

impl SupervisedEndpoint {
    pub(super) fn new(
        address: Ref<EndpointMsg>,
        view: Arc<EndpointView>,
        slot: Option<u32>,
        left: Option<Arc<PolicyRows>>,
    ) -> Self {
        // What an earlier run left is older than any revision of this one.
        let enforces = slot.is_some();
        let (desired, owed) = (enforces.into(), Owed::default());
        let (reported, enforced, in_vain) = (false, None, 0);
        let (announced, behind, told_of) = (None, None, Some(Vec::new()));
        Self {
            address,
            view,
            reported,
            slot,
            desired,
            enforces,
            enforced,
            in_vain,
            left,
            behind,
            told_of,
            announced,
            owed,
        }
    }

    /// Takes in how it looks now.
    pub(super) fn show(&mut self, view: Arc<EndpointView>) {
        if view.realised.policy_revision > 0 {
            self.enforces = true;
            self.enforced = Some(Arc::clone(&view.realised.labels));
            self.left = None;
        }
        if view.realised.policy_revision >= self.desired {
            (self.behind, self.told_of) = (None, Some(Vec::new()));
        }
        if !view.failing {
            self.in_vain = 0;
        }
        self.view = view;
        self.reported = false;
    }

    /// Where it stands: one that was told to build is not ready, although it has not said so.
    pub(super) fn shown_state(&self) -> EndpointState {
        match self.view.state {
            EndpointState::Ready if self.reported => EndpointState::WaitingToRegenerate,
            state => state,
        }
    }

    /// Whether it is on its way out: what it was made for may be made anew.
    pub(super) fn is_going(&self) -> bool {
        matches!(self.view.state, EndpointState::Disconnecting | EndpointState::Disconnected)
    }

    /// How it looks to others, given the newest revision of the policy.
    pub(super) fn shown(&self, newest: u64) -> Arc<EndpointView> {
        let (state, revision) = (self.shown_state(), self.revision(newest));
        if state == self.view.state && revision == self.view.realised.whole_revision {
            return Arc::clone(&self.view);
        }
        let mut view = (*self.view).clone();
        view.state = state;
        let policy_revision = view.realised.policy_revision.max(revision);
        let realised = (*view.realised).clone();
        view.realised =
            Arc::new(Realised { policy_revision, whole_revision: revision, ..realised });
        Arc::new(view)
    }

    /// Somebody who waited for it to enforce a policy does so no longer.
    pub(super) fn give_up(&mut self) {
        let refused = self.view.failing && self.view.refused;
        self.in_vain = if refused { self.in_vain.saturating_add(1) } else { 0 };
    }

    /// Whether nobody waits for it any more: the kernel has refused its builds ever since it was
    /// waited for.
    pub(super) fn is_given_up(&self) -> bool {
        self.in_vain >= IN_VAIN_MAX
    }

    /// Whether a change for these labels concerns it: they are its own, or packets still meet the
    /// policy of those that it had before.
    pub(super) fn is_concerned(&self, touched: &BTreeSet<Arc<Labels>>) -> bool {
        let labels = [Some(&self.view.identity_labels), self.enforced.as_ref()];
        labels.into_iter().flatten().any(|labels| touched.contains(labels))
    }

    /// Whether packets may meet a policy of it: one that is there, also if its actor crashed and
    /// knows nothing of it, or one that is being built.
    pub(super) fn enforces(&self) -> bool {
        match self.view.state {
            EndpointState::WaitingToRegenerate | EndpointState::Regenerating => true,
            EndpointState::Disconnecting | EndpointState::Disconnected => false,
            _ => self.enforces,
        }
    }

    /// Tells it to build; what its full mailbox hands back is owed to it.
    pub(super) fn trigger(&mut self, level: Level, reason: &Arc<str>) {
        self.regenerate(level, reason, None);
    }

    /// Tells it to build with the policy among these that is its own, if one is.
    pub(super) fn change_policy(
        &mut self,
        reason: &Arc<str>,
        policies: &Arc<BTreeMap<Subject, Changed>>,
        now: Time,
    ) {
        self.behind.get_or_insert(now);
        let brought = policies.get(&self.view.subject());
        match (brought, &mut self.told_of) {
            // What it asked for itself meanwhile is one of these two.
            (Some(Changed { policy, before, .. }), Some(all)) if all.len() < TOLD_MAX => {
                all.extend([Arc::clone(before), Arc::clone(&policy.rows)]);
            }
            _ => self.told_of = None,
        }
        let (policies, seen) = (Arc::clone(policies), Arc::clone(&self.view));
        self.regenerate(Level::Rewrite, reason, Some(Brought { policies, seen }));
    }

    fn regenerate(&mut self, level: Level, reason: &Arc<str>, brought: Option<Brought>) {
        let (tells, waiting) = (brought.is_some(), Vec::new());
        let msg = EndpointMsg::Regenerate {
            level,
            reason: Arc::clone(reason),
            brought,
            waiting,
            looks: false,
        };
        match self.address.tell(msg) {
            Ok(()) => self.reported |= tells,
            // By the time that it is paid, another policy may be the newest.
            Err(_) => {
                let before = self.owed.trigger.as_ref().map(|(level, _)| *level);
                let level = before.map_or(level, |before| before.max(level));
                self.owed.trigger = Some((level, Arc::clone(reason)));
            }
        }
    }

    /// Whether it has not done for long what it was told.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.behind.is_some_and(|since| now.since(since) >= OVERDUE)
    }

    /// Whether packets of these peers may pass there that are to be denied, as long as it does not
    /// do what it was told.
    pub(super) fn opens(&self, peers: &BTreeSet<IdentityId>) -> bool {
        if peers.is_empty() {
            return false;
        }
        let now = match (self.view.realised.policy_revision, self.slot) {
            // It drops everything until it is built for the first time.
            (0, None) => None,
            (0, Some(_)) if self.left.is_none() => return true,
            (0, Some(_)) => self.left.as_ref(),
            _ => Some(&self.view.realised.policy),
        };
        let Some((reported, desired)) =
            self.told_of.as_ref().and_then(|all| Some((all, all.last()?)))
        else {
            return true;
        };
        now.into_iter().chain(reported).any(|rows| opens(rows, desired, peers))
    }

    /// The newest revision of which it enforces all, given the newest of all: what does not concern
    /// it changes nothing.
    pub(super) fn revision(&self, newest: u64) -> u64 {
        let realised = &self.view.realised;
        let whole = realised.whole_revision == realised.policy_revision;
        let current =
            whole && realised.policy_revision > 0 && realised.policy_revision >= self.desired;
        if current { newest.max(realised.policy_revision) } else { realised.whole_revision }
    }

    /// Tells it what the cluster says of its pod.
    pub(super) fn describe(&mut self, pod: &PodFacts) {
        let reported = self.address.tell(EndpointMsg::Pod(pod.clone()));
        self.owed.pod = reported.is_err().then(|| pod.clone());
    }

    /// Tells it to come back from an earlier run.
    pub(super) fn restore(&mut self) {
        self.owed.restore = self.address.tell(EndpointMsg::RegenerateAfterRestore).is_err();
    }

    /// Tells it what it is owed.
    pub(super) fn pay(&mut self) {
        let Owed { restore, trigger, pod } = std::mem::take(&mut self.owed);
        if restore {
            self.restore();
        }
        if let Some(pod) = pod {
            self.describe(&pod);
        }
        if let Some((level, reason)) = trigger {
            self.trigger(level, &reason);
        }
    }

    /// Whether a new identity waits for this endpoint: it is programmed, or is being so with a
    /// policy that may be older, also while it waits for another identity. One that has none yet
    /// denies everything, and its first build will know the new one; a restored one may itself wait
    /// until its own is known.
    pub(super) fn is_awaited(&self) -> bool {
        match self.view.state {
            EndpointState::Ready | EndpointState::WaitingForIdentity => {
                self.view.realised.policy_revision > 0
            }
            EndpointState::WaitingToRegenerate | EndpointState::Regenerating => true,
            _ => false,
        }
    }
}
