//! Who beats, looks, and removes identities of the kvstore: one question to it at a time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use super::{
    StoreCollectorView,
    answers::StoreCollectorAnswer,
    sweep::{StoreSweep, UnusedIdentity, UnusedMarks},
};
use crate::{
    cluster::kvstore::{HEARTBEAT, difference, settled, watch},
    host::{AskError, Behaviour, Cx, Pauses, Ref, Retry, Time},
    model::{ApiObject, Timestamp},
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::{FollowedKind, KindStanding, ObjectNews, WorkerMsg},
    },
    ports::{
        Condition, KvError, KvStore, LeaseId, Listing, ObjectKey, Put, Revision, StoreHeader,
        Transaction, WATCH_ALIVE_EVERY, Watch, WatchEvent,
    },
};

/// How long the store may take for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the Lease may take.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(30);
/// For so long the Lease counts as confirmed.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);
/// A removal needs a heartbeat that young: then a backup without the newest users is no older than that.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// How often the heartbeat is written.
const BEAT_EVERY: Duration = Duration::from_secs(60);
/// How long it outlives who writes it.
const BEAT_TTL: Duration = Duration::from_secs(15 * 60);
/// So many are removed in a minute: the rest waits.
const REMOVED_MAX: u32 = 2500;
/// A watch that said nothing for so long does not count.
const SILENCE_MAX: Duration = Duration::from_secs(3 * WATCH_ALIVE_EVERY.as_secs());
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_secs(1), most: Duration::from_secs(60) };

/// Whom the collector of the kvstore talks to.
#[derive(Clone)]
pub(in crate::operator) struct StoreCollectorPeers {
    pub(in crate::operator) store: Rc<dyn KvStore>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
}

/// Who removes identities of the kvstore.
pub(in crate::operator) struct StoreCollector {
    peers: StoreCollectorPeers,
    /// How often is looked for what nobody uses; zero for never.
    every: Duration,
    /// Numbers that CiliumEndpoints have.
    endpoints: BTreeMap<ObjectKey, u64>,
    standing: KindStanding,
    lease: Option<LeaseId>,
    /// The heartbeat that was written last. While it stands, the store is the one that it was.
    beat: Option<String>,
    /// When somebody began to write it.
    begun_beat: Option<Time>,
    beat_is_due: bool,
    /// When the next heartbeat is due, and how often it failed.
    beats: Retry,
    header: Option<StoreHeader>,
    /// A watch of the heartbeat: who restores a store ends it, and all that was known of the store with it.
    watch: Option<Watch>,
    watch_number: u64,
    /// When the watch spoke last.
    heard: Option<Time>,
    /// Something was asked, and not answered yet.
    is_asking: bool,
    confirmed: Option<Time>,
    sweep: Option<StoreSweep>,
    marks: UnusedMarks,
    leaving: VecDeque<UnusedIdentity>,
    /// How many may go in this minute.
    allowance: u32,
    view: StoreCollectorView,
}

impl StoreCollector {
    pub(in crate::operator) fn new(peers: StoreCollectorPeers, every: Duration) -> Self {
        Self {
            peers,
            every,
            endpoints: BTreeMap::new(),
            standing: KindStanding::default(),
            lease: None,
            beat: None,
            begun_beat: None,
            beat_is_due: true,
            beats: Retry::default(),
            header: None,
            watch: None,
            watch_number: 0,
            heard: None,
            is_asking: false,
            confirmed: None,
            sweep: None,
            marks: UnusedMarks::default(),
            leaving: VecDeque::new(),
            allowance: REMOVED_MAX,
            view: StoreCollectorView::default(),
        }
    }

    /// Does what comes next. The heartbeat goes first: it says that the store is the one that it was.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        if self.is_asking {
            return;
        }
        let is_confirmed = self.is_younger(cx, self.confirmed, CONFIRMED_FOR);
        if self.beat_is_due && self.beat.is_none() && !is_confirmed {
            // One that follows none is written by who leads alone: another one's may stand there.
            return self.confirm(cx);
        }
        if self.beat_is_due {
            return match self.lease {
                None => self.grant(cx),
                Some(lease) => self.keep_alive(cx, lease),
            };
        }
        let Some(beat) = self.beat.clone() else { return };
        if let Some((prefix, from)) = self.sweep.as_ref().and_then(StoreSweep::question) {
            self.is_asking = true;
            let why = "identities, and who uses them";
            let reply = cx.expect("kvstore", PATIENCE, why, StoreCollectorAnswer::Listed);
            return self.peers.store.list(prefix, from, reply);
        }
        self.conclude();
        if self.leaving.is_empty() || self.allowance == 0 {
            return;
        }
        if !is_confirmed {
            self.confirm(cx);
        } else if !self.is_younger(cx, self.begun_beat, FRESH_FOR) {
            self.beat_is_due = true;
            self.advance(cx);
        } else if !self.is_younger(cx, self.heard, SILENCE_MAX) {
            self.lose(cx, "the watch of the heartbeat is silent".to_owned());
        } else {
            self.remove(cx, &beat);
        }
    }

    fn grant(&mut self, cx: &mut Cx<'_, Self>) {
        self.is_asking = true;
        let why = "a lease of the heartbeat";
        let reply = cx.expect("kvstore", PATIENCE, why, StoreCollectorAnswer::Granted);
        self.peers.store.grant(BEAT_TTL, reply);
    }

    fn keep_alive(&mut self, cx: &mut Cx<'_, Self>, lease: LeaseId) {
        self.is_asking = true;
        let why = "the lease of the heartbeat to be kept alive";
        let reply = cx.expect("kvstore", PATIENCE, why, StoreCollectorAnswer::Retained);
        self.peers.store.keep_alive(lease, reply);
    }

    /// Writes the heartbeat, if the one of before still stands.
    fn beat(&mut self, cx: &mut Cx<'_, Self>, lease: LeaseId) {
        self.is_asking = true;
        self.begun_beat = Some(cx.now());
        // No two are alike: by its text a store is told from its backup.
        let beat = Timestamp::to_the_nanosecond(cx.wall()).0;
        let transaction = Transaction {
            when: self.beat.as_deref().map(stands).into_iter().collect(),
            puts: vec![Put {
                key: HEARTBEAT.to_owned(),
                value: beat.clone().into_bytes(),
                lease: Some(lease),
            }],
            deletes: Vec::new(),
        };
        let then = move |answer| StoreCollectorAnswer::Beaten(beat, answer);
        let reply = cx.expect("kvstore", PATIENCE, "the heartbeat to be written", then);
        self.peers.store.commit(transaction, reply);
    }

    fn beaten(&mut self, cx: &mut Cx<'_, Self>, beat: String, answer: Result<bool, KvError>) {
        match answer {
            Ok(true) => {
                self.view.beats += 1;
                self.view.error = None;
                self.beat = Some(beat);
                self.beat_is_due = false;
                self.beats.pause(cx, BEAT_EVERY, StoreCollectorAnswer::Beat);
                if self.watch.is_none() {
                    self.listen(cx);
                }
            }
            Ok(false) => {
                let why = "the heartbeat of before is gone: the store is another one than before, or \
                           somebody else writes a heartbeat";
                self.forget(why.to_owned());
            }
            Err(error) => self.lose(cx, error.to_string()),
        }
    }

    /// Watches the heartbeat from now on.
    fn listen(&mut self, cx: &mut Cx<'_, Self>) {
        self.watch_number += 1;
        let (number, store) = (self.watch_number, &self.peers.store);
        let answer = move |event| StoreCollectorAnswer::Heard(number, event);
        let (what, from) = ("kvstore: heartbeat".to_owned(), Revision::default());
        self.watch = Some(watch(cx, store, what, (HEARTBEAT, from), answer));
    }

    /// What the watch of that number tells.
    fn heard(&mut self, cx: &mut Cx<'_, Self>, number: u64, event: WatchEvent) {
        if self.watch.is_none() || number != self.watch_number {
            return;
        }
        self.heard = Some(cx.now());
        match event {
            // A server may lag behind what others said: its word is not compared.
            WatchEvent::Alive(_) | WatchEvent::Changed { .. } => {}
            WatchEvent::Compacted => {
                self.lose(cx, "the watch of the heartbeat is behind".to_owned());
            }
            WatchEvent::Ended(error) => self.lose(cx, error.to_string()),
        }
    }

    /// Whether the store is the one that it was; all is forgotten if it is not.
    fn compare(&mut self, said: StoreHeader) {
        match self.header.and_then(|before| difference(before, said)) {
            Some(why) => self.forget(format!("the store is another one than before: {why}")),
            None => self.header = Some(said),
        }
    }

    /// The store did not answer, or a watch of it ended. What was asked may have been done all the same.
    fn lose(&mut self, cx: &mut Cx<'_, Self>, why: String) {
        self.forget(why);
        self.beat_is_due = false;
        self.beats.failed(PAUSES, cx, StoreCollectorAnswer::Beat);
    }

    /// Nodes may not have said yet what they use: all marks go, and the heartbeat begins anew.
    fn forget(&mut self, why: String) {
        if self.view.error.as_ref() != Some(&why) {
            tracing::warn!(why, "identities in the kvstore are looked at anew");
        }
        self.view.lost += 1;
        self.view.error = Some(why);
        self.beat_is_due = true;
        (self.beat, self.header) = (None, None);
        (self.watch, self.heard) = (None, None);
        if !mutated(Mutant::StoredIdentityUnchained) {
            self.marks.clear();
            self.leaving.clear();
            self.sweep = None;
        }
    }

    fn listed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Listing, KvError>) {
        match answer {
            Ok(part) => {
                self.compare(part.header);
                if let Some(sweep) = &mut self.sweep {
                    sweep.read(part);
                }
            }
            Err(error) => self.lose(cx, error.to_string()),
        }
    }

    /// If all was read: what nobody used for long is to go. Not while it is unknown what CiliumEndpoints
    /// have.
    fn conclude(&mut self) {
        let Some(sweep) = self.sweep.take() else { return };
        self.view.known = sweep.known();
        let alive: BTreeSet<u64> = self.endpoints.values().copied().collect();
        let left = self.marks.after(sweep, &alive);
        self.view.unused = self.marks.len();
        if self.standing != KindStanding::Unknown {
            self.leaving = left.into();
        }
    }

    fn confirm(&mut self, cx: &mut Cx<'_, Self>) {
        self.is_asking = true;
        let leadership = self.peers.leadership.clone();
        let confirm = |reply| LeadershipMsg::Confirm { prefixes: None, reply };
        let why = "the Lease, before the kvstore is written";
        cx.ask(&leadership, CONFIRM_PATIENCE, why, confirm, StoreCollectorAnswer::Confirmed);
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        if let Ok(true) = answer {
            self.confirmed = Some(cx.now());
            return;
        }
        // The next round looks at all anew.
        self.leaving.clear();
        if self.beat.is_none() {
            self.beat_is_due = false;
            self.beats.failed(PAUSES, cx, StoreCollectorAnswer::Beat);
        }
    }

    fn is_younger(&self, cx: &Cx<'_, Self>, at: Option<Time>, than: Duration) -> bool {
        at.is_some_and(|at| cx.now().since(at) < than)
    }

    fn remove(&mut self, cx: &mut Cx<'_, Self>, beat: &str) {
        let Some(unused) = self.leaving.pop_front() else { return };
        self.is_asking = true;
        self.allowance -= 1;
        let key = unused.key.clone();
        let why = format!("{key} to be removed, which nobody uses");
        let then = move |answer| StoreCollectorAnswer::Removed(key, answer);
        let reply = cx.expect("kvstore", PATIENCE, why, then);
        self.peers.store.commit(unused.removal(stands(beat)), reply);
    }

    fn removed(&mut self, cx: &mut Cx<'_, Self>, key: &str, answer: Result<bool, KvError>) {
        match answer {
            Ok(true) => {
                self.view.removed += 1;
                tracing::info!(key, "identity that nobody uses was removed from the kvstore");
            }
            // Somebody uses it by now, or the heartbeat is another one: the next heartbeat tells.
            Ok(false) => {}
            Err(error) => self.lose(cx, error.to_string()),
        }
    }

    /// A round begins. What waits of the one before is looked at anew.
    fn due(&mut self, cx: &mut Cx<'_, Self>) {
        cx.after(self.every, StoreCollectorAnswer::Due);
        self.leaving.clear();
        if self.heard.is_some() {
            // One that is under way is read to its end.
            self.sweep.get_or_insert_default();
        }
    }

    fn changed(&mut self, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        for (key, value) in objects {
            match value.and_then(|it| it.into_json()["status"]["identity"]["id"].as_u64()) {
                Some(number) => drop(self.endpoints.insert(key, number)),
                None => drop(self.endpoints.remove(&key)),
            }
        }
    }
}

/// That heartbeat stands in the store.
fn stands(beat: &str) -> Condition {
    Condition::ValueIs(HEARTBEAT.to_owned(), beat.as_bytes().to_vec())
}

impl Behaviour for StoreCollector {
    type Msg = WorkerMsg<StoreCollectorView>;
    type Answer = StoreCollectorAnswer;
    type Observed = StoreCollectorView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.peers.life.begin() {
            if !self.every.is_zero() {
                cx.after(self.every, StoreCollectorAnswer::Due);
            }
            self.advance(cx);
        }
    }

    fn handle(&mut self, msg: Self::Msg, _: &mut Cx<'_, Self>) {
        match msg {
            WorkerMsg::News(ObjectNews::Changed(FollowedKind::Endpoints, objects)) => {
                self.changed(objects);
            }
            WorkerMsg::News(ObjectNews::Standing(FollowedKind::Endpoints, standing)) => {
                self.standing = standing;
            }
            WorkerMsg::News(_) => {}
            WorkerMsg::Show(reply) => reply.send(self.view.clone()),
        }
    }

    fn answered(&mut self, answer: StoreCollectorAnswer, cx: &mut Cx<'_, Self>) {
        use StoreCollectorAnswer::{
            Beat, Beaten, Confirmed, Due, Granted, Heard, Listed, Removed, Retained,
        };
        if !matches!(answer, Beat | Due | Heard(..)) {
            self.is_asking = false;
        }
        match answer {
            Beat => {
                self.beats.over();
                if self.beat.is_some() {
                    // The store served since the last one.
                    self.beats.succeeded();
                }
                self.beat_is_due = true;
                self.allowance = REMOVED_MAX;
            }
            Due => self.due(cx),
            Confirmed(answer) => self.confirmed(cx, answer),
            Granted(answer) => match settled(answer, "grant", "a lease") {
                Ok(lease) => {
                    self.lease = Some(lease);
                    self.beat(cx, lease);
                }
                Err(error) => self.lose(cx, error.to_string()),
            },
            Retained(answer) => match settled(answer, "keep alive", "the lease of the heartbeat") {
                Ok(true) => {
                    if let Some(lease) = self.lease {
                        self.beat(cx, lease);
                    }
                }
                // The heartbeat went with it, which the next one finds.
                Ok(false) => self.lease = None,
                Err(error) => self.lose(cx, error.to_string()),
            },
            Beaten(beat, answer) => self.beaten(cx, beat, settled(answer, "write", HEARTBEAT)),
            Heard(number, event) => self.heard(cx, number, event),
            Listed(answer) => self.listed(cx, settled(answer, "list", "identities")),
            Removed(key, answer) => self.removed(cx, &key, settled(answer, "delete", &key)),
        }
        self.advance(cx);
    }

    fn observe(&self) -> StoreCollectorView {
        self.view.clone()
    }
}
