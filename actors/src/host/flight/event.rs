//! What a reader gets: the events of one life, and how much of that life is left in the ring.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Unfinished;
use crate::host::{CellId, EnvelopeId, Outcome, RootId, Time, WaitId};

/// One record, read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Records are numbered from 1 in each life.
    pub seq: u64,
    /// What it says.
    #[serde(flatten)]
    pub what: What,
}

/// What a record says. Times are nanoseconds of the life's monotonic clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the fields are those of host::Record")]
pub enum What {
    /// Something outside began a chain of messages.
    Root { root: RootId, what: Arc<str>, at: Time },
    /// A cell came to life.
    Spawned { cell: CellId, name: Arc<str>, parent: Option<CellId>, at: Time },
    /// A message reached its end.
    Message {
        id: EnvelopeId,
        kind: Arc<str>,
        from: Option<CellId>,
        to: CellId,
        cause: EnvelopeId,
        root: RootId,
        enqueued: Time,
        started: Time,
        ended: Time,
        outcome: Outcome,
    },
    /// A handler panicked.
    Crash { cell: CellId, kind: Arc<str>, cause: Arc<str>, at: Time },
    /// An actor said that its state changed.
    State { cell: CellId, from: Arc<str>, to: Arc<str>, why: Arc<str>, at: Time },
    /// A wait lasts; most are told of when they are over.
    WaitBegan(RecordedWait),
    /// A wait is over, answered or not.
    Waited {
        #[serde(flatten)]
        wait: RecordedWait,
        ended: Time,
        answered: bool,
    },
    /// A step in the kernel.
    Kernel {
        cell: Option<CellId>,
        cause: EnvelopeId,
        root: RootId,
        op: Arc<str>,
        about: Arc<str>,
        write: bool,
        submitted: Time,
        started: Time,
        ended: Time,
        failed: Option<Arc<str>>,
    },
    /// A part of the start, before actors lived.
    Phase { name: Arc<str>, started: Time, ended: Time },
    /// A cell is no more.
    Stopped { cell: CellId, at: Time },
}

impl What {
    /// When it happened: for what has a length, its end.
    pub fn at(&self) -> Time {
        match self {
            Self::Root { at, .. }
            | Self::Spawned { at, .. }
            | Self::Crash { at, .. }
            | Self::State { at, .. }
            | Self::Stopped { at, .. } => *at,
            Self::WaitBegan(wait) => wait.since,
            Self::Message { ended, .. }
            | Self::Waited { ended, .. }
            | Self::Kernel { ended, .. }
            | Self::Phase { ended, .. } => *ended,
        }
    }
}

/// A wait, read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWait {
    /// Its number.
    pub wait: WaitId,
    /// Who waits; `None` is somebody outside.
    pub who: Option<CellId>,
    /// Name of the actor or the port that is waited for.
    pub whom: Arc<str>,
    /// The actor, unless it is a port.
    pub whom_cell: Option<CellId>,
    /// What it is about.
    pub why: Arc<str>,
    /// Since when.
    pub since: Time,
    /// Until when at most.
    pub until: Time,
}

/// Which life that was, and how much of it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Life {
    /// Lives are counted in each state directory, from 1.
    pub number: u64,
    /// The process.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// The machine's boot; monotonic times of two lives compare only within one.
    pub boot_id: String,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The same moment by its monotonic clock.
    pub started_ns: u64,
    /// When it ended as it should, nanoseconds since 1970; 0 if it goes on or was killed.
    #[serde(default)]
    pub ended_unix_ns: u64,
    /// Whether it is over; whoever found the ring knows.
    pub previous: bool,
    /// Records that were begun and not finished, or are damaged.
    pub torn: u64,
    /// Records that were overwritten, but for what was carried over of them.
    pub overwritten: u64,
    /// Bytes of the ring.
    pub capacity: u64,
    /// The message that is being handled, or was when that life ended.
    pub unfinished: Option<Unfinished>,
    /// Waits that had only just begun, and are not among the events yet.
    pub waits: Vec<RecordedWait>,
}

/// All there is to read of one life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flight {
    /// Which one.
    pub life: Life,
    /// What happened, by number.
    pub events: Vec<Event>,
}
