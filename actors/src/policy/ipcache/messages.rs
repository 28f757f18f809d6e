//! Messages of the owner of the ipcache, its entries and their sources.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use ipnet::IpNet;
use serde::Serialize;

use crate::{
    host::{Lane, Message, Reply},
    model::{EndpointId, IdentityId, Tunnel, drift::DriftReply},
    ports::{IpcacheRow, KernelError},
};

/// Who says whose a prefix is. Sorts by how much the word counts, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpcacheSource {
    /// The endpoint that has the address.
    Endpoint(EndpointId),
    /// This node, of itself.
    Node,
    /// Other nodes, of themselves.
    RemoteNode,
    /// Other nodes, of their endpoints.
    Cluster,
    /// A rule that names the prefix.
    Policy,
    /// An earlier run of the agent; nobody has named it yet.
    Restored,
}

impl fmt::Display for IpcacheSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(id) => write!(f, "endpoint {id}"),
            Self::Node => f.write_str("node"),
            Self::RemoteNode => f.write_str("remote node"),
            Self::Cluster => f.write_str("cluster"),
            Self::Policy => f.write_str("policy"),
            Self::Restored => f.write_str("restored"),
        }
    }
}

impl Serialize for IpcacheSource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An address or prefix, its identity, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IpcacheEntry {
    /// Its identity.
    pub identity: IdentityId,
    /// Who says so.
    pub source: IpcacheSource,
    /// The node behind which it is, if it is another one's.
    pub tunnel: Tunnel,
}

impl IpcacheEntry {
    /// What is on this node or outside the cluster.
    pub fn of(identity: IdentityId, source: IpcacheSource) -> Self {
        Self { identity, source, tunnel: Tunnel::NONE }
    }

    /// The row that says it.
    pub(super) fn row(&self) -> IpcacheRow {
        IpcacheRow::behind(self.identity, self.tunnel)
    }
}

/// What the owner of the ipcache can be told.
pub enum IpcacheMsg {
    /// What the kernel's map holds, before anything else.
    Restore(BTreeMap<IpNet, IpcacheRow>),
    /// These prefixes have these identities; answered once the kernel has all of them.
    Upsert {
        /// The entries, each prefix once.
        entries: Vec<(IpNet, IpcacheEntry)>,
        /// Where the answer goes.
        reply: Reply<Result<(), KernelError>>,
    },
    /// Forget these, if they still come from that source.
    Remove {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Who said so.
        source: IpcacheSource,
        /// Where the answer goes.
        reply: Reply<Result<(), KernelError>>,
    },
    /// Every source has said what it knows: rows of the kernel that nobody named go.
    Prune,
    /// Whose an address is, and by which prefix; nothing if nobody said so.
    Find {
        /// The address.
        address: IpAddr,
        /// Where the answer goes.
        reply: Reply<Option<(IpNet, IpcacheEntry)>>,
    },
    /// Show all.
    List(Reply<BTreeMap<IpNet, IpcacheEntry>>),
    /// Show how writing goes.
    Show(Reply<IpcacheView>),
    /// Compare the kernel's rows with what was written, and write again what differs; told then
    /// what did.
    Compare(DriftReply),
}

impl Message for IpcacheMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Restore(_) => "Restore",
            Self::Upsert { .. } => "Upsert",
            Self::Remove { .. } => "Remove",
            Self::Prune => "Prune",
            Self::Find { .. } => "Find",
            Self::List(_) => "List",
            Self::Show(_) => "Show",
            Self::Compare(_) => "Compare",
        }
    }

    /// One lane for all: nothing is pruned before what was named first.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// What the ipcache shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IpcacheView {
    /// Rows that the kernel has.
    pub rows: usize,
    /// Rows still to be written or removed.
    pub open: usize,
    /// Writes that failed in a row.
    pub failures: u32,
    /// Why the last one did.
    pub last_error: Option<String>,
}
