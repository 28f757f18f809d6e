//! What who probes nodes hears of its own questions, timers and ports.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    cluster::remote_nodes::RemoteNodesList,
    host::{AskError, Message},
    ports::Echo,
};

/// What who probes nodes hears.
pub enum ReachabilityAnswer {
    /// Time to see which probes are due.
    Tick,
    /// Time to ask which nodes there are.
    AskNodes,
    /// Which other nodes there are.
    Nodes(Result<RemoteNodesList, AskError>),
    /// What came of echo requests to these.
    Echoed(Vec<IpAddr>, Result<BTreeMap<IpAddr, Echo>, AskError>),
    /// What came of a request by HTTP.
    Helloed(IpAddr, Result<Echo, AskError>),
}

impl Message for ReachabilityAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Tick => "Tick",
            Self::AskNodes => "AskNodes",
            Self::Nodes(_) => "Nodes",
            Self::Echoed(..) => "Echoed",
            Self::Helloed(..) => "Helloed",
        }
    }
}
