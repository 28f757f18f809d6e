use std::{collections::BTreeSet, net::IpAddr};

use serde::Serialize;

use crate::{
    drift::Drift,
    host::{AskError, Message, Reply},
    model::{Addresses, NodeFacts},
    ports::KernelDone,
};

/// What is known of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// The address that pods route through; on no interface, answered for by the programs.
    pub router: Addresses,
    /// The node's own addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// What the kernel says of it.
    pub facts: NodeFacts,
    /// Why the last look failed.
    pub last_error: Option<String>,
}

/// What the node's actor can be told.
pub enum NodeMsg {
    /// Look at the interfaces now, and every minute from now on. Answered after the first look.
    Sync(Reply<()>),
    /// The next look is due.
    Look,
    /// Something changed at the interfaces: look now, if that has begun.
    Changed,
    /// It is so from now on.
    Facts(NodeFacts),
    /// What the kernel shows.
    Looked(Result<KernelDone, AskError>),
    /// Rows were written.
    Written(Result<KernelDone, AskError>),
    /// The ipcache has the node's addresses.
    Mapped(Result<Result<(), crate::ports::KernelError>, AskError>),
    /// Compare the kernel's rows with what was written, and write again what differs; told then
    /// what did. Nobody asks if it is only time.
    Compare(Option<Reply<Vec<Drift>>>),
    /// The kernel's answer: some rows.
    Page(Result<KernelDone, AskError>),
    /// The kernel's answer: what differed is written.
    Mended(Result<KernelDone, AskError>),
    /// Show it.
    Show(Reply<NodeStatus>),
}

impl Message for NodeMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sync(_) => "Sync",
            Self::Look => "Look",
            Self::Changed => "Changed",
            Self::Facts(_) => "Facts",
            Self::Looked(_) => "Looked",
            Self::Written(_) => "Written",
            Self::Mapped(_) => "Mapped",
            Self::Compare(_) => "Compare",
            Self::Page(_) => "Page",
            Self::Mended(_) => "Mended",
            Self::Show(_) => "Show",
        }
    }
}
