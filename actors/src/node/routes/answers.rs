//! Answers that concern routes: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::{KernelDone, KernelOp},
};

/// What the owner of routes hears of its own questions, timers and ports.
pub enum RoutesAnswer {
    /// Time to look what somebody else did.
    LookAgain,
    /// Time to look.
    Look,
    /// What leads to other nodes now.
    Looked(Result<KernelDone, AskError>),
    /// These steps were done, up to one that failed.
    Done(Vec<KernelOp>, Result<KernelDone, AskError>),
}

impl Message for RoutesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::LookAgain => "LookAgain",
            Self::Look => "Look",
            Self::Looked(_) => "Looked",
            Self::Done(..) => "Done",
        }
    }
}
