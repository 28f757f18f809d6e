//! Answers that concern services: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Lane, Message},
    model::Frontend,
    ports::KernelDone,
};

/// What the owner of services hears of its own questions, timers and ports.
pub enum ServicesAnswer {
    /// Time to write again what could not be written.
    Retry,
    /// Time to compare the rows in the kernel with what is known.
    Sweep,

    /// The kernel's answer to a batch.
    Written(Result<KernelDone, AskError>),
    /// Whether who answers load balancers heard what is new.
    HealthTold(Result<(), AskError>),
    /// The kernel's answer: some rows.
    Page(Result<KernelDone, AskError>),
    /// The kernel's answer: tables of Maglev up to that frontend's were compared.
    Tables(Frontend, Result<KernelDone, AskError>),
    /// The kernel's answer: rows at keys that nobody writes are gone.
    Cleaned(Result<KernelDone, AskError>),
    /// More is to be looked at.
    Continue,
}

impl Message for ServicesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Sweep => "Sweep",
            Self::Written(_) => "Written",
            Self::HealthTold(_) => "HealthTold",
            Self::Page(_) => "Page",
            Self::Tables(..) => "Tables",
            Self::Cleaned(_) => "Cleaned",
            Self::Continue => "Continue",
        }
    }

    fn lane(&self) -> Lane {
        // `Continue` waits its turn behind what others said; nothing else comes this way.
        Lane::Request
    }
}
