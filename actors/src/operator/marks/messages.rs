//! Messages to who marks Nodes.

use serde::Serialize;

use crate::{
    host::{Lane, Message, Reply},
    operator::news::ObjectNews,
};

/// What who marks Nodes can be told.
pub(in crate::operator) enum MarksMsg {
    /// From the cluster.
    News(ObjectNews),
    /// Show what was done.
    Show(Reply<MarksView>),
}

/// What who marks Nodes shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MarksView {
    /// Nodes on which an agent is ready.
    pub ready: usize,
    /// Nodes on which agents are scheduled, and none is ready.
    pub unready: usize,
    /// Taints that were removed in this life.
    pub untainted: u64,
    /// Taints that were set in this life.
    pub tainted: u64,
    /// Conditions that were written in this life.
    pub said_up: u64,
    /// Writes that failed in this life.
    pub failed: u64,
    /// Why the last one did.
    pub error: Option<String>,
}

impl Message for MarksMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::News(_) => "News",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::News(_) => Lane::Control,
            Self::Show(_) => Lane::Request,
        }
    }
}
