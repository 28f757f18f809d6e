//! What the owner of the node's prefixes hears of its own questions, timers and ports.

use ipnet::IpNet;

use crate::{
    host::{AskError, Message},
    ports::{ClusterError, DiskError, Object},
    state_directory::PoolPrefixes,
};

/// Answers to the owner of the node's prefixes.
pub enum OwnPrefixesAnswer {
    /// The CiliumNode as it is.
    Read(Result<Result<Object, ClusterError>, AskError>),
    /// These are closed, and nobody has an address of them.
    Closed(Result<Vec<IpNet>, AskError>),
    /// Whether these are on disk.
    Saved(PoolPrefixes, Result<Result<(), DiskError>, AskError>),
    /// How writing to the CiliumNode went.
    Written(Result<Result<(), ClusterError>, AskError>),
    /// Time to try again.
    Again,
    /// What is more than is needed has been so for a while.
    Quiet,
}

impl Message for OwnPrefixesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Read(_) => "Read",
            Self::Closed(_) => "Closed",
            Self::Saved(..) => "Saved",
            Self::Written(_) => "Written",
            Self::Again => "Again",
            Self::Quiet => "Quiet",
        }
    }
}
