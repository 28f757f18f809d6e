//! Messages to who probes nodes.

use std::sync::Arc;

use super::ReachabilityView;
use crate::{
    host::{Lane, Message, Reply},
    model::Addresses,
};

/// What who probes nodes can be told.
pub enum ReachabilityMsg {
    /// Others reach this node at these addresses from now on.
    OwnAddresses(Addresses),
    /// Its health endpoint has these addresses.
    OwnHealth(Addresses),
    /// Show how all nodes are reached.
    Show(Reply<Arc<ReachabilityView>>),
}

impl Message for ReachabilityMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::OwnAddresses(_) => "OwnAddresses",
            Self::OwnHealth(_) => "OwnHealth",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        Lane::Control
    }
}
