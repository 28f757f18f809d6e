//! Answers that concern the ipcache: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::KernelDone,
};

/// What the owner of the ipcache hears of its own questions, timers and ports.
pub enum IpcacheAnswer {
    /// Time to compare the rows in the kernel with what is known.
    Sweep,
    /// The kernel's answer to a batch.
    Written(Result<KernelDone, AskError>),
    /// Time to write again what could not be written.
    Retry,
    /// The kernel's answer: some rows.
    Page(Result<KernelDone, AskError>),
    /// The kernel's answer: rows at keys that are no prefixes are gone.
    Cleaned(Result<KernelDone, AskError>),
}

impl Message for IpcacheAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sweep => "Sweep",
            Self::Written(_) => "Written",
            Self::Retry => "Retry",
            Self::Page(_) => "Page",
            Self::Cleaned(_) => "Cleaned",
        }
    }
}
