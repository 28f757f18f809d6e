//! What a host tells of itself: the records of its trace, and the interface of who keeps them.

use serde::Serialize;

use super::{CellId, EnvelopeId, Header, Outcome, Wait, numbers::RootId};
use crate::host::{About, Time};

/// One thing that happened in the host.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Record<'a> {
    /// Something outside began a chain of messages.
    Root { root: RootId, what: &'a str, at: Time },
    /// A cell came to life.
    Spawned { cell: CellId, name: &'a str, parent: Option<CellId>, at: Time },
    /// A handler is called; what comes of it is told by [`Record::Message`].
    Handling { header: Header, started: Time },
    /// A message reached its end.
    Message { header: Header, started: Time, ended: Time, outcome: Outcome },
    /// A handler panicked.
    Crash { cell: CellId, kind: &'static str, cause: &'a str, at: Time },
    /// An actor says that its state changed.
    State { cell: CellId, from: &'static str, to: &'static str, why: &'a str, at: Time },
    /// A wait began.
    WaitBegan { wait: &'a Wait },
    /// A wait that began is open for longer than most.
    WaitLasts { wait: &'a Wait },
    /// A wait ended, answered or not.
    WaitEnded { wait: &'a Wait, answered: bool, at: Time },
    /// A step in the kernel, told once its job is over.
    Kernel(KernelStep<'a>),
    /// A part of the start that was over before the host was there.
    Phase { name: &'a str, started: Time, ended: Time },
    /// A cell is no more.
    Stopped { cell: CellId, at: Time },
}

/// A step in the kernel.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KernelStep<'a> {
    /// The actor whose job it was part of.
    pub cell: Option<CellId>,
    /// The message over which that actor asked for it.
    pub cause: EnvelopeId,
    /// The outside event behind it.
    pub root: RootId,
    /// What was done.
    pub op: &'static str,
    /// To what.
    pub about: About,
    /// Whether it changes something.
    pub write: bool,
    /// When the job was given to the kernel's port.
    pub submitted: Time,
    /// When the step began.
    pub started: Time,
    /// When it was over.
    pub ended: Time,
    /// Why it failed, if it did.
    pub failed: Option<&'a str>,
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
