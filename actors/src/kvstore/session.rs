//! This node's part of the store: one lease, kept alive, and all that is bound to it.
//!
//! A lease that ran out while the store was away is granted anew, and everything is announced
//! again. What leaves is deleted only as long as it is still ours.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use serde::Serialize;

use super::{HEARTBEAT, outage::Outage};
use crate::{
    dice::Dice,
    host::{AskError, Behaviour, Cx, Lane, Message, Reply, TimerId},
    mutants::{Mutant, mutated},
    ports::{
        Condition, KvError, KvStore, LeaseId, Listing, Pair, Put, TRANSACTION_MAX, Transaction,
    },
};

/// How long the store may take for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often the lease is kept alive and the store asked whether it has a majority, at most.
const BEAT_EVERY: Duration = Duration::from_secs(15);

type Committed = Result<Result<bool, KvError>, AskError>;

/// What the session can be told.
pub enum SessionMsg {
    /// These keys have these values for as long as this node lives; those without one go.
    Announce(BTreeMap<String, Option<Vec<u8>>>),
    /// Commit this and, in the same transaction, announce what goes with it.
    Claim {
        /// What must hold, and what is written without a lease.
        transaction: Transaction,
        /// What is announced if it held.
        leased: Vec<Pair>,
        /// Whether it held.
        reply: Reply<Result<bool, KvError>>,
    },
    /// Somebody else removed a key; announced ones come back.
    Removed(String),
    /// Show how it stands.
    Show(Reply<SessionView>),
    /// A lease.
    Granted(Result<Result<LeaseId, KvError>, AskError>),
    /// These announcements are written, or not.
    Written(Vec<Pair>, Committed),
    /// That key is deleted, or was not ours any more.
    Deleted(String, Committed),
    /// How a claim went.
    Claimed {
        /// What was to be announced.
        leased: Vec<Pair>,
        /// The lease that it was bound to.
        lease: LeaseId,
        /// Who asked.
        reply: Reply<Result<bool, KvError>>,
        /// The store's answer.
        answer: Committed,
    },
    /// Time to keep the lease alive.
    Beat,
    /// Whether there is a lease to be kept alive.
    Kept(Result<Result<bool, KvError>, AskError>),
    /// Whether the store has a majority.
    Heard(Result<Result<Listing, KvError>, AskError>),
    /// The pause is over.
    Retry,
}

impl Message for SessionMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Announce(_) => "Announce",
            Self::Claim { .. } => "Claim",
            Self::Removed(_) => "Removed",
            Self::Show(_) => "Show",
            Self::Granted(_) => "Granted",
            Self::Written(..) => "Written",
            Self::Deleted(..) => "Deleted",
            Self::Claimed { .. } => "Claimed",
            Self::Beat => "Beat",
            Self::Kept(_) => "Kept",
            Self::Heard(_) => "Heard",
            Self::Retry => "Retry",
        }
    }

    /// One lane for all: what is announced last counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// A time without the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// Since when, nanoseconds since 1970, UTC.
    pub since: u64,
    /// The last error.
    pub error: String,
}

/// How this node stands with the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// The lease that it has.
    pub lease: Option<LeaseId>,
    /// How many leases it was granted.
    pub leases: u64,
    /// Keys that it wants to be there.
    pub announced: usize,
    /// Those of them that are written under the lease.
    pub written: usize,
    /// How often in a row the store did not show a majority.
    pub quorum_errors: u32,
    /// Since when the store does not answer.
    pub unreachable: Option<Unreachable>,
}

struct Claim {
    transaction: Transaction,
    leased: Vec<Pair>,
    reply: Reply<Result<bool, KvError>>,
}

/// The owner of the lease and of what is announced under it.
pub struct Session {
    store: Rc<dyn KvStore>,
    ttl: Duration,
    /// What is to be there. Outlives a crash: it is said only once.
    wanted: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    lease: Option<LeaseId>,
    leases: u64,
    granting: bool,
    /// What is there, under the lease.
    written: BTreeMap<String, Vec<u8>>,
    writing: bool,
    claims: Vec<Claim>,
    next_beat: Option<TimerId>,
    beating: bool,
    quorum_errors: u32,
    outage: Outage,
}

impl Session {
    /// Makes each life of the session. What a life before had announced goes with its lease, or is
    /// announced again.
    pub fn factory(
        store: Rc<dyn KvStore>,
        ttl: Duration,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let wanted = Rc::default();
        move || Self {
            store: Rc::clone(&store),
            ttl,
            wanted: Rc::clone(&wanted),
            lease: None,
            leases: 0,
            granting: false,
            written: BTreeMap::new(),
            writing: false,
            claims: Vec::new(),
            next_beat: None,
            beating: false,
            quorum_errors: 0,
            outage: Outage::new(Dice::new(seed)),
        }
    }

    /// Takes the next step towards what is wanted.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if self.outage.is_pausing() {
            return;
        }
        let Some(lease) = self.lease else { return self.grant(cx) };
        // The next sign of life says whether that lease still is one.
        if self.outage.is_on() {
            return;
        }
        for claim in std::mem::take(&mut self.claims) {
            self.claim(cx, lease, claim);
        }
        if !self.writing {
            self.write(cx, lease);
        }
    }

    fn grant(&mut self, cx: &mut Cx<'_, Self>) {
        if !std::mem::replace(&mut self.granting, true) {
            let reply = cx.expect("kvstore", PATIENCE, "a lease", SessionMsg::Granted);
            self.store.grant(self.ttl, reply);
        }
    }

    fn granted(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<LeaseId, KvError>, AskError>,
    ) {
        self.granting = false;
        match settled(answer, "grant", "a lease") {
            Ok(lease) => {
                self.lease = Some(lease);
                self.leases += 1;
                self.outage.end();
                self.beat_later(cx);
            }
            Err(error) => self.pause(cx, &error),
        }
    }

    /// What is bound to the lease before goes, or is gone.
    fn lose_lease(&mut self) {
        self.lease = None;
        if !mutated(Mutant::LeaseLossIgnored) {
            self.written.clear();
        }
    }

    fn claim(&mut self, cx: &mut Cx<'_, Self>, lease: LeaseId, claim: Claim) {
        let Claim { mut transaction, leased, reply } = claim;
        if reply.is_closed() {
            return;
        }
        let puts = leased.iter().cloned();
        transaction.puts.extend(puts.map(|Pair { key, value }| Put {
            key,
            value,
            lease: Some(lease),
        }));
        let why = format!("a claim on {}", leased.first().map_or("", |pair| pair.key.as_str()));
        let then = move |answer| SessionMsg::Claimed { leased, lease, reply, answer };
        let answer = cx.expect("kvstore", PATIENCE, why, then);
        self.store.commit(transaction, answer);
    }

    fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        leased: Vec<Pair>,
        lease: LeaseId,
        reply: Reply<Result<bool, KvError>>,
        answer: Committed,
    ) {
        let answer = settled(answer, "claim", "an identity");
        match &answer {
            Ok(true) => {
                for Pair { key, value } in leased {
                    self.wanted.borrow_mut().insert(key.clone(), value.clone());
                    if self.lease == Some(lease) {
                        self.written.insert(key, value);
                    }
                }
            }
            Ok(false) => {}
            Err(error) => self.trouble(cx, error),
        }
        reply.send(answer);
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, lease: LeaseId) {
        let wanted = self.wanted.borrow();
        let missing = wanted.iter().filter(|(key, value)| self.written.get(*key) != Some(value));
        let pairs: Vec<Pair> = missing
            .take(TRANSACTION_MAX)
            .map(|(key, value)| Pair { key: key.clone(), value: value.clone() })
            .collect();
        let surplus = self.written.iter().find(|(key, _)| !wanted.contains_key(*key));
        let surplus = surplus.map(|(key, value)| (key.clone(), value.clone()));
        drop(wanted);
        if !pairs.is_empty() {
            let put = |Pair { key, value }| Put { key, value, lease: Some(lease) };
            let puts = pairs.iter().cloned().map(put).collect();
            let why = format!("{} announcements", pairs.len());
            let then = move |answer| SessionMsg::Written(pairs, answer);
            let reply = cx.expect("kvstore", PATIENCE, why, then);
            self.writing = true;
            self.store.commit(Transaction { puts, ..Transaction::default() }, reply);
        } else if let Some((key, value)) = surplus {
            let when = vec![Condition::ValueIs(key.clone(), value)];
            let transaction = Transaction { when, deletes: vec![key.clone()], puts: Vec::new() };
            let why = format!("{key} to be deleted");
            let reply =
                cx.expect("kvstore", PATIENCE, why, |answer| SessionMsg::Deleted(key, answer));
            self.writing = true;
            self.store.commit(transaction, reply);
        }
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, pairs: Vec<Pair>, answer: Committed) {
        self.writing = false;
        match settled(answer, "write", "announcements") {
            Ok(_) => self.written.extend(pairs.into_iter().map(|pair| (pair.key, pair.value))),
            Err(error) => self.trouble(cx, &error),
        }
    }

    fn deleted(&mut self, cx: &mut Cx<'_, Self>, key: &str, answer: Committed) {
        self.writing = false;
        match settled(answer, "delete", key) {
            // One with another value is somebody else's by now.
            Ok(_) => {
                self.written.remove(key);
            }
            Err(error) => self.trouble(cx, &error),
        }
    }

    fn beat(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(timer) = self.next_beat.take() {
            cx.cancel(timer);
        }
        let Some(lease) = self.lease else { return };
        if !std::mem::replace(&mut self.beating, true) {
            let why = format!("lease {lease} to be kept alive");
            let reply = cx.expect("kvstore", PATIENCE, why, SessionMsg::Kept);
            self.store.keep_alive(lease, reply);
        }
    }

    fn kept(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Result<bool, KvError>, AskError>) {
        match settled(answer, "keep alive", "the lease") {
            Ok(alive) => {
                if !alive {
                    tracing::warn!("the lease in the kvstore ran out");
                    self.lose_lease();
                }
                let why = "whether the store has a majority";
                let reply = cx.expect("kvstore", PATIENCE, why, SessionMsg::Heard);
                self.store.list(HEARTBEAT, None, reply);
            }
            Err(error) => self.missed(cx, &error),
        }
    }

    fn heard(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Result<Listing, KvError>, AskError>) {
        match settled(answer, "read", HEARTBEAT) {
            Ok(_) => {
                self.beating = false;
                self.quorum_errors = 0;
                self.outage.end();
                self.beat_later(cx);
            }
            Err(error) => self.missed(cx, &error),
        }
    }

    fn missed(&mut self, cx: &mut Cx<'_, Self>, error: &KvError) {
        self.beating = false;
        self.quorum_errors += 1;
        self.pause(cx, error);
    }

    fn beat_later(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(timer) = self.next_beat.take() {
            cx.cancel(timer);
        }
        self.next_beat = Some(cx.after(BEAT_EVERY.min(self.ttl / 3), SessionMsg::Beat));
    }

    /// A write failed: perhaps the lease is gone, perhaps the store is; and perhaps it is done
    /// later all the same. What that leaves goes with the lease; the rest is announced under another.
    fn trouble(&mut self, cx: &mut Cx<'_, Self>, error: &KvError) {
        self.lose_lease();
        self.pause(cx, error);
    }

    fn pause(&mut self, cx: &mut Cx<'_, Self>, error: &KvError) {
        self.outage.pause(cx, error.to_string(), || SessionMsg::Retry);
    }

    fn view(&self) -> SessionView {
        SessionView {
            lease: self.lease,
            leases: self.leases,
            announced: self.wanted.borrow().len(),
            written: self.written.len(),
            quorum_errors: self.quorum_errors,
            unreachable: self.outage.view(),
        }
    }
}

/// One error for all ways in which there is no answer.
pub(super) fn settled<T>(
    answer: Result<Result<T, KvError>, AskError>,
    op: &'static str,
    about: &str,
) -> Result<T, KvError> {
    answer.unwrap_or_else(|error| {
        Err(KvError {
            op,
            about: about.to_owned(),
            cause: error.to_string(),
            remedy: "look whether the store answers others",
        })
    })
}

impl Behaviour for Session {
    type Msg = SessionMsg;
    type Observed = SessionView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.proceed(cx);
    }

    fn handle(&mut self, msg: SessionMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            SessionMsg::Announce(changes) => {
                let mut wanted = self.wanted.borrow_mut();
                for (key, value) in changes {
                    match value {
                        Some(value) => wanted.insert(key, value),
                        None => wanted.remove(&key),
                    };
                }
            }
            SessionMsg::Claim { transaction, leased, reply } => {
                self.claims.push(Claim { transaction, leased, reply });
            }
            SessionMsg::Removed(key) => {
                self.written.remove(&key);
            }
            SessionMsg::Show(reply) => reply.send(self.view()),
            SessionMsg::Granted(answer) => self.granted(cx, answer),
            SessionMsg::Written(pairs, answer) => self.written(cx, pairs, answer),
            SessionMsg::Deleted(key, answer) => self.deleted(cx, &key, answer),
            SessionMsg::Claimed { leased, lease, reply, answer } => {
                self.claimed(cx, leased, lease, reply, answer);
            }
            SessionMsg::Beat => {
                self.next_beat = None;
                self.beat(cx);
            }
            SessionMsg::Kept(answer) => self.kept(cx, answer),
            SessionMsg::Heard(answer) => self.heard(cx, answer),
            SessionMsg::Retry => self.beat(cx),
        }
        self.proceed(cx);
    }

    fn observe(&self) -> SessionView {
        self.view()
    }
}
