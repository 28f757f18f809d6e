//! One prefix of the store: listed, compared with what is known, and watched from there on.
//!
//! Whatever happens to a watch, its listener hears of each difference once: a watch that ends or
//! falls silent goes on behind the last revision that was told; where the store no longer has what
//! came since, or is another one than before, the prefix is listed again and compared. Lists are told
//! page by page: what is gone, and that this is all, with the last one.

mod answers;
mod followed;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    time::Duration,
};

use serde::Serialize;

use answers::WatcherAnswer;

pub use followed::Followed;

use super::{
    heard::{difference, furthest},
    outage::Outage,
    session::Unreachable,
    watch,
};
use crate::{
    cluster::sources::Hearing,
    host::{AskError, Behaviour, Cx, Lent, Message, Ref, Reply, TimerId},
    mutants::{Mutant, mutated},
    ports::{
        Change, KvError, KvStore, ListPosition, Listing, Pair, Revision, StoreHeader,
        WATCH_ALIVE_EVERY, Watch, WatchEvent,
    },
};

/// Capacity of a watcher's mailbox, messages: what the store tells while it is busy waits there.
const CAPACITY: usize = 65_536;
/// How long a list may take.
const LIST_PATIENCE: Duration = Duration::from_secs(60);
/// A watch that says nothing for that long is dead, whatever its connection looks like.
pub(super) const SILENCE_MAX: Duration = Duration::from_millis(2500 * WATCH_ALIVE_EVERY.as_secs());

/// What changed below the prefix.
#[derive(Debug)]
pub struct Update {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Whether all that the store has is known now.
    pub listed: bool,
}

/// What a watcher can be told.
pub enum WatcherMsg {
    /// Answered once the prefix was listed.
    Await(Reply<()>),
    /// Show how it stands.
    Show(Reply<WatcherView>),
    /// Nobody wants to know any more.
    Stop,
}

impl Message for WatcherMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Await(_) => "Await",
            Self::Show(_) => "Show",
            Self::Stop => "Stop",
        }
    }
}

/// Follows one prefix for one listener.
pub struct Watcher<M: Message> {
    store: Rc<dyn KvStore>,
    prefix: Rc<str>,
    canary: Option<Rc<str>>,
    listener: Ref<M>,
    message: Rc<dyn Fn(Update) -> M>,
    /// Outlives a crash, as what the listener heard does: each key with what tells its value from
    /// another one.
    known: Lent<BTreeMap<String, u64>>,
    /// Up to where everything was told; none before the first list and where it must be listed
    /// again.
    revision: Option<Revision>,
    listing: Option<List>,
    begun: u64,
    lists: u64,
    watch: Option<Watch>,
    number: u64,
    alarm: Option<TimerId>,
    /// The furthest that the store said.
    heard: Option<StoreHeader>,
    doubt: Doubt,
    hearing: Hearing,
    outage: Outage,
    awaiting: Vec<Reply<()>>,
}

/// Whether what a watch says fits what the store said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// It does not: a list, for which a majority stands, will tell.
    Listing,
    /// The list did fit: the server of this watch lags behind the others.
    Lagging,
}

/// A list under way.
struct List {
    /// Keys that it has not named yet, of those that are known.
    unnamed: BTreeSet<String>,
    /// Nothing was known when it began.
    first: bool,
    /// The store said then that all is written.
    since: Revision,
    /// Some of it came.
    begun: bool,
}

/// What a watcher shows of itself.
#[derive(Clone, Debug, Serialize)]
pub struct WatcherView {
    /// What it follows.
    pub prefix: String,
    /// Keys that are there.
    pub keys: usize,
    /// Up to where everything was told.
    pub revision: Option<Revision>,
    /// How often all of it was listed.
    pub lists: u64,
    /// Whether it is told of changes.
    pub watching: bool,
    /// Since when the store does not answer.
    pub unreachable: Option<Unreachable>,
    /// How it was heard.
    pub hearing: Hearing,
}

impl<M: Message> Watcher<M> {
    /// Takes up the work where it stands.
    fn follow(&mut self, cx: &mut Cx<'_, Self>) {
        self.end_watch(cx);
        match self.revision {
            Some(revision) => self.watch(cx, Revision(revision.0 + 1)),
            None if self.listing.is_some() => {}
            None => {
                let unnamed: BTreeSet<_> = self.known.keys().cloned().collect();
                let first = unnamed.is_empty();
                let since = Revision::default();
                self.listing = Some(List { first, unnamed, since, begun: false });
                self.begun += 1;
                match self.canary.clone() {
                    None => self.list(cx, None),
                    Some(canary) => self.look_for(cx, &canary),
                }
            }
        }
    }

    fn look_for(&self, cx: &mut Cx<'_, Self>, canary: &str) {
        let (why, number) = (format!("whether {} is whole", self.prefix), self.begun);
        let then = move |answer| WatcherAnswer::Canary(number, answer);
        let reply = cx.expect("kvstore", LIST_PATIENCE, why, then);
        self.store.list(canary, None, reply);
    }

    fn looked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Listing, KvError>, AskError>,
    ) {
        let Some(canary) = self.canary.clone() else { return };
        let error = match answer {
            Ok(Ok(Listing { revision, header, pairs, .. })) => {
                self.is_other(cx, header);
                if pairs.iter().any(|pair| *pair.key == *canary) {
                    if let Some(list) = &mut self.listing {
                        list.since = revision;
                    }
                    return self.list(cx, None);
                }
                format!("{} is still being written: there is no {canary}", self.prefix)
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => format!("list {canary}: {error}"),
        };
        self.listing = None;
        self.pause(cx, error);
    }

    fn list(&mut self, cx: &mut Cx<'_, Self>, from: Option<ListPosition>) {
        let (why, number) = (format!("a list of {}", self.prefix), self.begun);
        let then = move |answer| WatcherAnswer::Listed(number, answer);
        let reply = cx.expect("kvstore", LIST_PATIENCE, why, then);
        self.store.list(&self.prefix, from, reply);
    }

    fn listed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Listing, KvError>, AskError>,
    ) {
        let Some(List { mut unnamed, first, since, begun }) = self.listing.take() else { return };
        let Listing { revision, header, pairs, next } = match answer {
            Ok(Ok(listing)) => listing,
            Ok(Err(error)) => return self.pause(cx, error.to_string()),
            Err(error) => return self.pause(cx, format!("list {}: {error}", self.prefix)),
        };
        if revision < since {
            // It is another one than the one that is whole.
            return self.pause(cx, format!("the store of {} was replaced", self.prefix));
        }
        if self.is_other(cx, header) && begun {
            // The parts before are another store's.
            return self.pause(cx, format!("the store of {} was replaced", self.prefix));
        }
        self.heard(cx);
        for pair in &pairs {
            unnamed.remove(&pair.key);
        }
        let mut differences = self.news(pairs, first);
        if next.is_some() {
            // The store reads the next part while this one is looked at.
            self.list(cx, next);
            self.listing = Some(List { unnamed, first, since, begun: true });
            if !self.tell(cx, differences, false) {
                self.listing = None;
            }
            return;
        }
        self.lists += 1;
        differences.extend(unnamed.into_iter().map(Change::Delete).map(marked));
        if self.tell(cx, differences, true) {
            self.revision = Some(revision);
            self.doubt = match self.doubt {
                Doubt::None => Doubt::None,
                Doubt::Listing | Doubt::Lagging => Doubt::Lagging,
            };
            self.awaiting.drain(..).for_each(|reply| reply.send(()));
            self.follow(cx);
        }
    }

    /// What of these is not known; of a `first` list nothing is.
    fn news(&self, pairs: Vec<Pair>, first: bool) -> Vec<Marked> {
        let known = &*self.known;
        let is_new = |(change, mark): &Marked| first || known.get(change.key()) != mark.as_ref();
        pairs.into_iter().map(Change::Put).map(marked).filter(is_new).collect()
    }

    /// Tells the listener; what it does not take is listed again later.
    fn tell(&mut self, cx: &mut Cx<'_, Self>, differences: Vec<Marked>, listed: bool) -> bool {
        let (changes, marks): (Vec<_>, Vec<_>) = differences
            .into_iter()
            .map(|(change, mark)| {
                let key = change.key().to_owned();
                (change, (key, mark))
            })
            .unzip();
        if let Err(refused) = self.listener.tell((self.message)(Update { changes, listed })) {
            self.revision = None;
            self.end_watch(cx);
            self.pause(cx, format!("whoever wants to know of {}: {refused}", self.prefix));
            return false;
        }
        let known = &mut *self.known;
        for (key, mark) in marks {
            match mark {
                Some(mark) => known.insert(key, mark),
                None => known.remove(&key),
            };
        }
        true
    }

    fn watch(&mut self, cx: &mut Cx<'_, Self>, from: Revision) {
        self.number += 1;
        let (number, what) = (self.number, format!("kvstore: {}", self.prefix));
        let answer = move |event| WatcherAnswer::Seen(number, event);
        self.watch = Some(watch(cx, &self.store, what, (&self.prefix, from), answer));
        self.arm(cx);
    }

    fn arm(&mut self, cx: &mut Cx<'_, Self>) {
        self.disarm(cx);
        self.alarm = Some(cx.after(SILENCE_MAX, WatcherAnswer::Silent(self.number)));
    }

    fn disarm(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(alarm) = self.alarm.take() {
            cx.cancel(alarm);
        }
    }

    fn end_watch(&mut self, cx: &mut Cx<'_, Self>) {
        self.watch = None;
        self.disarm(cx);
    }

    fn heard(&mut self, cx: &Cx<'_, Self>) {
        self.outage.end();
        self.hearing.hear(cx.now());
    }

    /// Whether a majority of the store says that it is another one than before. It is named then.
    fn is_other(&mut self, cx: &Cx<'_, Self>, said: StoreHeader) -> bool {
        let why = self.heard.and_then(|heard| difference(heard, said));
        let Some(why) = why else {
            self.heard = Some(furthest(self.heard, said));
            return false;
        };
        tracing::warn!(prefix = %self.prefix, why, "kvstore is another one than before; listing all");
        self.heard = Some(said);
        self.doubt = Doubt::None;
        self.hearing.replace(cx.wall(), why);
        true
    }

    /// Whether what a watch says makes the store look like another one.
    fn doubts(&mut self, said: StoreHeader) -> bool {
        let Some(heard) = self.heard else { return false };
        let differs = difference(heard, said).is_some();
        match (differs, self.doubt) {
            (false, _) => {
                self.doubt = Doubt::None;
                self.heard = Some(furthest(self.heard, said));
            }
            (true, Doubt::Lagging) if said.cluster == heard.cluster => return false,
            (true, _) => self.doubt = Doubt::Listing,
        }
        differs
    }

    fn seen(&mut self, cx: &mut Cx<'_, Self>, event: WatchEvent) {
        match event {
            WatchEvent::Changed { revision, changes } => {
                self.heard(cx);
                let differences = changes.into_iter().map(marked).collect();
                if self.tell(cx, differences, false) {
                    self.revision = Some(revision);
                    if let Some(heard) = &mut self.heard {
                        heard.revision = heard.revision.max(revision);
                    }
                    self.arm(cx);
                }
            }
            WatchEvent::Alive(header) => {
                self.heard(cx);
                if self.doubts(header) {
                    self.revision = None;
                    return self.follow(cx);
                }
                self.arm(cx);
            }
            WatchEvent::Compacted => {
                tracing::info!(prefix = %self.prefix, "kvstore was compacted; listing again");
                self.revision = None;
                self.follow(cx);
            }
            WatchEvent::Ended(error) => {
                self.end_watch(cx);
                self.pause(cx, error.to_string());
            }
        }
    }

    fn pause(&mut self, cx: &mut Cx<'_, Self>, error: String) {
        self.hearing.lose();
        self.outage.pause(cx, error, || WatcherAnswer::Retry);
    }
}

/// A change, with what tells its value from another one if it has one.
type Marked = (Change, Option<u64>);

fn marked(change: Change) -> Marked {
    let mark = match &change {
        Change::Put(pair) => {
            let mut hasher = DefaultHasher::new();
            pair.value.hash(&mut hasher);
            Some(hasher.finish())
        }
        Change::Delete(_) => None,
    };
    (change, mark)
}

impl<M: Message> Behaviour for Watcher<M> {
    type Msg = WatcherMsg;
    type Answer = WatcherAnswer;
    type Observed = WatcherView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.follow(cx);
    }

    fn handle(&mut self, msg: WatcherMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            WatcherMsg::Await(reply) if self.lists > 0 => reply.send(()),
            WatcherMsg::Await(reply) => self.awaiting.push(reply),
            WatcherMsg::Show(reply) => reply.send(self.observe()),
            WatcherMsg::Stop => {
                self.end_watch(cx);
                cx.stop();
            }
        }
    }

    fn answered(&mut self, answer: WatcherAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            WatcherAnswer::Listed(number, answer) if number == self.begun => {
                self.listed(cx, answer)
            }
            WatcherAnswer::Canary(number, answer) if number == self.begun => {
                self.looked(cx, answer)
            }
            // One that was given up may still have something on its way.
            WatcherAnswer::Seen(number, event) if number == self.number && self.watch.is_some() => {
                self.seen(cx, event);
            }
            WatcherAnswer::Silent(_) if mutated(Mutant::SilentStoreTrusted) => {}
            WatcherAnswer::Silent(number) if number == self.number && self.watch.is_some() => {
                self.end_watch(cx);
                self.pause(cx, format!("watch {}: silent for {SILENCE_MAX:?}", self.prefix));
            }
            WatcherAnswer::Listed(..)
            | WatcherAnswer::Canary(..)
            | WatcherAnswer::Seen(..)
            | WatcherAnswer::Silent(_) => {}
            WatcherAnswer::Retry => self.follow(cx),
        }
    }

    fn observe(&self) -> WatcherView {
        WatcherView {
            prefix: self.prefix.to_string(),
            keys: self.known.len(),
            revision: self.revision,
            lists: self.lists,
            watching: self.watch.is_some(),
            unreachable: self.outage.view(),
            hearing: self.hearing.clone(),
        }
    }
}
