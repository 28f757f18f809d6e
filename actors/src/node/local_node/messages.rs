//! Messages to the node's actor, and the status that it shows.

use std::{collections::BTreeSet, net::IpAddr};

use serde::Serialize;

use crate::{
    host::{Message, Reply},
    model::{Addresses, NodeFacts, drift::DriftReply},
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
    /// Something changed at the interfaces: look now, if that has begun.
    Changed,
    /// It is so from now on.
    Facts(NodeFacts),
    /// Compare the kernel's rows with what was written, and write again what differs; told then
    /// what did.
    Compare(DriftReply),
    /// Show it.
    Show(Reply<NodeStatus>),
}

impl Message for NodeMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sync(_) => "Sync",
            Self::Changed => "Changed",
            Self::Facts(_) => "Facts",
            Self::Compare(_) => "Compare",
            Self::Show(_) => "Show",
        }
    }
}
