//! Messages to who removes what is left over.

use serde::Serialize;

use crate::{
    host::{Lane, Message, Reply},
    operator::news::ObjectNews,
};

/// What the collector can be told.
pub(in crate::operator) enum CollectorMsg {
    /// From the cluster.
    News(ObjectNews),
    /// Show what was done.
    Show(Reply<CollectorView>),
}

/// What the collector shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectorView {
    /// CiliumEndpoints, CiliumIdentities, CiliumNodes that are there.
    pub known: [usize; 3],
    /// The same that were removed in this life.
    pub removed: [u64; 3],
    /// Identities that were marked, to go if nobody takes them up.
    pub marked: u64,
    /// Writes that failed in this life.
    pub failed: u64,
    /// Why the last one did.
    pub error: Option<String>,
}

impl Message for CollectorMsg {
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
