//! Messages to the owner of services, its sources, and the views that it shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::refused::RefusedServiceObject;
use crate::{
    endpoints::supervisor::EndpointAddresses,
    host::{Lane, Message, Reply},
    model::{
        ApiObject, BackendId, Feed, Frontend, L4Address, Manifest, ServiceId, drift::DriftReply,
    },
    ports::{BackendState, ObjectKey},
    services::service_cache::RemoteService,
};

/// Who says something of services. Nothing of an earlier run is removed before each has said all
/// that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceSource {
    /// The cluster's API server.
    Cluster,
    /// The same, of its Ingresses: an account that may not list them costs no more than these.
    Ingresses,
    /// The same, of the pods of this node, which may want ports of the node.
    Pods,
    /// The directory of manifests.
    Manifests,
    /// The node, of its own addresses.
    Node,
    /// Other clusters, of services that they share.
    Mesh,
}

impl ServiceSource {
    /// Whether what it speaks of can be told from all others: these do not wait for it.
    pub fn is_apart(self) -> bool {
        matches!(self, Self::Ingresses | Self::Pods)
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "the cluster",
            Self::Ingresses => "the cluster's Ingresses",
            Self::Pods => "the node's pods",
            Self::Manifests => "the manifests",
            Self::Node => "the node's addresses",
            Self::Mesh => "other clusters",
        }
    }
}

/// An object of the cluster by the name of its resource, as it is now; nothing if it is gone.
pub type ClusterObject = (&'static str, ObjectKey, Option<ApiObject>);

/// A service of another cluster as that one shares it; nothing if it does not any more. An error says why
/// what it writes of it cannot be read: what it was before stays.
pub type RemoteChange = ((String, String), Result<Option<RemoteService>, String>);

/// What the owner of services can be told.
pub enum ServicesMsg {
    /// Objects of the cluster: at first all there are of that feed.
    Objects {
        /// Services and who serves them, Ingresses, pods, or this node.
        feed: Feed,
        /// Those that are others than before.
        objects: Vec<ClusterObject>,
    },
    /// What files of the directory of manifests say: at first all there are.
    Manifests(Vec<Manifest>),
    /// The node's own addresses.
    HostAddresses(BTreeSet<IpAddr>),
    /// Services of another cluster.
    Remote {
        /// The cluster.
        cluster: Arc<str>,
        /// Those that are others than before.
        changes: Vec<RemoteChange>,
        /// Whether all that it shares was named.
        listed: bool,
    },
    /// These other clusters are configured, and no more: what others shared goes.
    Clusters(BTreeSet<Arc<str>>),
    /// Keep a backend from new connections, or do not any more, until it is listed nowhere; also
    /// over restarts. Answered once the kernel does.
    Quarantine {
        /// The backend.
        backend: L4Address,
        /// Whether to keep it from them.
        desired: bool,
        /// Where the answer goes.
        reply: Reply<Result<(), UnknownBackend>>,
    },
    /// From the supervisor of endpoints: one comes, or ends.
    Endpoint(EndpointAddresses),
    /// From who sweeps connections: who left services and whom connections may have still.
    Leaving(Reply<Vec<LeavingBackend>>),
    /// From the same: a sweep that began after that answer saw no connection that has these.
    Unused(Vec<LeavingBackend>),
    /// Show all services.
    List(Reply<Vec<ServiceView>>),
    /// Show all backends.
    ListBackends(Reply<Vec<BackendView>>),
    /// Show how it stands.
    Show(Reply<ServicesStatus>),
    /// Compare the kernel's rows with what was written, and write again what differs; told then
    /// what did.
    Compare(DriftReply),
}

impl Message for ServicesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Objects { .. } => "Objects",
            Self::Manifests(_) => "Manifests",
            Self::HostAddresses(_) => "HostAddresses",
            Self::Remote { .. } => "Remote",
            Self::Clusters(_) => "Clusters",
            Self::Quarantine { .. } => "Quarantine",
            Self::Endpoint(_) => "Endpoint",
            Self::Leaving(_) => "Leaving",
            Self::Unused(_) => "Unused",
            Self::List(_) => "List",
            Self::ListBackends(_) => "ListBackends",
            Self::Show(_) => "Show",
            Self::Compare(_) => "Compare",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::List(_) | Self::ListBackends(_) => Lane::Control,
            // In order: what was said last counts, and is shown.
            _ => Lane::Request,
        }
    }
}

/// A backend that left a service, whose connections by it may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeavingBackend {
    /// Its number.
    pub id: BackendId,
    /// Its family.
    pub is_ipv4: bool,
    /// Which departure it is: one that came back and left again has another one.
    pub nth: u64,
}

/// Why a backend is not quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no service has a backend {0}: `volvox backend list` names all")]
pub struct UnknownBackend(pub L4Address);

/// A frontend, for people and for REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceView {
    /// Its number.
    pub id: ServiceId,
    /// Where it is reached, and by whom.
    pub frontend: Frontend,
    /// The service that it is of, as `namespace/name`; none if an earlier run left it and no source
    /// named it yet.
    pub service: Option<String>,
    /// Bits of [`service_flags`](crate::ports::service_flags).
    pub flags: u16,
    /// For how many seconds a client stays with its backend; 0 if it need not.
    pub affinity: u32,
    /// Its backends in the order of their slots. Those that the kernel's map lacks have no place.
    pub backends: Vec<(BackendId, Option<L4Address>, BackendState)>,
    /// Whether the kernel has just that.
    pub realised: bool,
}

/// A backend, for people and for REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendView {
    /// Its number.
    pub id: BackendId,
    /// Where it is.
    pub at: L4Address,
    /// How it is used.
    pub state: BackendState,
    /// Services that it left and that keep it for the connections that it has, as `namespace/name`.
    pub left: BTreeSet<String>,
}

/// How services stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServicesStatus {
    /// How many frontends there are.
    pub frontends: usize,
    /// How many backends.
    pub backends: usize,
    /// How many of them are kept from new connections.
    pub quarantined: usize,
    /// How many no service lists any more, and are kept for the connections that they have.
    pub leaving: usize,
    /// How many rows each map has room for; 0 if nobody knows.
    pub room: usize,
    /// The most rows that one of the maps of frontends holds.
    pub rows: usize,
    /// Objects to be read, and services to be given what they wish.
    pub unread: usize,
    /// How many rows each map has, or will have, at most; those that clients fill are left out.
    pub maps: BTreeMap<&'static str, usize>,
    /// Frontends and backends that the kernel has not as they are to be.
    pub open: usize,
    /// Who has not said yet what it knows: nothing of an earlier run is removed before.
    pub awaited: BTreeSet<ServiceSource>,
    /// What was not right in the maps at start; it is put right.
    pub found: Vec<String>,
    /// Rows in the maps at start that mean nothing: they stay where they are.
    pub foreign: Vec<String>,
    /// Objects that are refused, with their sources.
    pub refused: Vec<(String, RefusedServiceObject)>,
    /// What services cannot have, by service.
    pub problems: Vec<(String, String)>,
    /// Writes that failed in a row.
    pub failures: u32,
    /// Why the last one did.
    pub last_error: Option<String>,
}
