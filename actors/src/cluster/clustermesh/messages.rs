//! What the supervisor of other clusters can be told.

use std::sync::Arc;

use super::RemoteView;
use crate::{
    cluster::origins::ConfigError,
    host::{Lane, Message, Reply},
    model::ClusterId,
};

/// What whoever knows the supervisor can tell it.
pub enum MeshMsg {
    /// A cluster says that this is its number.
    Claim {
        /// The cluster.
        cluster: Arc<str>,
        /// Its number.
        id: ClusterId,
        /// Whether it can be.
        reply: Reply<Result<(), ConfigError>>,
    },
    /// Show how each of them stands.
    Show(Reply<Vec<RemoteView>>),
}

impl Message for MeshMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Claim { .. } => "Claim",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        Lane::Request
    }
}
