//! Messages to the owner of the cluster's nodes, and what it shows of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use ipnet::IpNet;
use serde::Serialize;

use super::{NodeEntry, entry::Seat};
use crate::{
    cluster::{kvstore::Update, origins::ClusterOrigin},
    host::{Lane, Message, Reply},
    model::{Addresses, ApiObject, Feed, IdentityId, Labels, NodeKey},
    ports::ObjectKey,
};

/// What the owner of the cluster's nodes can be told.
pub enum RemoteNodesMsg {
    /// What the store says of nodes.
    Update(Update),
    /// These other clusters are read, and no others.
    Clusters(BTreeSet<Arc<str>>),
    /// What one of them says of its nodes.
    Cluster(Rc<ClusterOrigin>, Update),
    /// What the API server says of them. The first holds all there are.
    Objects {
        /// What objects these are.
        feed: Feed,
        /// The objects that are so now, or are gone.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        /// Whether there can be such objects.
        defined: bool,
    },
    /// Others reach this node at these addresses from now on.
    OwnAddresses(Addresses),
    /// This node's pods have these prefixes.
    OwnPrefixes(BTreeSet<IpNet>),
    /// This node's health endpoint has these addresses.
    OwnHealth(Addresses),
    /// Show all nodes.
    List(Reply<RemoteNodesList>),
    /// Show how it stands.
    Show(Reply<RemoteNodesView>),
}

/// Prefixes with what is said of them; without it they go.
pub(super) type NodePrefixes = BTreeMap<IpNet, Option<Seat>>;

/// Identities of nodes that policies do not know yet, with their labels.
pub(super) type UnknownIdentities = BTreeMap<IdentityId, Arc<Labels>>;

impl Message for RemoteNodesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Update(_) => "Update",
            Self::Clusters(_) => "Clusters",
            Self::Cluster(..) => "Cluster",
            Self::Objects { .. } => "Objects",
            Self::OwnAddresses(_) => "OwnAddresses",
            Self::OwnPrefixes(_) => "OwnPrefixes",
            Self::OwnHealth(_) => "OwnHealth",
            Self::List(_) => "List",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what was said last of a node counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// Where nodes are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteNodesSource {
    /// A store.
    Store,
    /// CiliumNodes of the API server.
    Objects,
}

/// All other nodes.
#[derive(Clone, Debug)]
pub struct RemoteNodesList {
    /// Where they are known from.
    pub source: RemoteNodesSource,
    /// Each of them.
    pub nodes: BTreeMap<NodeKey, NodeEntry>,
}

/// How the cluster's nodes stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemoteNodesView {
    /// Other nodes that are known.
    pub known: usize,
    /// Their addresses that are in the ipcache.
    pub mapped: usize,
    /// Addresses that it has not heard of yet, or that are to go.
    pub open: usize,
    /// Whether all nodes that there are were named once.
    pub synced: bool,
    /// Whether this node has said in the store where it is.
    pub announced: bool,
    /// Whether somebody else says so under its name.
    pub usurped: bool,
    /// How many nodes each other cluster has.
    pub clusters: BTreeMap<Arc<str>, usize>,
    /// Addresses that several nodes name, and which.
    pub contested: BTreeMap<IpNet, BTreeSet<String>>,
    /// How many are known by their Nodes alone, where those are followed.
    pub plain: usize,
    /// Names of the first of these.
    pub plain_named: Vec<String>,
}
