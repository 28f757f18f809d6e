//! What the owner of the node's prefixes can be told, and what it shows.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Serialize;

use crate::{
    endpoints::ipam::PoolsDemand,
    host::{Lane, Message, Reply},
    model::ApiObject,
    ports::ObjectKey,
};

/// What the owner of the node's prefixes can be told.
pub enum OwnPrefixesMsg {
    /// What the API server says of CiliumNodes.
    Objects {
        /// The objects that are so now, or are gone.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        /// Whether there can be such objects.
        defined: bool,
    },
    /// From IPAM: so much of each pool is used and needed.
    Demand(PoolsDemand),
    /// Show how it stands.
    Show(Reply<OwnPrefixesView>),
}

impl Message for OwnPrefixesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Objects { .. } => "Objects",
            Self::Demand(_) => "Demand",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what was said last counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// A prefix of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnPrefix {
    /// Its pool.
    pub pool: String,
    /// How many of its addresses somebody has, by what IPAM said last.
    pub used: u64,
    /// `open`, `home`, `leaving`, `lost` or `new`.
    pub state: &'static str,
}

/// How it stands with prefixes of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnPrefixesView {
    /// All that it has.
    pub prefixes: BTreeMap<IpNet, OwnPrefix>,
    /// Whether the CiliumNode was seen in this life.
    pub seen: bool,
    /// Prefixes that were given back in this life.
    pub given_back: u64,
    /// What is done just now, or waited for.
    pub doing: &'static str,
    /// What is wrong; empty if nothing is.
    pub trouble: String,
}
