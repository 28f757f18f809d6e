//! Answers that concern the node's own rows: what comes of own questions, timers and ports.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    host::{AskError, Message},
    policy::ipcache::IpcacheEntry,
    ports::{KernelDone, KernelError},
};

/// What the ipcache was told of the host's addresses.
pub enum ReportedHostAddresses {
    /// These are there.
    There(BTreeMap<IpNet, IpcacheEntry>),
    /// These are gone.
    Gone(Vec<IpNet>),
}

/// What the owner of the node's own rows hears of its own questions, timers and ports.
pub enum NodeAnswer {
    /// Time to compare the rows in the kernel with what is known.
    Sweep,
    /// The next look is due.
    Look,
    /// What the kernel shows.
    Looked(Result<KernelDone, AskError>),
    /// Rows were written.
    Written(Result<KernelDone, AskError>),
    /// The ipcache has the node's addresses.
    Mapped(ReportedHostAddresses, Result<Result<(), KernelError>, AskError>),
    /// The kernel's answer: some rows.
    Page(Result<KernelDone, AskError>),
    /// The kernel's answer: what differed is written.
    Mended(Result<KernelDone, AskError>),
}

impl Message for NodeAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sweep => "Sweep",
            Self::Look => "Look",
            Self::Looked(_) => "Looked",
            Self::Written(_) => "Written",
            Self::Mapped(..) => "Mapped",
            Self::Page(_) => "Page",
            Self::Mended(_) => "Mended",
        }
    }
}
