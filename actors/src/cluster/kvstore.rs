//! What the nodes of a cluster tell each other through a key-value store: addresses and whose they
//! are, identities and their numbers, and the nodes themselves.
//!
//! ```text
//!   store ─► watcher (ip/v1) ────────────► addresses ─► identities, policy, ipcache
//!     ▲ ├──► watcher (identities/v1/id) ─► allocator ◄─ identities
//!     │ └──► watcher (nodes/v1) ─────────► nodes ─► ipcache
//!     └───── session ◄──── what this node announces ── addresses, allocator, nodes
//! ```
//!
//! The store widens what is known and never holds it back: without it, what an earlier life learned
//! is in force as it was. Keys and values are Cilium's, whose agents may share the store.

mod actors;
mod guard;
mod heard;
mod identities;
mod outage;
mod pairs;
mod session;
#[cfg(test)]
pub(crate) mod tests;
mod watcher;

use std::{net::IpAddr, time::Duration};

use crate::{model::ClusterId, ports::StoreHeader};

pub use actors::KvActors;
pub(crate) use identities::identity;
pub use pairs::{AddressPair, PairError, PortPair};
pub(crate) use pairs::{Whose, ports as named_ports, prefix_of, read_ports};
pub use session::{Session, SessionMsg, SessionView, Unreachable};
pub use watcher::{Followed, Update, Watcher, WatcherMsg, WatcherView};

/// Below it: an address or a prefix and whose it is.
pub const ADDRESSES: &str = "cilium/state/ip/v1/default/";
/// Below it: an identity's number, with its labels as value.
pub const IDENTITIES: &str = "cilium/state/identities/v1/id/";
/// Below it: an identity's labels and a node that uses it, with its number as value.
pub const IDENTITY_USERS: &str = "cilium/state/identities/v1/value/";
/// Below it: labels whose number an agent of Cilium is just choosing.
pub const IDENTITY_LOCKS: &str = "cilium/state/identities/v1/locks/";
/// Written by the operator every minute; read to see whether the store has a majority.
pub const HEARTBEAT: &str = "cilium/.heartbeat";

/// How this node takes part.
#[derive(Clone, Debug)]
pub struct KvSettings {
    /// Name of the cluster.
    pub cluster: String,
    /// Its number.
    pub cluster_id: ClusterId,
    /// Name of this node.
    pub node: String,
    /// Address by which others reach this node.
    pub address: IpAddr,
    /// The same in the other family, if it has one.
    pub other_address: Option<IpAddr>,
    /// Which boot of the machine this is.
    pub boot_id: String,
    /// How long what it announces outlives it.
    pub lease_ttl: Duration,
    /// What the store said of itself to the life before.
    pub before: Option<StoreHeader>,
    /// Whether other clusters are read, too.
    pub meshed: bool,
    /// Where randomness comes from: pauses, and which number a new identity gets.
    pub seed: u64,
}
