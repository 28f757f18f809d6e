//! Messages to the publisher, and what it keeps of a write under way.

use std::{net::IpAddr, sync::Arc};

use super::item::Item;
use crate::{
    endpoints::{endpoint::EndpointView, supervisor::EndpointChange},
    host::{AskError, Lane, Message, Reply},
    model::{Addresses, ApiObject, Feed},
    ports::{ClusterError, ObjectKey},
};

/// Something that this node wants to say of itself, and that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublished {
    /// What, in words.
    pub what: String,
    /// How often it was tried, one after the other.
    pub tries: u32,
    /// Why it is not there.
    pub why: String,
}

/// A write under way.
#[derive(Clone, Debug)]
pub struct WriteAttempt {
    pub(super) item: Item,
    /// Stands for what is desired and what was there.
    pub(super) mark: u64,
    /// Whether it removes the object.
    pub(super) removes: bool,
}

/// How a write ended.
pub(super) type PublishResult = Result<Result<(), ClusterError>, AskError>;

/// What the publisher can be told.
pub enum PublisherMsg {
    /// From the sources: these objects are so now, or are gone. The first holds all there are.
    Objects {
        /// Which kind.
        feed: Feed,
        /// The objects.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        /// Whether there can be such objects: the kind is defined.
        defined: bool,
    },
    /// An endpoint of this node changed, or is gone.
    Endpoint(EndpointChange<Arc<EndpointView>>),
    /// Others reach this node at this address from now on.
    Address(IpAddr),
    /// This node's health endpoint has these addresses.
    Health(Addresses),
    /// Show what is not there.
    Show(Reply<Vec<Unpublished>>),
}

impl Message for PublisherMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Objects { .. } => "Objects",
            Self::Endpoint(change) => change.kind(),
            Self::Address(_) => "Address",
            Self::Health(_) => "Health",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what was said last of an endpoint or an object counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}
