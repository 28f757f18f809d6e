//! Answers that concern the node's devices: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::KernelDone,
};

/// What the owner of the node's devices hears of its own questions, timers and ports.
pub enum DevicesAnswer {
    /// Time to compare the rows in the kernel with what is known.
    Sweep,
    /// What the kernel holds.
    Read(Result<KernelDone, AskError>),
    /// Steps were done.
    Done(Result<KernelDone, AskError>),
    /// Time to try again.
    Again,
}

impl Message for DevicesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sweep => "Sweep",
            Self::Read(_) => "Read",
            Self::Done(_) => "Done",
            Self::Again => "Again",
        }
    }
}
