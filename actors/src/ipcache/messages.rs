use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Serialize;

use crate::{
    host::{AskError, Lane, Message, Reply},
    model::IdentityId,
    ports::{IpcacheRow, KernelDone, KernelError},
};

/// An address or prefix, its identity, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IpcacheEntry {
    /// Its identity.
    pub identity: IdentityId,
    /// Who says so: `endpoint 42`, `node`, `cluster`, `policy`; the first word tells how much it counts, in
    /// this order.
    pub source: String,
}

/// What the owner of the ipcache can be told.
pub enum IpcacheMsg {
    /// What the kernel's map holds, before anything else.
    Restore(BTreeMap<IpNet, IpcacheRow>),
    /// These prefixes have these identities; answered once the kernel has all of them.
    Upsert {
        /// The entries.
        entries: BTreeMap<IpNet, IpcacheEntry>,
        /// Where the answer goes.
        reply: Reply<Result<(), KernelError>>,
    },
    /// Forget these, if they still come from that source.
    Remove {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Who said so.
        source: String,
        /// Where the answer goes.
        reply: Reply<Result<(), KernelError>>,
    },
    /// Every source has said what it knows: rows of the kernel that nobody named go.
    Prune,
    /// Show all.
    List(Reply<BTreeMap<IpNet, IpcacheEntry>>),
    /// The kernel's answer to a batch.
    Written(Result<KernelDone, AskError>),
    /// Time to write again what could not be written.
    Retry,
}

impl Message for IpcacheMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Restore(_) => "Restore",
            Self::Upsert { .. } => "Upsert",
            Self::Remove { .. } => "Remove",
            Self::Prune => "Prune",
            Self::List(_) => "List",
            Self::Written(_) => "Written",
            Self::Retry => "Retry",
        }
    }

    /// One lane for all: nothing is pruned before what was named first.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}
