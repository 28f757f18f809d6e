//! Messages to the supervisor and to its sources, the feeds, and the state of each source.

use serde_json::Value;

use super::ServerView;
use crate::{
    cluster::sources::Hearing,
    host::{Lane, Message, Reply},
    ports::{ClusterError, ObjectKey, Time},
};

/// Who hears of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feed {
    /// The owner of the policy.
    Policies,
    /// The same, of what policies name: services and the addresses behind them.
    Services,
    /// The keeper of pods and namespaces; the owner of services hears of pods as well, which may want
    /// ports of the node.
    Workloads,
    /// Who keeps what this node says of itself: its own Node,
    Node,
    /// its CiliumNode, of which also the owner of the cluster's nodes hears if no store tells it: then
    /// of all nodes,
    CiliumNode,
    /// and the endpoints of all nodes, of which also the owner of the cluster's addresses hears if
    /// no store tells it.
    CiliumEndpoints,
    /// The owner of the cluster's identities, if no store tells it.
    CiliumIdentities,
    /// The owner of services, of Ingresses, which are frontends of services.
    Ingresses,
    /// The owner of the cluster's nodes, of all Nodes, where nobody defined CiliumNodes.
    Nodes,
}

impl Feed {
    /// Whether policies wait for it; for services only if one of them `names` some.
    pub fn gates_policies(self, names: bool) -> bool {
        matches!(self, Self::Policies | Self::Workloads) || (self == Self::Services && names)
    }

    /// That with which it is told, in one piece.
    pub(super) fn told_with(self) -> Self {
        match self {
            Self::Services => Self::Policies,
            other => other,
        }
    }

    /// Whether it is not enough to know that nobody defined such objects.
    pub fn needs_definition(self) -> bool {
        self == Self::CiliumIdentities
    }

    /// What waits for it before its first list, in words.
    pub fn waiting(self) -> &'static str {
        match self {
            Self::Policies | Self::Workloads => {
                "restored endpoints keep what they have, and new pods wait"
            }
            Self::Services => {
                "policies that name services wait; if one did when the agent started, restored \
                 endpoints keep what they have, and new pods wait"
            }
            Self::CiliumIdentities => {
                "endpoints keep the identities that they have, and new sets of labels wait"
            }
            Self::Nodes => "other nodes are where they were",
            Self::CiliumNode => {
                "other nodes are where they were, and what this node says of itself waits for them"
            }
            Self::Node | Self::CiliumEndpoints => "what this node says of itself waits for them",
            Self::Ingresses => "what they led to in the life before stays, and new ones wait",
        }
    }
}

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
        objects: Vec<(ObjectKey, Option<Value>)>,
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
    /// Answered once all its objects have been told.
    AwaitSync(Reply<()>),
}

impl Message for SourceMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Relist => "Relist",
            Self::AwaitSync(_) => "AwaitSync",
        }
    }
}
