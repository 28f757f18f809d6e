//! Messages to the owner of the cluster's addresses, and the view that it shows of itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
};

use ipnet::IpNet;
use serde::Serialize;

use super::ends::Via;
use crate::{
    cluster::{allocator::AllocatorNews, kvstore::Update, origins::ClusterOrigin},
    endpoints::{endpoint::Announcement, supervisor::EndpointChange},
    host::{Lane, Message, Reply},
    model::{ApiObject, IdentityId},
    ports::ObjectKey,
};

/// A prefix, the identity that it gets, and the number of the node that it is behind.
pub(super) type AddressMapping = (IpNet, IdentityId, Via);

/// What the owner of the cluster's addresses can be told.
pub enum AddressesMsg {
    /// What the store says of addresses.
    Update(Update),
    /// What the API server says of pods' addresses. The first holds all there are.
    Objects {
        /// The objects that are so now, or are gone.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        /// Whether there can be such objects.
        defined: bool,
    },
    /// These other clusters are read, and no others.
    Clusters(BTreeSet<Arc<str>>),
    /// What one of them says of addresses.
    ClusterAddresses(Rc<ClusterOrigin>, Update),
    /// What one of them says of identities.
    ClusterIdentities(Rc<ClusterOrigin>, Update),
    /// From the allocator: what it knows of identities.
    Allocator(AllocatorNews),
    /// Others reach this node at this address from now on.
    OwnAddress(IpAddr),
    /// An endpoint of this node changed, or is gone.
    Endpoint(EndpointChange<Announcement>),
    /// Show how it stands.
    Show(Reply<AddressesView>),
}

impl Message for AddressesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Update(_) => "Update",
            Self::Objects { .. } => "Objects",
            Self::Clusters(_) => "Clusters",
            Self::ClusterAddresses(..) => "ClusterAddresses",
            Self::ClusterIdentities(..) => "ClusterIdentities",
            Self::Allocator(news) => news.kind(),
            Self::OwnAddress(_) => "OwnAddress",
            Self::Endpoint(change) => change.kind(),
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what was said last of an address counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// How the cluster's addresses stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddressesView {
    /// Addresses of other nodes' endpoints that the cluster names.
    pub known: usize,
    /// Those that are in force.
    pub mapped: usize,
    /// Those whose identity is not known, or stands for other labels here.
    pub waiting: usize,
    /// Whether all that the cluster has was read once.
    pub synced: bool,
    /// Endpoints of this node that are announced in the store.
    pub announced: usize,
    /// What each other cluster says: how many addresses, and how many identities.
    pub clusters: BTreeMap<Arc<str>, (usize, usize)>,
}
