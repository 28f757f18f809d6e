//! Messages, and the lanes of a mailbox.

use serde::Serialize;

/// What becomes of a message that meets one of its kind still waiting.
pub enum Absorbed<M> {
    /// The waiting one now stands for both.
    Yes,
    /// Both are desired: the new one is handed back to be queued.
    No(M),
}

/// One thing an actor can be told.
pub trait Message: 'static {
    /// Its name in traces.
    fn kind(&self) -> &'static str;

    /// How soon it is handled.
    fn lane(&self) -> Lane {
        Lane::Control
    }

    /// Lets a waiting message of the same lane stand for a new one as well.
    fn absorb(&mut self, incoming: Self) -> Absorbed<Self>
    where
        Self: Sized,
    {
        Absorbed::No(incoming)
    }
}

/// The answer of who asks nobody: there is none.
pub enum NoAnswer {}

impl Message for NoAnswer {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

/// Lanes of a mailbox, first to last. Order is kept within a lane. What was asked, expected or timed comes
/// before all of them, whatever its lane; what [`Home::tell`](super::Home::tell) takes has its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Life and death: stop, delete, observe.
    Control,
    /// What a person or a new pod waits for: CNI and REST.
    Request,
    /// Regeneration and everything that can wait.
    Regeneration,
}
