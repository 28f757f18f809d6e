//! Who listens to what the agent itself has to say.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;

use crate::model::{EndpointId, IdentityId, Labels, drift::Drift};

/// Something that happened on the node, as Cilium's agent tells it too.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentNews {
    /// Rows were changed by somebody else, and are put right.
    Drifted(Drift),
    /// The agent started.
    Started {
        /// When, by RFC 3339.
        time: String,
    },
    /// An endpoint was built, or could not be.
    Regenerated {
        /// Which.
        id: EndpointId,
        /// Its labels.
        labels: Arc<Labels>,
        /// Why it could not be.
        error: Option<Arc<str>>,
    },
    /// Policies are in force that are new or were others before, or are not in force any more.
    Policies {
        /// Labels of their rules, by which Cilium names them.
        labels: Vec<String>,
        /// The repository's revision.
        revision: u64,
        /// How many policies there are.
        count: usize,
        /// Whether these are gone.
        deleted: bool,
    },
    /// An endpoint was made or deleted.
    Endpoint {
        /// Which.
        id: EndpointId,
        /// Its labels.
        labels: Arc<Labels>,
        /// Its pod's namespace, empty outside Kubernetes.
        namespace: String,
        /// Its pod.
        pod: String,
        /// Whether it was deleted.
        deleted: bool,
    },
    /// The ipcache says of an address whose it is, or says it no more.
    Address {
        /// The address or prefix.
        prefix: IpNet,
        /// Whose it is now, or was if that is said no more.
        now: AddressNews,
        /// Whose it was before, if that was another one.
        before: Option<AddressNews>,
        /// Whether that is said no more.
        deleted: bool,
    },
}

/// What the ipcache says of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressNews {
    /// Its identity.
    pub identity: IdentityId,
    /// The node behind which it is, if it is another one's.
    pub node: Option<IpAddr>,
    /// Number of the key.
    pub key: u8,
}

/// Those who listen to what happens on the node.
pub trait AgentNotices {
    /// Takes what happened; never waits.
    fn happened(&self, news: AgentNews);
}
