use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use crate::{
    host::Reply,
    ports::{
        Change, Condition, KvError, KvStore, LeaseId, Listing, Pair, Put, Revision, Time,
        Transaction, WATCH_ALIVE_EVERY, Watch, WatchEvent, WatchSink,
    },
};

/// A store in memory that several agents may share. It goes on only when it is stepped.
#[derive(Clone, Default)]
pub struct MemoryKvStore(Rc<RefCell<Inner>>);

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
struct Inner {
    keys: BTreeMap<String, (Vec<u8>, Option<LeaseId>)>,
    revision: i64,
    /// Changes up to this revision are not kept.
    compacted: i64,
    history: Vec<(i64, Change)>,
    leases: BTreeMap<LeaseId, Lease>,
    granted: i64,
    jobs: VecDeque<Job>,
    watches: Vec<Watching>,
    watched: u64,
    link: KvLink,
    now: Time,
}

struct Lease {
    ttl: Duration,
    ends: Time,
}

struct Watching {
    number: u64,
    prefix: String,
    next: i64,
    tell: WatchSink,
    told: Option<Time>,
    over: bool,
}

enum Job {
    List(String, Reply<Result<Listing, KvError>>),
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
        inner.keys.get(key).map(|(value, _)| String::from_utf8_lossy(value).into_owned())
    }

    /// Keys that begin so.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let inner = self.0.borrow();
        inner.below(prefix).map(|(key, _)| key.clone()).collect()
    }

    /// Forgets what changed so far; watches that are behind are over.
    pub fn compact(&self) {
        let mut inner = self.0.borrow_mut();
        inner.compacted = inner.revision;
        inner.history.clear();
    }

    /// Every lease runs out.
    pub fn expire(&self) {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        inner.leases.values_mut().for_each(|lease| lease.ends = now);
    }

    /// The node's clock begins anew, the store's goes on.
    pub fn restart_clock(&self) {
        let mut inner = self.0.borrow_mut();
        let now = std::mem::take(&mut inner.now);
        for lease in inner.leases.values_mut() {
            lease.ends = Time::default() + lease.ends.since(now);
        }
    }

    /// Connections of before are dead: nothing comes through them any more.
    pub fn hang_up(&self) {
        let mut inner = self.0.borrow_mut();
        let jobs = std::mem::take(&mut inner.jobs);
        inner.watches.iter_mut().for_each(|watching| watching.over = true);
        drop(inner);
        drop(jobs);
    }

    /// What was asked is done, and no answer arrives.
    pub fn lose_answers(&self) {
        let jobs = std::mem::take(&mut self.0.borrow_mut().jobs);
        for job in jobs {
            let answer = self.0.borrow_mut().answer(job);
            drop(answer);
        }
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
        watching.told = Some(inner.now);
        match &event {
            WatchEvent::Changed { revision, .. } => watching.next = revision.0 + 1,
            WatchEvent::Alive => {}
            WatchEvent::Compacted | WatchEvent::Ended(_) => watching.over = true,
        }
        drop(inner);
        watching.over |= !(watching.tell)(event);
        self.0.borrow_mut().watches.insert(place, watching);
    }
}

impl Inner {
    fn below<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a (Vec<u8>, Option<LeaseId>))> {
        let from = self.keys.range(prefix.to_owned()..);
        from.take_while(move |(key, _)| key.starts_with(prefix))
    }

    fn write(&mut self, puts: Vec<Put>, deletes: Vec<String>) {
        let revision = self.revision + 1;
        let before = self.history.len();
        for Put { key, value, lease } in puts {
            self.keys.insert(key.clone(), (value.clone(), lease));
            self.history.push((revision, Change::Put(Pair { key, value })));
        }
        for key in deletes {
            if self.keys.remove(&key).is_some() {
                self.history.push((revision, Change::Delete(key)));
            }
        }
        if self.history.len() > before {
            self.revision = revision;
        }
    }

    fn expire_leases(&mut self) {
        let over = self.leases.iter().filter(|(_, lease)| lease.ends <= self.now);
        let over: Vec<LeaseId> = over.map(|(&id, _)| id).collect();
        over.iter().for_each(|id| {
            self.leases.remove(id);
        });
        let bound = self
            .keys
            .iter()
            .filter(|(_, (_, lease))| lease.is_some_and(|lease| over.contains(&lease)));
        let bound = bound.map(|(key, _)| key.clone()).collect();
        self.write(Vec::new(), bound);
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(key) => !self.keys.contains_key(key),
            Condition::NoneBelow(prefix) => self.below(prefix).next().is_none(),
            Condition::ValueIs(key, value) => {
                self.keys.get(key).is_some_and(|(found, _)| found == value)
            }
        }
    }

    fn commit(&mut self, transaction: Transaction) -> Result<bool, KvError> {
        if !transaction.when.iter().all(|condition| self.holds(condition)) {
            return Ok(false);
        }
        let lost = transaction
            .puts
            .iter()
            .find(|put| put.lease.is_some_and(|lease| !self.leases.contains_key(&lease)));
        if let Some(put) = lost {
            return Err(error("write", &put.key, "requested lease not found"));
        }
        self.write(transaction.puts, transaction.deletes);
        Ok(true)
    }

    /// Does a job; the answer is to be given when nothing is borrowed.
    fn answer(&mut self, job: Job) -> Box<dyn FnOnce()> {
        fn refuse<T: 'static>(
            reply: Reply<Result<T, KvError>>,
            op: &'static str,
        ) -> Box<dyn FnOnce()> {
            Box::new(move || reply.send(Err(error(op, "the store", "connection refused"))))
        }
        let down = self.link == KvLink::Down;
        match job {
            Job::List(_, reply) if down => refuse(reply, "list"),
            Job::Commit(_, reply) if down => refuse(reply, "commit"),
            Job::Grant(_, reply) if down => refuse(reply, "grant"),
            Job::KeepAlive(_, reply) if down => refuse(reply, "keep alive"),
            Job::List(prefix, reply) => {
                let pair = |(key, (value, _)): (&String, &(Vec<u8>, _))| Pair {
                    key: key.clone(),
                    value: value.clone(),
                };
                let pairs = self.below(&prefix).map(pair).collect();
                let listing = Listing { revision: Revision(self.revision), pairs };
                Box::new(move || reply.send(Ok(listing)))
            }
            Job::Commit(transaction, reply) => {
                let done = self.commit(transaction);
                Box::new(move || reply.send(done))
            }
            Job::Grant(ttl, reply) => {
                self.granted += 1;
                let id = LeaseId(self.granted);
                self.leases.insert(id, Lease { ttl, ends: self.now + ttl });
                Box::new(move || reply.send(Ok(id)))
            }
            Job::KeepAlive(id, reply) => {
                let now = self.now;
                let lease = self.leases.get_mut(&id);
                let alive = lease.map(|lease| lease.ends = now + lease.ttl).is_some();
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
        if watching.next <= self.compacted {
            return Some(WatchEvent::Compacted);
        }
        let from = self.history.partition_point(|(revision, _)| *revision < watching.next);
        let concerns = |(_, change): &&(i64, Change)| change.key().starts_with(&watching.prefix);
        let new: Vec<_> = self.history[from..].iter().filter(concerns).collect();
        if let Some((revision, _)) = new.last() {
            let changes = new.iter().map(|(_, change)| change.clone()).collect();
            return Some(WatchEvent::Changed { revision: Revision(*revision), changes });
        }
        let due = watching.told.is_none_or(|told| self.now.since(told) >= WATCH_ALIVE_EVERY);
        due.then_some(WatchEvent::Alive)
    }
}

fn error(op: &'static str, about: &str, cause: &str) -> KvError {
    let remedy = "mend the test's store";
    KvError { op, about: about.to_owned(), cause: cause.to_owned(), remedy }
}

impl KvStore for MemoryKvStore {
    fn list(&self, prefix: &str, reply: Reply<Result<Listing, KvError>>) {
        self.0.borrow_mut().jobs.push_back(Job::List(prefix.to_owned(), reply));
    }

    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>) {
        self.0.borrow_mut().jobs.push_back(Job::Commit(transaction, reply));
    }

    fn watch(&self, prefix: &str, from: Revision, tell: WatchSink) -> Watch {
        let mut inner = self.0.borrow_mut();
        inner.watched += 1;
        let number = inner.watched;
        inner.watches.push(Watching {
            number,
            prefix: prefix.to_owned(),
            next: from.0,
            tell,
            told: None,
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
        self.0.borrow_mut().jobs.push_back(Job::Grant(ttl, reply));
    }

    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>) {
        self.0.borrow_mut().jobs.push_back(Job::KeepAlive(lease, reply));
    }
}
