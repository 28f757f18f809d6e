//! A store in a file of this node: for a cluster of one node, which needs no server then.
//!
//! A thread of its own reads and writes the file; each write is on disk before it is answered or
//! told. What a watch may ask for of the past is kept in memory, since the agent's start.

mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    path::Path,
    rc::Rc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};
use volvox_actors::{
    host::Reply,
    ports::{
        Change, KvError, KvStore, LeaseId, ListPosition, Listing, Revision, StoreHeader,
        Transaction, WATCH_ALIVE_EVERY, Watch, WatchEvent, WatchSink,
    },
};

use super::{Workers, WorkersError};
use file::{Answer, Done, File, Job};

/// How many jobs are with the thread at once; more wait with the actors.
const BOUND: usize = 64;
/// Changes that are kept for watches which begin in the past.
const HISTORY_MAX: usize = 16_384;
/// How often leases are looked at.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// The way to the file.
pub struct Embedded {
    workers: Rc<Workers<Job, Done>>,
    watches: Rc<RefCell<Watches>>,
    expiry: JoinHandle<()>,
}

/// Who is told of changes, and those that may be asked for.
#[derive(Default)]
struct Watches {
    history: VecDeque<(Revision, Change)>,
    /// Changes up to this revision are not kept.
    forgotten: Revision,
    /// The last one that a job said.
    now: Revision,
    all: BTreeMap<u64, Watching>,
    next: u64,
}

struct Watching {
    prefix: String,
    events: mpsc::UnboundedSender<WatchEvent>,
}

impl Watches {
    /// Takes in what a job changed, and tells whom it concerns.
    fn take(&mut self, done: &mut Done) {
        let revision = done.revision;
        if done.answer.is_ok() {
            self.now = revision;
        }
        if done.reset {
            // Nobody can say what came between.
            self.history.clear();
            self.forgotten = revision;
            self.all.values().for_each(|watching| watching.tell(WatchEvent::Compacted));
        }
        let changes = std::mem::take(&mut done.changes);
        for watching in self.all.values().filter(|_| !changes.is_empty()) {
            watching.changed(revision, changes.iter());
        }
        self.history.extend(changes.into_iter().map(|change| (revision, change)));
        while self.history.len() > HISTORY_MAX {
            if let Some((oldest, _)) = self.history.pop_front() {
                self.forgotten = oldest;
            }
        }
    }

    fn watch(
        &mut self,
        prefix: &str,
        from: Revision,
    ) -> (u64, mpsc::UnboundedReceiver<WatchEvent>) {
        let (events, reported) = mpsc::unbounded_channel();
        let watching = Watching { prefix: prefix.to_owned(), events };
        if from == Revision::default() {
            watching.tell(self.alive());
        } else if from <= self.forgotten {
            watching.tell(WatchEvent::Compacted);
        } else {
            watching.tell(self.alive());
            let past = self.history.iter().filter(|(revision, _)| *revision >= from);
            if let Some(newest) = past.clone().map(|(revision, _)| *revision).max() {
                watching.changed(newest, past.map(|(_, change)| change));
            }
        }
        self.next += 1;
        self.all.insert(self.next, watching);
        (self.next, reported)
    }

    fn alive(&self) -> WatchEvent {
        WatchEvent::Alive(StoreHeader { revision: self.now, ..StoreHeader::default() })
    }
}

impl Watching {
    fn changed<'a>(&self, revision: Revision, changes: impl Iterator<Item = &'a Change>) {
        let concerns = |change: &&Change| change.key().starts_with(&self.prefix);
        let changes: Vec<_> = changes.filter(concerns).cloned().collect();
        if !changes.is_empty() {
            self.tell(WatchEvent::Changed { revision, changes });
        }
    }

    fn tell(&self, event: WatchEvent) {
        // Whoever does not listen any more is about to be taken out.
        let _ = self.events.send(event);
    }
}

impl Embedded {
    /// Starts the thread; the file is opened, or made, when something is asked. To be called on the
    /// actors' thread.
    pub fn start(path: &Path) -> Result<Self, WorkersError> {
        let mut file = Some(File::new(path));
        let workers = Workers::start("kvstore", 1, BOUND, |_| {
            let mut file = file.take().expect("one thread is started");
            move |job| file.work(job)
        })?;
        let (workers, watches) = (Rc::new(workers), Rc::<RefCell<Watches>>::default());
        let expiry = {
            let (workers, watches) = (Rc::downgrade(&workers), Rc::downgrade(&watches));
            spawn_local(async move {
                loop {
                    sleep(EXPIRE_EVERY).await;
                    let (Some(workers), Some(watches)) = (workers.upgrade(), watches.upgrade())
                    else {
                        return;
                    };
                    let taken = move |done: Result<Done, _>| {
                        done.into_iter().for_each(|mut done| watches.borrow_mut().take(&mut done));
                    };
                    workers.submit(Job::Expire, Reply::to(taken));
                }
            })
        };
        Ok(Self { workers, watches, expiry })
    }

    /// Waits until all is written that was to be. What is asked later is not begun.
    pub async fn finish(&self) {
        self.workers.finish().await;
    }

    fn ask<T: 'static>(
        &self,
        job: Job,
        reply: Reply<Result<T, KvError>>,
        pick: fn(Answer) -> Option<T>,
    ) {
        let watches = Rc::clone(&self.watches);
        let answered = move |done: Result<Done, _>| {
            // Dropped without an answer, a reply says itself that there will be none.
            let Ok(mut done) = done else { return };
            watches.borrow_mut().take(&mut done);
            match done.answer.map(pick) {
                Ok(Some(answer)) => reply.send(Ok(answer)),
                Ok(None) => {}
                Err(error) => reply.send(Err(error)),
            }
        };
        self.workers.submit(job, Reply::to(answered));
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.expiry.abort();
    }
}

impl KvStore for Embedded {
    /// All at once: it is in memory.
    fn list(&self, prefix: &str, _: Option<ListPosition>, reply: Reply<Result<Listing, KvError>>) {
        let listing = |answer| match answer {
            Answer::Listing(listing) => Some(listing),
            _ => None,
        };
        self.ask(Job::List(prefix.to_owned()), reply, listing);
    }

    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>) {
        self.ask(Job::Commit(transaction), reply, held);
    }

    fn watch(&self, prefix: &str, from: Revision, mut tell: WatchSink) -> Watch {
        let (number, mut events) = self.watches.borrow_mut().watch(prefix, from);
        let watches = Rc::downgrade(&self.watches);
        let telling = spawn_local(async move {
            loop {
                let event = match timeout(WATCH_ALIVE_EVERY, events.recv()).await {
                    Ok(Some(event)) => event,
                    Ok(None) => return,
                    Err(_) => match watches.upgrade() {
                        Some(watches) => watches.borrow().alive(),
                        None => return,
                    },
                };
                let over = matches!(event, WatchEvent::Compacted);
                if !tell(event) || over {
                    return;
                }
            }
        });
        let watches = Rc::downgrade(&self.watches);
        Watch::new(move || {
            telling.abort();
            if let Some(watches) = watches.upgrade() {
                watches.borrow_mut().all.remove(&number);
            }
        })
    }

    fn grant(&self, ttl: Duration, reply: Reply<Result<LeaseId, KvError>>) {
        let lease = |answer| match answer {
            Answer::Lease(lease) => Some(lease),
            _ => None,
        };
        self.ask(Job::Grant(ttl), reply, lease);
    }

    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>) {
        self.ask(Job::KeepAlive(lease), reply, held);
    }
}

fn held(answer: Answer) -> Option<bool> {
    match answer {
        Answer::Held(held) => Some(held),
        _ => None,
    }
}
