//! A key-value store in memory, with a link to it that can fail. Tests can replace, restore and
//! compact it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use crate::{
    host::{Reply, Time},
    ports::{
        Change, Keyspace, KvError, KvStore, LeaseId, ListPosition, Listing, Pair, Put, Revision,
        StoreHeader, Transaction, WATCH_ALIVE_EVERY, Watch, WatchEvent, WatchSink,
    },
};

/// Pairs of a page: few, so that lists have several.
const PAGE: usize = 3;

/// A store in memory that several agents may share. It goes on only when it is stepped.
#[derive(Clone, Default)]
pub struct MemoryKvStore(Rc<RefCell<MemoryKvStoreState>>);

/// How the store can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvLink {
    /// It answers.
    #[default]
    Up,
    /// Connections are refused, watches end.
    Down,
    /// Nothing is answered, and watches say nothing.
    Silent,
}

#[derive(Default)]
struct MemoryKvStoreState {
    keyspace: Keyspace,
    /// Another number after it was replaced.
    cluster: u64,
    /// How often a leader was chosen; one that was restored begins anew.
    term: u64,
    /// What it goes back to.
    backup: Option<Keyspace>,
    /// Changes up to this revision are not kept.
    compacted: i64,
    history: Vec<(i64, Change)>,
    /// What is left of lists that were begun, by their next key.
    begun: BTreeMap<(i64, Vec<u8>), Vec<Pair>>,
    jobs: VecDeque<KvJob>,
    watches: Vec<Watching>,
    watched: u64,
    link: KvLink,
    now: Time,
}

struct Watching {
    number: u64,
    prefix: String,
    next: i64,
    tell: WatchSink,
    reported: Option<Time>,
    /// Its server is gone.
    cut: bool,
    over: bool,
}

enum KvJob {
    List(String, Option<ListPosition>, Reply<Result<Listing, KvError>>),
    Commit(Transaction, Reply<Result<bool, KvError>>),
    Grant(Duration, Reply<Result<LeaseId, KvError>>),
    KeepAlive(LeaseId, Reply<Result<bool, KvError>>),
}

impl MemoryKvStore {
    /// From now on it can be reached so.
    pub fn set_link(&self, link: KvLink) {
        self.0.borrow_mut().link = link;
    }

    /// Another node writes a key.
    pub fn put(&self, key: &str, value: &str) {
        let put = Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None };
        self.0.borrow_mut().write(vec![put], Vec::new());
    }

    /// Another node deletes a key.
    pub fn delete(&self, key: &str) {
        self.0.borrow_mut().write(Vec::new(), vec![key.to_owned()]);
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
        let inner = self.0.borrow();
        inner.keyspace.get(key).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Keys that begin so.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let inner = self.0.borrow();
        inner.keyspace.below(prefix).map(|(key, _)| key.to_owned()).collect()
    }

    /// Forgets what changed so far; watches that are behind are over.
    pub fn compact(&self) {
        let mut inner = self.0.borrow_mut();
        inner.compacted = inner.keyspace.revision().0;
        inner.history.clear();
        inner.begun.clear();
    }

    /// Every lease runs out.
    pub fn expire(&self) {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        inner.keyspace.end_leases(now);
    }

    /// The node's clock begins anew, the store's goes on.
    pub fn restart_clock(&self) {
        let mut inner = self.0.borrow_mut();
        let now = std::mem::take(&mut inner.now);
        inner.keyspace.restart_clock(now);
    }

    /// Connections of before are dead: nothing comes through them any more.
    pub fn hang_up(&self) {
        let mut inner = self.0.borrow_mut();
        let jobs = std::mem::take(&mut inner.jobs);
        inner.watches.iter_mut().for_each(|watching| watching.over = true);
        drop(inner);
        drop(jobs);
    }

    /// Connections break, and whoever has one hears that.
    pub fn break_connections(&self) {
        let mut inner = self.0.borrow_mut();
        let jobs = std::mem::take(&mut inner.jobs);
        inner.watches.iter_mut().for_each(|watching| watching.cut = true);
        drop(inner);
        drop(jobs);
        let ended = |(_, event): (usize, WatchEvent)| matches!(event, WatchEvent::Ended(_));
        let next = || self.0.borrow().eager().position(ended);
        while let Some(nth) = next() {
            self.tell(nth);
        }
    }

    /// What was asked is done, and no answer arrives.
    pub fn lose_answers(&self) {
        let jobs = std::mem::take(&mut self.0.borrow_mut().jobs);
        for job in jobs {
            let answer = self.0.borrow_mut().answer(job);
            drop(answer);
        }
    }

    /// What there is now is what it can go back to.
    pub fn back_up(&self) {
        let mut inner = self.0.borrow_mut();
        inner.backup = Some(inner.keyspace.clone());
        inner.term += 1;
    }

    /// It is again as it was when it was backed up, revision included; connections break.
    pub fn restore(&self) {
        let mut inner = self.0.borrow_mut();
        if let Some(backup) = inner.backup.clone() {
            inner.term = 0;
            inner.begin_anew(backup);
        }
    }

    /// It is as one that was restored from a snapshot of now, which begins to count its revisions
    /// again, and whose leases are over.
    pub fn rewind(&self) {
        let mut inner = self.0.borrow_mut();
        inner.term = 0;
        let restored = inner.keyspace.restored();
        inner.begin_anew(restored);
    }

    /// Another one, which is empty, answers from now on.
    pub fn replace(&self) {
        let mut inner = self.0.borrow_mut();
        inner.cluster += 1;
        inner.begin_anew(Keyspace::default());
    }

    /// Nobody waits for answers or for changes any more.
    pub fn forget(&self) {
        let mut inner = self.0.borrow_mut();
        let left = (std::mem::take(&mut inner.jobs), std::mem::take(&mut inner.watches));
        drop(inner);
        drop(left);
    }

    /// How many things there are to do, by now.
    pub fn jobs(&self, now: Time) -> usize {
        let mut inner = self.0.borrow_mut();
        inner.now = now;
        inner.expire_leases();
        match inner.link {
            KvLink::Silent => 0,
            _ => inner.jobs.len() + inner.eager().count(),
        }
    }

    /// Does one of the [things](Self::jobs) that there are to do; whether there was any.
    pub fn step(&self, now: Time, nth: usize) -> bool {
        if nth >= self.jobs(now) {
            return false;
        }
        let mut inner = self.0.borrow_mut();
        let asked = inner.jobs.len();
        match inner.jobs.remove(nth) {
            Some(job) => {
                let answer = inner.answer(job);
                drop(inner);
                answer();
            }
            None => {
                drop(inner);
                self.tell(nth - asked);
            }
        }
        true
    }

    /// Tells one of the watches that have something to hear.
    fn tell(&self, nth: usize) {
        let mut inner = self.0.borrow_mut();
        let Some((place, event)) = inner.eager().nth(nth) else { return };
        let mut watching = inner.watches.remove(place);
        watching.reported = Some(inner.now);
        match &event {
            WatchEvent::Changed { revision, .. } => watching.next = revision.0 + 1,
            WatchEvent::Alive(_) => {}
            WatchEvent::Compacted | WatchEvent::Ended(_) => watching.over = true,
        }
        drop(inner);
        watching.over |= !(watching.tell)(event);
        self.0.borrow_mut().watches.insert(place, watching);
    }
}

impl MemoryKvStoreState {
    fn begin_anew(&mut self, keyspace: Keyspace) {
        self.keyspace = keyspace;
        self.history.clear();
        self.begun.clear();
        self.compacted = 0;
        self.watches.iter_mut().for_each(|watching| watching.cut = true);
    }

    fn header(&self) -> StoreHeader {
        StoreHeader { cluster: self.cluster, term: self.term, revision: self.keyspace.revision() }
    }

    fn write(&mut self, puts: Vec<Put>, deletes: Vec<String>) {
        let changes = self.keyspace.write(puts, deletes);
        let revision = self.keyspace.revision().0;
        self.history.extend(changes.into_iter().map(|change| (revision, change)));
    }

    fn expire_leases(&mut self) {
        let (over, bound) = self.keyspace.over(self.now);
        over.into_iter().for_each(|id| self.keyspace.revoke(id));
        self.write(Vec::new(), bound);
    }

    /// A page of a list; the rest is kept until it is asked for, or compacted.
    fn list(&mut self, prefix: &str, from: Option<ListPosition>) -> Result<Listing, KvError> {
        let (revision, mut pairs) = match from {
            None => {
                let Listing { revision, pairs, .. } = self.keyspace.list(prefix);
                (revision, pairs)
            }
            Some(ListPosition { revision, key, .. }) => {
                let rest = self.begun.remove(&(revision.0, key));
                (revision, rest.ok_or_else(|| error("list", prefix, "it has been compacted"))?)
            }
        };
        let rest = pairs.split_off(pairs.len().min(PAGE));
        let next = rest.first().map(|first| ListPosition {
            revision,
            key: first.key.clone().into_bytes(),
            limit: 0,
        });
        if let Some(place) = &next {
            self.begun.insert((revision.0, place.key.clone()), rest);
        }
        Ok(Listing { revision, header: self.header(), pairs, next })
    }

    fn commit(&mut self, transaction: Transaction) -> Result<bool, KvError> {
        let allowed = self.keyspace.allows(&transaction);
        if allowed.map_err(|lost| error("write", &lost.key, &lost.to_string()))? {
            self.write(transaction.puts, transaction.deletes);
            return Ok(true);
        }
        Ok(false)
    }

    /// Does a job; the answer is to be given when nothing is borrowed.
    fn answer(&mut self, job: KvJob) -> Box<dyn FnOnce()> {
        fn refuse<T: 'static>(
            reply: Reply<Result<T, KvError>>,
            op: &'static str,
        ) -> Box<dyn FnOnce()> {
            Box::new(move || reply.send(Err(error(op, "the store", "connection refused"))))
        }
        let down = self.link == KvLink::Down;
        match job {
            KvJob::List(_, _, reply) if down => refuse(reply, "list"),
            KvJob::Commit(_, reply) if down => refuse(reply, "commit"),
            KvJob::Grant(_, reply) if down => refuse(reply, "grant"),
            KvJob::KeepAlive(_, reply) if down => refuse(reply, "keep alive"),
            KvJob::List(prefix, from, reply) => {
                let listing = self.list(&prefix, from);
                Box::new(move || reply.send(listing))
            }
            KvJob::Commit(transaction, reply) => {
                let done = self.commit(transaction);
                Box::new(move || reply.send(done))
            }
            KvJob::Grant(ttl, reply) => {
                let id = self.keyspace.grant(ttl, self.now);
                Box::new(move || reply.send(Ok(id)))
            }
            KvJob::KeepAlive(id, reply) => {
                let alive = self.keyspace.keep_alive(id, self.now);
                Box::new(move || reply.send(Ok(alive)))
            }
        }
    }

    /// Watches that have something to hear, by their place.
    fn eager(&self) -> impl Iterator<Item = (usize, WatchEvent)> {
        (0..self.watches.len()).filter_map(|place| Some((place, self.event(place)?)))
    }

    /// What that watch is to be told.
    fn event(&self, place: usize) -> Option<WatchEvent> {
        let watching = &self.watches[place];
        if watching.over {
            return None;
        }
        if self.link == KvLink::Down {
            return Some(WatchEvent::Ended(error("watch", &watching.prefix, "connection refused")));
        }
        if watching.cut {
            return Some(WatchEvent::Ended(error("watch", &watching.prefix, "connection closed")));
        }
        if watching.next <= self.compacted {
            return Some(WatchEvent::Compacted);
        }
        if watching.reported.is_none() {
            return Some(WatchEvent::Alive(self.header()));
        }
        let from = self.history.partition_point(|(revision, _)| *revision < watching.next);
        let concerns = |(_, change): &&(i64, Change)| change.key().starts_with(&watching.prefix);
        let new: Vec<_> = self.history[from..].iter().filter(concerns).collect();
        if let Some((revision, _)) = new.last() {
            let changes = new.iter().map(|(_, change)| change.clone()).collect();
            return Some(WatchEvent::Changed { revision: Revision(*revision), changes });
        }
        let due =
            watching.reported.is_some_and(|reported| self.now.since(reported) >= WATCH_ALIVE_EVERY);
        due.then_some(WatchEvent::Alive(self.header()))
    }
}

fn error(op: &'static str, about: &str, cause: &str) -> KvError {
    let remedy = "mend the test's store";
    KvError { op, about: about.to_owned(), cause: cause.to_owned(), remedy }
}

impl KvStore for MemoryKvStore {
    fn list(
        &self,
        prefix: &str,
        from: Option<ListPosition>,
        reply: Reply<Result<Listing, KvError>>,
    ) {
        self.0.borrow_mut().jobs.push_back(KvJob::List(prefix.to_owned(), from, reply));
    }

    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>) {
        self.0.borrow_mut().jobs.push_back(KvJob::Commit(transaction, reply));
    }

    fn watch(&self, prefix: &str, from: Revision, tell: WatchSink) -> Watch {
        let mut inner = self.0.borrow_mut();
        inner.watched += 1;
        let (number, now) = (inner.watched, inner.keyspace.revision().0);
        inner.watches.push(Watching {
            number,
            prefix: prefix.to_owned(),
            next: if from == Revision::default() { now + 1 } else { from.0 },
            tell,
            reported: None,
            cut: false,
            over: false,
        });
        let store = Rc::downgrade(&self.0);
        Watch::new(move || {
            if let Some(store) = store.upgrade() {
                let mut inner = store.borrow_mut();
                let ended = inner.watches.extract_if(.., |watching| watching.number == number);
                let ended: Vec<_> = ended.collect();
                drop(inner);
                drop(ended);
            }
        })
    }

    fn grant(&self, ttl: Duration, reply: Reply<Result<LeaseId, KvError>>) {
        self.0.borrow_mut().jobs.push_back(KvJob::Grant(ttl, reply));
    }

    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>) {
        self.0.borrow_mut().jobs.push_back(KvJob::KeepAlive(lease, reply));
    }
}
