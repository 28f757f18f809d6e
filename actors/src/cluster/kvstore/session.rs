//! This node's part of the store: one lease, kept alive, and all that is bound to it.
//!
//! A lease that ran out while the store was away is granted anew, and everything is announced
//! again; so it is where the store is another one than before. What somebody else deletes comes back.
//! What leaves is deleted only as long as it is still ours.

mod answers;
mod messages;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

pub(super) use answers::SessionAnswer;
pub use messages::{SessionMsg, SessionView, Unreachable};

use self::answers::Committed;
use super::{
    HEARTBEAT,
    guard::{Guard, Guarded},
    heard::{difference, furthest},
    outage::Outage,
};
use crate::{
    cluster::{dice::Dice, sources::Hearing},
    host::{AskError, Behaviour, Cx, Lent, Reply, Survives, TimerId},
    mutants::{Mutant, mutated},
    ports::{
        Change, Condition, KvError, KvStore, LeaseId, Listing, Pair, Put, StoreHeader,
        TRANSACTION_MAX, Transaction, WatchEvent,
    },
};

/// How long the store may take for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often the lease is kept alive and the store asked whether it has a majority, at most.
const BEAT_EVERY: Duration = Duration::from_secs(15);

struct LeasedTransaction {
    transaction: Transaction,
    leased: Vec<Pair>,
    reply: Reply<Result<bool, KvError>>,
}

/// The owner of the lease and of what is announced under it.
pub struct Session {
    store: Rc<dyn KvStore>,
    ttl: Duration,
    /// What is to be there. Outlives a crash: it is said only once.
    desired: Lent<BTreeMap<String, Vec<u8>>>,
    lease: Option<LeaseId>,
    leases: u64,
    granting: bool,
    /// What is there, under the lease.
    written: BTreeMap<String, Vec<u8>>,
    writing: bool,
    /// What somebody else removed since the last write began.
    removed: BTreeSet<String>,
    /// What somebody else wrote over: it is written again with the next beat.
    overwritten: BTreeSet<String>,
    guard: Guard,
    /// The furthest that the store said.
    heard: Option<StoreHeader>,
    /// The same when it was last asked for a majority's word.
    asked: Option<StoreHeader>,
    hearing: Hearing,
    claims: Vec<LeasedTransaction>,
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
        before: Option<StoreHeader>,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let desired = Survives::default();
        move || Self {
            store: Rc::clone(&store),
            ttl,
            desired: desired.lend(),
            lease: None,
            leases: 0,
            granting: false,
            written: BTreeMap::new(),
            writing: false,
            removed: BTreeSet::new(),
            overwritten: BTreeSet::new(),
            guard: Guard::default(),
            heard: before,
            asked: None,
            hearing: Hearing::default(),
            claims: Vec::new(),
            next_beat: None,
            beating: false,
            quorum_errors: 0,
            outage: Outage::new(Dice::new(seed)),
        }
    }

    /// Takes the next step towards what is desired.
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
            let reply = cx.expect("kvstore", PATIENCE, "a lease", SessionAnswer::Granted);
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

    fn claim(&mut self, cx: &mut Cx<'_, Self>, lease: LeaseId, claim: LeasedTransaction) {
        let LeasedTransaction { mut transaction, leased, reply } = claim;
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
        let then = move |answer| SessionAnswer::Claimed { leased, lease, reply, answer };
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
                    self.desired.insert(key.clone(), value.clone());
                    if self.lease == Some(lease) && !self.removed.contains(&key) {
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
        let desired = &*self.desired;
        let missing = desired.iter().filter(|(key, value)| self.written.get(*key) != Some(value));
        let pairs: Vec<Pair> = missing
            .take(TRANSACTION_MAX)
            .map(|(key, value)| Pair { key: key.clone(), value: value.clone() })
            .collect();
        let surplus = self.written.iter().find(|(key, _)| !desired.contains_key(*key));
        let surplus = surplus.map(|(key, value)| (key.clone(), value.clone()));
        if !pairs.is_empty() {
            let put = |Pair { key, value }| Put { key, value, lease: Some(lease) };
            let puts = pairs.iter().cloned().map(put).collect();
            let why = format!("{} announcements", pairs.len());
            let then = move |answer| SessionAnswer::Written(pairs, answer);
            let reply = cx.expect("kvstore", PATIENCE, why, then);
            self.writing = true;
            self.removed.clear();
            self.store.commit(Transaction { puts, ..Transaction::default() }, reply);
        } else if let Some((key, value)) = surplus {
            let when = vec![Condition::ValueIs(key.clone(), value)];
            let transaction = Transaction { when, deletes: vec![key.clone()], puts: Vec::new() };
            let why = format!("{key} to be deleted");
            let reply =
                cx.expect("kvstore", PATIENCE, why, |answer| SessionAnswer::Deleted(key, answer));
            self.writing = true;
            self.store.commit(transaction, reply);
        }
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, pairs: Vec<Pair>, answer: Committed) {
        self.writing = false;
        match settled(answer, "write", "announcements") {
            Ok(_) => {
                let left = pairs.into_iter().filter(|pair| !self.removed.contains(&pair.key));
                self.written.extend(left.map(|pair| (pair.key, pair.value)));
            }
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
            let reply = cx.expect("kvstore", PATIENCE, why, SessionAnswer::Retained);
            self.store.keep_alive(lease, reply);
        }
    }

    fn kept_alive(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<bool, KvError>, AskError>,
    ) {
        match settled(answer, "keep alive", "the lease") {
            Ok(alive) => {
                if !alive {
                    tracing::warn!("the lease in the kvstore ran out");
                    self.lose_lease();
                }
                self.asked = self.heard;
                let why = "whether the store has a majority";
                let reply = cx.expect("kvstore", PATIENCE, why, SessionAnswer::Heard);
                self.store.list(HEARTBEAT, None, reply);
            }
            Err(error) => self.missed(cx, &error),
        }
    }

    fn heard(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Result<Listing, KvError>, AskError>) {
        match settled(answer, "read", HEARTBEAT) {
            Ok(Listing { header, .. }) => {
                self.beating = false;
                self.quorum_errors = 0;
                self.outage.end();
                self.hearing.hear(cx.now());
                self.compare(cx, header);
                for key in std::mem::take(&mut self.overwritten) {
                    self.written.remove(&key);
                }
                self.beat_later(cx);
            }
            Err(error) => self.missed(cx, &error),
        }
    }

    /// Whether the store is the one that it was when it was asked. What this node said to the one
    /// before it says to this one, under a lease of it.
    fn compare(&mut self, cx: &Cx<'_, Self>, said: StoreHeader) {
        match self.asked.and_then(|asked| difference(asked, said)) {
            None => self.heard = Some(furthest(self.heard, said)),
            Some(why) => {
                tracing::warn!(why, "kvstore is another one than before; all is announced again");
                self.heard = Some(said);
                self.hearing.replace(cx.wall(), why);
                self.lose_lease();
                // A mutant may want the lease's end to be ignored, not this.
                self.written.clear();
            }
        }
    }

    /// What the watch over own keys saw.
    fn guarded(&mut self, cx: &mut Cx<'_, Self>, number: u64, event: WatchEvent) {
        match self.guard.seen(cx, number, event) {
            Guarded::Began(header) => {
                // What was deleted before was not seen.
                self.written.retain(|key, _| !Guard::covers(key));
                self.listen(cx, header);
            }
            Guarded::Alive(header) => self.listen(cx, header),
            Guarded::Changed(changes) => {
                self.hearing.hear(cx.now());
                changes.into_iter().for_each(|change| self.touched(change));
            }
            Guarded::Nothing => {}
        }
    }

    /// One server says that of the store; where that does not fit, a majority is asked.
    fn listen(&mut self, cx: &mut Cx<'_, Self>, said: StoreHeader) {
        self.hearing.hear(cx.now());
        match self.heard.and_then(|heard| difference(heard, said)) {
            None => self.heard = Some(furthest(self.heard, said)),
            Some(_) => self.beat(cx),
        }
    }

    fn touched(&mut self, change: Change) {
        let desired = &*self.desired;
        match change {
            Change::Delete(key) if desired.contains_key(&key) => {
                tracing::info!(key, "a key of this node was deleted; it is written again");
                self.lack(key);
            }
            Change::Put(Pair { key, value })
                if desired.get(&key).is_some_and(|own| *own != value) =>
            {
                self.overwritten.insert(key);
            }
            Change::Put(_) | Change::Delete(_) => {}
        }
    }

    /// A key is not there any more.
    fn lack(&mut self, key: String) {
        self.written.remove(&key);
        self.removed.insert(key);
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
        self.next_beat = Some(cx.after(BEAT_EVERY.min(self.ttl / 3), SessionAnswer::Beat));
    }

    /// A write failed: perhaps the lease is gone, perhaps the store is; and perhaps it is done
    /// later all the same. What that leaves goes with the lease; the rest is announced under another.
    fn trouble(&mut self, cx: &mut Cx<'_, Self>, error: &KvError) {
        self.lose_lease();
        self.pause(cx, error);
    }

    fn pause(&mut self, cx: &mut Cx<'_, Self>, error: &KvError) {
        self.hearing.lose();
        self.outage.pause(cx, error.to_string(), || SessionAnswer::Retry);
    }

    fn view(&self) -> SessionView {
        SessionView {
            lease: self.lease,
            leases: self.leases,
            announced: self.desired.len(),
            written: self.written.len(),
            quorum_errors: self.quorum_errors,
            unreachable: self.outage.view(),
            header: self.heard,
            hearing: self.hearing.clone(),
        }
    }
}

/// One error for all ways in which there is no answer.
pub(crate) fn settled<T>(
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
    type Answer = SessionAnswer;
    type Observed = SessionView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.guard.begin(cx, &self.store);
        self.proceed(cx);
    }

    fn handle(&mut self, msg: SessionMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            SessionMsg::Announce(changes) => {
                let desired = &mut *self.desired;
                for (key, value) in changes {
                    match value {
                        Some(value) => desired.insert(key, value),
                        None => desired.remove(&key),
                    };
                }
            }
            SessionMsg::Claim { transaction, leased, reply } => {
                self.claims.push(LeasedTransaction { transaction, leased, reply });
            }
            SessionMsg::Removed(key) => self.lack(key),
            SessionMsg::Show(reply) => reply.send(self.view()),
        }
        self.proceed(cx);
    }

    fn answered(&mut self, answer: SessionAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            SessionAnswer::Granted(answer) => self.granted(cx, answer),
            SessionAnswer::Written(pairs, answer) => self.written(cx, pairs, answer),
            SessionAnswer::Deleted(key, answer) => self.deleted(cx, &key, answer),
            SessionAnswer::Claimed { leased, lease, reply, answer } => {
                self.claimed(cx, leased, lease, reply, answer);
            }
            SessionAnswer::Beat => {
                self.next_beat = None;
                self.beat(cx);
            }
            SessionAnswer::Retained(answer) => self.kept_alive(cx, answer),
            SessionAnswer::Heard(answer) => self.heard(cx, answer),
            SessionAnswer::Guarded(number, event) => self.guarded(cx, number, event),
            SessionAnswer::GuardOver(number) if self.guard.is_over(number) => {
                self.guard.begin(cx, &self.store);
            }
            SessionAnswer::GuardOver(_) => {}
            SessionAnswer::Retry => self.beat(cx),
        }
        self.proceed(cx);
    }

    fn observe(&self) -> SessionView {
        self.view()
    }
}
