//! The key-value store that the nodes of a cluster share: the session that holds this node's lease, and
//! watchers that report what others write.

mod guard;
mod heard;
mod outage;
mod pairs;
mod session;
#[cfg(test)]
mod tests;
mod watcher;

use std::{net::IpAddr, rc::Rc, time::Duration};

use crate::{
    host::{Behaviour, Cx},
    model::ClusterId,
    ports::{KvStore, Revision, StoreHeader, Watch, WatchEvent},
};

pub(crate) use heard::difference;
pub(crate) use pairs::Owner;
pub use pairs::{AddressPair, PairError, PortPair};
pub(crate) use pairs::{Whose, ports as named_ports, prefix_of, read_ports};
pub(crate) use session::settled;
pub use session::{Session, SessionMsg, SessionView, Unreachable};
pub use watcher::{Followed, Update, Watcher, WatcherMsg, WatcherView};

/// Below it: an address or a prefix and whose it is.
pub const ADDRESSES: &str = "cilium/state/ip/v1/default/";
/// Below it: a cluster and a node of it.
pub const NODES: &str = "cilium/state/nodes/v1/";
/// Below it: an identity's number, with its labels as value.
pub const IDENTITIES: &str = "cilium/state/identities/v1/id/";
/// Below it: an identity's labels and a node that uses it, with its number as value.
pub const IDENTITY_USERS: &str = "cilium/state/identities/v1/value/";
/// Below it: labels whose number an agent of Cilium is just choosing.
pub const IDENTITY_LOCKS: &str = "cilium/state/identities/v1/locks/";
/// Written by the operator every minute; read to see whether the store has a majority.
pub const HEARTBEAT: &str = "cilium/.heartbeat";

/// Watches keys that begin so, from that revision on. What it tells is an answer to whoever began it; `what` it
/// is stands in traces.
pub(crate) fn watch<B: Behaviour>(
    cx: &Cx<'_, B>,
    store: &Rc<dyn KvStore>,
    what: String,
    (prefix, from): (&str, Revision),
    answer: impl Fn(WatchEvent) -> B::Answer + 'static,
) -> Watch {
    let (home, host) = (cx.home().clone(), cx.host().clone());
    let tell = move |event| host.outside(&what, || home.tell(answer(event)));
    store.watch(prefix, from, Box::new(tell))
}

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
    /// What the store said of itself to the run before.
    pub before: Option<StoreHeader>,
    /// Whether other clusters are read, too.
    pub meshed: bool,
    /// Where randomness comes from: pauses, and which number a new identity gets.
    pub seed: u64,
}
