//! Messages to who follows the container runtime, and what it shows.

use serde::Serialize;

use crate::{
    cluster::sources::Hearing,
    host::{Message, Reply},
};

/// How the container runtime is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuntimeFollowerView {
    /// Its version, while it is followed.
    pub version: Option<String>,
    /// How it was heard.
    pub hearing: Hearing,
    /// Why it is not followed.
    pub error: Option<String>,
    /// Whether it was followed before, in this run of the agent.
    pub was_followed: bool,
    /// Containers of endpoints that it has.
    pub containers: usize,
    /// Containers of endpoints that it never had: somebody else made them.
    pub strangers: usize,
    /// Containers of endpoints that it had and that run no more.
    pub gone: usize,
    /// Endpoints of those whose interfaces live: they stay.
    pub living: usize,
    /// Endpoints that were removed because container and interface were gone.
    pub removed: u64,
    /// How often all was listed.
    pub lists: u64,
    /// Changes that were told.
    pub changes: u64,
}

/// What who follows the container runtime can be told.
pub enum RuntimeFollowerMsg {
    /// Show how it goes.
    Show(Reply<RuntimeFollowerView>),
}

impl Message for RuntimeFollowerMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Show(_) => "Show",
        }
    }
}
