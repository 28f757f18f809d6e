use std::{collections::VecDeque, fmt::Write as _};

use serde::Serialize;

use super::{CellId, Header, Outcome, Wait};
use crate::ports::Time;

/// Number of an outside event: a REST call, a file that changed, a timer, the start itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RootId(pub u64);

/// One thing that happened in the host.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Record<'a> {
    /// Something outside began a chain of messages.
    Root { root: RootId, what: &'a str, at: Time },
    /// A cell came to life.
    Spawned { cell: CellId, name: &'a str, parent: Option<CellId>, at: Time },
    /// A message reached its end.
    Message { header: Header, started: Time, ended: Time, outcome: Outcome },
    /// A handler panicked.
    Crash { cell: CellId, kind: &'static str, cause: &'a str, at: Time },
    /// An actor says that its state changed.
    State { cell: CellId, from: &'static str, to: &'static str, why: &'a str, at: Time },
    /// A wait began.
    WaitBegan { wait: &'a Wait },
    /// A wait ended, answered or not.
    WaitEnded { wait: &'a Wait, answered: bool, at: Time },
    /// A cell is no more.
    Stopped { cell: CellId, at: Time },
}

/// Keeps records. Called for every message: it must be quick and must not fail.
pub trait Recorder {
    /// Keeps one record.
    fn record(&mut self, record: Record<'_>);
}

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn record(&mut self, _: Record<'_>) {}
}

/// Keeps the last records as text, one line each; for tests and a first look.
#[derive(Debug)]
pub struct RingRecorder {
    lines: VecDeque<String>,
    capacity: usize,
}

impl RingRecorder {
    /// Keeps at most `capacity` records.
    pub fn new(capacity: usize) -> Self {
        Self { lines: VecDeque::with_capacity(capacity.min(1024)), capacity: capacity.max(1) }
    }

    /// The records that are kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

impl Recorder for RingRecorder {
    fn record(&mut self, record: Record<'_>) {
        let mut line = if self.lines.len() >= self.capacity {
            self.lines.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        line.clear();
        // Writing to a String cannot fail.
        let _ = write!(line, "{record:?}");
        self.lines.push_back(line);
    }
}
