//! Messages to the supervisor and to its sources, the feeds, and the state of each source.

use super::ServerView;
use crate::{
    cluster::sources::Hearing,
    host::{Lane, Message, Reply, Time},
    model::{ApiObject, Feed},
    ports::{ClusterError, ObjectKey},
};

/// Where a source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceState {
    /// Its first list is not there yet.
    #[default]
    Listing,
    /// It is watched, and everything up to this version was told.
    Synced(String),
    /// There can be no such object: nobody defined the resource.
    Undefined,
    /// The server does not do what it should. What it told before stays.
    Broken {
        /// Why.
        error: ClusterError,
        /// How often it was tried, one after the other.
        tries: u32,
    },
}

/// A source as its supervisor knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its name.
    pub name: &'static str,
    /// Who hears of it.
    pub feed: Feed,
    /// Whether all its objects have been told once.
    pub synced: bool,
    /// Where it stands.
    pub state: SourceState,
    /// Since when.
    pub since: Time,
    /// Up to which version everything was told, the last time that it was known.
    pub version: Option<String>,
    /// How far it is.
    pub heard: Heard,
    /// How it was heard.
    pub hearing: Hearing,
}

/// What a source heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many objects there are.
    pub objects: usize,
    /// The server said something just now.
    pub spoke: bool,
    /// Its watch said nothing while objects changed; they were listed.
    pub stalled: bool,
}

/// What the supervisor of sources can be told.
pub enum ClusterMsg {
    /// From a source: these objects are so now, or are gone.
    Changed {
        /// Its number.
        source: usize,
        /// The objects.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
    },
    /// From a source: where it stands.
    State {
        /// Its number.
        source: usize,
        /// Where.
        state: SourceState,
        /// What it heard.
        heard: Heard,
    },
    /// From a source: the server is another one than before, by these words.
    Replaced {
        /// Its number.
        source: usize,
        /// What tells it from the one before.
        why: String,
    },
    /// Objects of the definition of that name are served from now on.
    Defined(String),
    /// Show what is known of the server.
    Server(Reply<ServerView>),
    /// Answered once everything has been handed on there.
    AwaitSync(Feed, Reply<()>),
    /// Show all sources.
    Show(Reply<Vec<SourceStatus>>),
}

impl Message for ClusterMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "Changed",
            Self::State { .. } => "State",
            Self::Replaced { .. } => "Replaced",
            Self::Defined(_) => "Defined",
            Self::Server(_) => "Server",
            Self::AwaitSync(..) => "AwaitSync",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::AwaitSync(..) | Self::Show(_) | Self::Server(_) => Lane::Request,
            _ => Lane::Control,
        }
    }
}

/// What a source can be told.
pub enum SourceMsg {
    /// The server is another one: everything is listed again.
    Relist,
    /// Its resource is defined from now on: it need not wait any longer.
    Defined,
    /// Answered once all its objects have been told.
    AwaitSync(Reply<()>),
}

impl Message for SourceMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Relist => "Relist",
            Self::Defined => "Defined",
            Self::AwaitSync(_) => "AwaitSync",
        }
    }
}
