//! An index over one life's records: names of actors, causes of messages, open waits, and why an
//! endpoint was last regenerated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use volvox_actors::endpoints::{endpoint_called, pod_called};
use volvox_actors::host::{
    CellId, EnvelopeId, RootId, Time, WaitId,
    flight::{Event, Flight, RecordedWait, What},
};

/// A life, with ways to find things in it.
pub struct Story<'a> {
    /// The life.
    pub flight: &'a Flight,
    names: BTreeMap<CellId, Arc<str>>,
    roots: BTreeMap<RootId, Arc<str>>,
    messages: BTreeMap<EnvelopeId, &'a Event>,
    open: BTreeMap<WaitId, &'a RecordedWait>,
}

/// How a regeneration came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Regenerated<'a> {
    /// When it began.
    pub at: Time,
    /// What the endpoint gave as its reason.
    pub why: Arc<str>,
    /// The outside event, if it is still in the record.
    pub root: Option<Arc<str>>,
    /// The messages that led to it, the first first, as far as they are in the record.
    pub messages: Vec<&'a Event>,
}

impl<'a> Story<'a> {
    /// Looks through a life once.
    pub fn new(flight: &'a Flight) -> Self {
        let mut story = Self {
            flight,
            names: BTreeMap::new(),
            roots: BTreeMap::new(),
            messages: BTreeMap::new(),
            open: flight.life.waits.iter().map(|wait| (wait.wait, wait)).collect(),
        };
        for event in &flight.events {
            match &event.what {
                What::Spawned { cell, name, .. } => {
                    story.names.insert(*cell, Arc::clone(name));
                }
                What::Root { root, what, .. } => {
                    story.roots.insert(*root, Arc::clone(what));
                }
                What::Message { id, .. } => {
                    story.messages.insert(*id, event);
                }
                What::WaitBegan(wait) => {
                    story.open.insert(wait.wait, wait);
                }
                What::Waited { wait, .. } => drop(story.open.remove(&wait.wait)),
                _ => {}
            }
        }
        story
    }

    /// An actor's name.
    pub fn name(&self, cell: CellId) -> Arc<str> {
        self.names.get(&cell).cloned().unwrap_or_else(|| cell.to_string().into())
    }

    /// What an outside event was.
    pub fn root(&self, root: RootId) -> Option<Arc<str>> {
        self.roots.get(&root).cloned()
    }

    /// A message by its number.
    pub fn message(&self, id: EnvelopeId) -> Option<&'a Event> {
        self.messages.get(&id).copied()
    }

    /// The actors that were that endpoint: more than one if its number was used again.
    pub fn cells_of(&self, endpoint: u16) -> BTreeSet<CellId> {
        let found = self.names.iter().filter(|(_, known)| endpoint_called(known) == Some(endpoint));
        found.map(|(cell, _)| *cell).collect()
    }

    /// Numbers of the endpoints of a pod, by `namespace/name` or by its name alone.
    pub fn endpoints_of(&self, pod: &str) -> BTreeSet<u16> {
        let is_it = |known: &str| {
            pod_called(known).is_some_and(|it| {
                it == pod || it.split_once('/').is_some_and(|(_, bare)| bare == pod)
            })
        };
        let found = self.names.values().filter(|known| is_it(known));
        found.filter_map(|known| endpoint_called(known)).collect()
    }

    /// When the last thing happened that is in the record.
    pub fn end(&self) -> Time {
        let latest = self.flight.events.iter().map(|event| event.what.at()).max();
        latest.unwrap_or(Time(self.flight.life.started_ns))
    }

    /// A moment in nanoseconds since 1970.
    pub fn wall(&self, at: Time) -> u64 {
        let life = &self.flight.life;
        life.started_unix_ns.wrapping_add(at.0.wrapping_sub(life.started_ns))
    }

    /// The state in which that endpoint was last, why, and since when.
    pub fn state(&self, endpoint: u16) -> Option<(Arc<str>, Arc<str>, Time)> {
        let cells = self.cells_of(endpoint);
        self.flight.events.iter().rev().find_map(|event| match &event.what {
            What::State { cell, to, why, at, .. } if cells.contains(cell) => {
                Some((Arc::clone(to), Arc::clone(why), *at))
            }
            _ => None,
        })
    }

    /// The waits that had not ended when the record did.
    pub fn open_waits(&self) -> impl Iterator<Item = &'a RecordedWait> {
        self.open.values().copied()
    }

    /// The chain of open waits that begins at an endpoint, nearest first.
    pub fn chain(&self, endpoint: u16) -> Vec<&'a RecordedWait> {
        let mut frontier: Vec<_> = self.cells_of(endpoint).into_iter().collect();
        let mut seen: BTreeSet<_> = frontier.iter().copied().collect();
        let mut chain = Vec::new();
        while let Some(cell) = frontier.pop() {
            for wait in self.open_waits().filter(|wait| wait.who == Some(cell)) {
                frontier.extend(wait.whom_cell.filter(|next| seen.insert(*next)));
                chain.push(wait);
            }
        }
        chain
    }

    /// The last regeneration of an endpoint that is in the record, back to what began it.
    pub fn regenerated(&self, endpoint: u16) -> Option<Regenerated<'a>> {
        let cells = self.cells_of(endpoint);
        let (cell, why, at) = self.flight.events.iter().rev().find_map(|event| {
            let What::State { cell, to, why, at, .. } = &event.what else { return None };
            let building = ["waiting-to-regenerate", "restoring"].contains(&&**to);
            (building && cells.contains(cell)).then(|| (*cell, Arc::clone(why), *at))
        })?;
        // A state changes while a message is handled.
        let cause = self.flight.events.iter().find(|event| match &event.what {
            What::Message { to, started, ended, .. } => {
                *to == cell && (*started..=*ended).contains(&at)
            }
            _ => false,
        });
        let messages = cause.map_or_else(Vec::new, |event| self.back(event));
        let root = cause.and_then(|event| self.root(root_of(event)?));
        Some(Regenerated { at, why, root, messages })
    }

    /// A message and those that led to it, the first first.
    pub fn back(&self, event: &'a Event) -> Vec<&'a Event> {
        let mut chain = vec![event];
        let mut last = event;
        while let What::Message { id, cause, .. } = &last.what
            && let Some(before) = self.message(*cause).filter(|_| cause < id)
        {
            chain.push(before);
            last = before;
        }
        chain.reverse();
        chain
    }
}

/// The outside event behind a record.
pub(super) fn root_of(event: &Event) -> Option<RootId> {
    match &event.what {
        What::Root { root, .. } | What::Message { root, .. } | What::Kernel { root, .. } => {
            Some(*root)
        }
        _ => None,
    }
}
