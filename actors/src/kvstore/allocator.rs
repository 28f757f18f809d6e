//! The numbers of identities in the cluster: which there are, and which this node uses.
//!
//! A new number is chosen in one transaction, which fails where another node came first. What this
//! node uses is announced under its lease, so that the operator can tell what nobody uses any more;
//! numbers of an earlier life are claimed again once the store answers.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{
    AddressesMsg, IDENTITY_USERS, KvSettings, SessionMsg, Update, WatcherMsg,
    candidates::{Candidate, Disputed, Wish, number_of_users, user_key},
    directory::Directory,
    outage::Dice,
    session::settled,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lane, Message, Ref, Reply},
    identity::IdentityMsg,
    model::{IdentityId, Labels},
    ports::{Change, KvError, KvStore, Listing},
};

/// How long the first list may take before it is asked for again.
const LIST_PATIENCE: Duration = Duration::from_secs(600);
/// How long a claim may take: it waits for a lease.
const CLAIM_PATIENCE: Duration = Duration::from_secs(60);
/// How long the store may take for a list.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause before a claim that somebody else was ahead of, or that failed, is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
const AGAIN_AFTER_ERROR: Duration = Duration::from_secs(2);

type Given = Reply<Result<IdentityId, KvError>>;

/// What the allocator can be told.
pub enum AllocatorMsg {
    /// What the store knows of identities.
    Update(Update),
    /// The number of these labels in the cluster, chosen if they have none. It counts as used.
    Allocate {
        /// The labels.
        labels: Arc<Labels>,
        /// The number that they had before.
        before: Option<IdentityId>,
        /// Where the number goes.
        reply: Reply<Result<IdentityId, KvError>>,
    },
    /// This node uses a number from now on, or still.
    Used(IdentityId, Arc<Labels>),
    /// It does not any more.
    Unused(IdentityId),
    /// It uses these and no others; an answer to what it asked for before would meet nobody.
    OnlyUsed(BTreeSet<IdentityId>),
    /// Who is to hear of identities and of claims, and who numbers them on this node.
    Tell(Ref<AddressesMsg>, Ref<IdentityMsg>),
    /// The first list is in.
    Listed(Result<(), AskError>),
    /// How a claim for these labels went.
    Claimed(Arc<Labels>, IdentityId, Result<Result<bool, KvError>, AskError>),
    /// Who uses these labels.
    Users(Arc<Labels>, Result<Result<Listing, KvError>, AskError>),
    /// Try again for these labels.
    Again(Arc<Labels>),
    /// Show how it stands.
    Show(Reply<AllocatorView>),
}

impl Message for AllocatorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Update(_) => "Update",
            Self::Allocate { .. } => "Allocate",
            Self::Used(..) => "Used",
            Self::Unused(_) => "Unused",
            Self::OnlyUsed(_) => "OnlyUsed",
            Self::Tell(..) => "Tell",
            Self::Listed(_) => "Listed",
            Self::Claimed(..) => "Claimed",
            Self::Users(..) => "Users",
            Self::Again(_) => "Again",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: a number is given back after it was taken.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// A claim that is wanted, for one set of labels.
#[derive(Default)]
struct Attempt {
    wish: Wish,
    replies: Vec<Given>,
    /// A step of it is on its way.
    busy: bool,
    /// A crash ended it amid a claim: that may be done, and is claimed once more to be given back.
    orphaned: bool,
}

/// What outlives a crash.
#[derive(Default)]
struct Kept {
    directory: Directory,
    listed: bool,
    /// Numbers that this node uses.
    used: BTreeMap<IdentityId, Arc<Labels>>,
    /// Those of them that the store has for it.
    claimed: BTreeSet<IdentityId>,
    /// Those that stand for something else there.
    disputed: BTreeSet<IdentityId>,
    /// Labels of which a claim is on its way.
    claiming: BTreeSet<Arc<Labels>>,
    listener: Option<Ref<AddressesMsg>>,
    identities: Option<Ref<IdentityMsg>>,
}

/// The owner of the cluster's identities on this node.
pub struct Allocator {
    store: Rc<dyn KvStore>,
    session: Ref<SessionMsg>,
    watcher: Ref<WatcherMsg>,
    settings: Rc<KvSettings>,
    kept: Rc<RefCell<Kept>>,
    attempts: BTreeMap<Arc<Labels>, Attempt>,
    dice: Dice,
    awaiting: bool,
}

/// What the allocator shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllocatorView {
    /// Identities that the store knows.
    pub known: usize,
    /// Whether all of them were listed once.
    pub listed: bool,
    /// Numbers that this node uses.
    pub used: usize,
    /// Those of them that it claimed.
    pub claimed: usize,
    /// Those that stand for something else in the cluster.
    pub disputed: BTreeSet<IdentityId>,
    /// Label sets that wait for a number.
    pub waiting: usize,
}

impl Allocator {
    /// Makes each life of the allocator.
    pub fn factory(
        store: Rc<dyn KvStore>,
        session: Ref<SessionMsg>,
        watcher: impl Fn() -> Ref<WatcherMsg> + 'static,
        settings: Rc<KvSettings>,
    ) -> impl FnMut() -> Self + 'static {
        let kept = Rc::<RefCell<Kept>>::default();
        move || Self {
            store: Rc::clone(&store),
            session: session.clone(),
            watcher: watcher(),
            settings: Rc::clone(&settings),
            kept: Rc::clone(&kept),
            attempts: BTreeMap::new(),
            dice: Dice::new(settings.seed),
            awaiting: false,
        }
    }

    fn update(&mut self, cx: &mut Cx<'_, Self>, update: Update) {
        let mut kept = self.kept.borrow_mut();
        kept.listed |= update.listed;
        let changes: Vec<Change> = update.changes;
        let renewed: Vec<_> =
            changes.into_iter().filter_map(|change| kept.directory.take(change)).collect();
        // Claims whose number went, or stands for something else now.
        let lost: Vec<_> = renewed
            .iter()
            .filter(|(id, labels)| {
                let differs = kept.used.get(id) != labels.as_ref();
                kept.disputed.contains(id) || (kept.claimed.contains(id) && differs)
            })
            .filter_map(|(id, _)| Some((*id, Arc::clone(kept.used.get(id)?))))
            .collect();
        lost.iter().for_each(|(id, _)| {
            kept.claimed.remove(id);
        });
        drop(kept);
        self.tell(AddressesMsg::Identities(renewed));
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
        reply: Given,
    ) {
        let attempt = self.attempts.entry(Arc::clone(&labels)).or_default();
        attempt.wish.before = attempt.wish.before.or(before);
        attempt.replies.push(reply);
        self.attempt(cx, &labels);
    }

    /// Has the store know that this node uses a number.
    fn hold(&mut self, cx: &mut Cx<'_, Self>, id: IdentityId, labels: Arc<Labels>) {
        let mut kept = self.kept.borrow_mut();
        kept.used.insert(id, Arc::clone(&labels));
        if kept.claimed.contains(&id) {
            return;
        }
        drop(kept);
        self.attempts.entry(Arc::clone(&labels)).or_default().wish.held = Some(id);
        self.attempt(cx, &labels);
    }

    fn unused(&mut self, cx: &mut Cx<'_, Self>, id: IdentityId) {
        let mut kept = self.kept.borrow_mut();
        let Some(labels) = kept.used.remove(&id) else { return };
        kept.disputed.remove(&id);
        let claimed = kept.claimed.remove(&id);
        let mut others = kept.used.iter().filter(|(_, used)| **used == labels);
        let other = others.next().map(|(&other, _)| other);
        if let Some(other) = other {
            kept.claimed.remove(&other);
        }
        drop(kept);
        if let Some(attempt) = self.attempts.get_mut(&labels) {
            attempt.wish.held = None;
        }
        if let Some(other) = other {
            // The store has one number for each user of these labels.
            self.hold(cx, other, labels);
        } else if claimed {
            let key = user_key(&labels.sorted_text(), self.settings.address);
            let gone = SessionMsg::Announce(BTreeMap::from([(key, None)]));
            if let Err(refused) = self.session.tell(gone) {
                tracing::warn!(identity = %id, %refused, "identity stays announced");
            }
        }
    }

    /// Takes the next step for these labels.
    fn attempt(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>) {
        if !self.kept.borrow().listed {
            return self.await_list(cx);
        }
        let Some(attempt) = self.attempts.get_mut(labels).filter(|attempt| !attempt.busy) else {
            return;
        };
        attempt.replies.retain(|reply| !reply.is_closed());
        if attempt.replies.is_empty() && attempt.wish.held.is_none() && !attempt.orphaned {
            self.attempts.remove(labels);
            return;
        }
        let node = self.settings.address;
        let kept = self.kept.borrow();
        let chosen =
            Candidate::choose(labels, &attempt.wish, &kept.directory, node, &mut self.dice);
        drop(kept);
        match chosen {
            Ok(Candidate { id, transaction, leased }) => {
                attempt.busy = true;
                let labels = Arc::clone(labels);
                self.kept.borrow_mut().claiming.insert(Arc::clone(&labels));
                let leased = vec![leased];
                let session = self.session.clone();
                cx.ask(
                    &session,
                    CLAIM_PATIENCE,
                    format!("number {id} for {labels}"),
                    |reply| SessionMsg::Claim { transaction, leased, reply },
                    move |answer| AllocatorMsg::Claimed(labels, id, answer),
                );
            }
            Err(Disputed(id)) => self.dispute(cx, labels, id),
        }
    }

    fn await_list(&mut self, cx: &mut Cx<'_, Self>) {
        if !std::mem::replace(&mut self.awaiting, true) {
            let watcher = self.watcher.clone();
            let why = "the identities that the cluster has";
            cx.ask(&watcher, LIST_PATIENCE, why, WatcherMsg::Await, AllocatorMsg::Listed);
        }
    }

    fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        id: IdentityId,
        answer: Result<Result<bool, KvError>, AskError>,
    ) {
        self.kept.borrow_mut().claiming.remove(&labels);
        let Some(attempt) = self.attempts.get_mut(&labels) else { return };
        match settled(answer, "claim", "an identity") {
            Ok(true) => {
                let mut attempt = self.attempts.remove(&labels).unwrap_or_default();
                attempt.replies.retain(|reply| !reply.is_closed());
                let mut kept = self.kept.borrow_mut();
                kept.directory.insert(id, Some(Arc::clone(&labels)));
                kept.used.insert(id, Arc::clone(&labels));
                kept.claimed.insert(id);
                kept.disputed.remove(&id);
                drop(kept);
                // Before who asked: what it publishes next is believed at once.
                let known = vec![(id, Some(Arc::clone(&labels)))];
                self.tell(AddressesMsg::Identities(known));
                self.tell(AddressesMsg::Claimed(id));
                let wanted = !attempt.replies.is_empty() || attempt.wish.held == Some(id);
                attempt.replies.into_iter().for_each(|reply| reply.send(Ok(id)));
                if !wanted {
                    self.unused(cx, id);
                }
            }
            Ok(false) => {
                attempt.wish.taken.insert(id);
                let prefix = format!("{IDENTITY_USERS}{}/", labels.sorted_text());
                let why = format!("who else uses {labels}");
                let then = move |answer| AllocatorMsg::Users(labels, answer);
                let reply = cx.expect("kvstore", PATIENCE, why, then);
                self.store.list(&prefix, reply);
            }
            Err(error) => {
                tracing::warn!(%labels, %error, "identity was not claimed; trying again");
                cx.after(self.dice.jitter(AGAIN_AFTER_ERROR), AllocatorMsg::Again(labels));
            }
        }
    }

    fn users(
        &mut self,
        cx: &mut Cx<'_, Self>,
        labels: Arc<Labels>,
        answer: Result<Result<Listing, KvError>, AskError>,
    ) {
        if let (Some(attempt), Ok(listing)) =
            (self.attempts.get_mut(&labels), settled(answer, "list", IDENTITY_USERS))
        {
            attempt.wish.peers = number_of_users(&labels, &listing);
        }
        // Meanwhile the watch may bring what others wrote.
        cx.after(self.dice.jitter(AGAIN_AFTER), AllocatorMsg::Again(labels));
    }

    fn again(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>) {
        if let Some(attempt) = self.attempts.get_mut(labels) {
            attempt.busy = false;
            self.attempt(cx, labels);
        }
    }

    /// The number is in force here, and to other nodes it is somebody else: it is not announced, and
    /// its endpoints get the one that the cluster has for them.
    fn dispute(&mut self, cx: &mut Cx<'_, Self>, labels: &Arc<Labels>, id: IdentityId) {
        if self.kept.borrow_mut().disputed.insert(id) {
            tracing::error!(
                identity = %id, %labels,
                "in the cluster this number stands for other labels, or these labels have another \
                 number: its endpoints get that one and are not announced before"
            );
            self.tell_identities(IdentityMsg::Disputed(id));
            self.tell(AddressesMsg::Disputed(id));
        }
        let Some(attempt) = self.attempts.get_mut(labels) else { return };
        attempt.wish.held = None;
        if attempt.replies.is_empty() {
            self.attempts.remove(labels);
        } else {
            self.attempt(cx, labels);
        }
    }

    fn tell_identities(&self, msg: IdentityMsg) {
        let kept = self.kept.borrow();
        if let Some(identities) = &kept.identities
            && let Err(refused) = identities.tell(msg)
        {
            tracing::error!(%refused, "a disputed identity stays in use");
        }
    }

    fn tell(&self, msg: AddressesMsg) {
        let kept = self.kept.borrow();
        if let Some(listener) = &kept.listener
            && let Err(refused) = listener.tell(msg)
        {
            tracing::error!(%refused, "identities of the cluster are not known to its addresses");
        }
    }
}

impl Behaviour for Allocator {
    type Msg = AllocatorMsg;
    type Observed = AllocatorView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let kept = self.kept.borrow();
        let open = kept.used.iter().filter(|(id, _)| !kept.claimed.contains(id));
        let open: Vec<_> = open.map(|(&id, labels)| (id, Arc::clone(labels))).collect();
        let claiming = kept.claiming.clone();
        drop(kept);
        for labels in claiming {
            self.attempts.entry(Arc::clone(&labels)).or_default().orphaned = true;
            self.attempt(cx, &labels);
        }
        open.into_iter().for_each(|(id, labels)| self.hold(cx, id, labels));
    }

    fn handle(&mut self, msg: AllocatorMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            AllocatorMsg::Update(update) => self.update(cx, update),
            AllocatorMsg::Allocate { labels, before, reply } => {
                self.allocate(cx, labels, before, reply);
            }
            AllocatorMsg::Used(id, labels) => self.hold(cx, id, labels),
            AllocatorMsg::Unused(id) => self.unused(cx, id),
            AllocatorMsg::OnlyUsed(ids) => {
                let kept = self.kept.borrow();
                let others: Vec<_> =
                    kept.used.keys().copied().filter(|id| !ids.contains(id)).collect();
                drop(kept);
                self.attempts.values_mut().for_each(|attempt| attempt.replies.clear());
                others.into_iter().for_each(|id| self.unused(cx, id));
            }
            AllocatorMsg::Tell(listener, identities) => {
                let mut kept = self.kept.borrow_mut();
                (kept.listener, kept.identities) = (Some(listener), Some(identities));
            }
            AllocatorMsg::Listed(answer) => {
                self.awaiting = false;
                // The list itself comes as an update.
                if answer.is_err() && !self.attempts.is_empty() {
                    self.await_list(cx);
                }
            }
            AllocatorMsg::Claimed(labels, id, answer) => self.claimed(cx, labels, id, answer),
            AllocatorMsg::Users(labels, answer) => self.users(cx, labels, answer),
            AllocatorMsg::Again(labels) => self.again(cx, &labels),
            AllocatorMsg::Show(reply) => reply.send(self.observe()),
        }
    }

    fn observe(&self) -> AllocatorView {
        let kept = self.kept.borrow();
        AllocatorView {
            known: kept.directory.len(),
            listed: kept.listed,
            used: kept.used.len(),
            claimed: kept.claimed.len(),
            disputed: kept.disputed.clone(),
            waiting: self.attempts.len(),
        }
    }
}
