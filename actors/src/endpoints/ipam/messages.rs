//! Messages of IPAM, its answers and its errors.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ipnet::IpNet;
use serde::Serialize;

use super::{AddressFamily, PoolsDemand};
use crate::{
    host::{Lane, Message, Reply},
    model::Families,
    state_directory::PoolPrefixes,
};

/// Addresses just handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Allocated {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// Pool that the IPv4 address comes from.
    pub ipv4_pool: String,
    /// Pool that the IPv6 address comes from.
    pub ipv6_pool: String,
    /// Of which families its packets leave the cluster with its own address, as the pools say.
    pub unmasqueraded: Families,
}

/// Who has an address, and until when if nobody claims it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressLease {
    /// Owner: `namespace/pod`, `router`, …
    pub owner: String,
    /// Pool it comes from.
    pub pool: String,
    /// Given back in so long unless an endpoint claims it.
    pub expires_in: Option<Duration>,
}

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpamError {
    /// The address has an owner.
    #[error(
        "address {address} is already in use by {owner:?}: choose another, or delete its owner"
    )]
    InUse {
        /// The address.
        address: IpAddr,
        /// Who has it.
        owner: String,
    },
    /// The address lies outside every pool.
    #[error("address {address} is not in the pool {pool}: ask for one inside it, or for any")]
    NotInPool {
        /// The address.
        address: IpAddr,
        /// The pool's prefixes.
        pool: String,
    },
    /// No address is left.
    #[error("pool {pool} is exhausted ({size} addresses): delete endpoints or widen the range")]
    Exhausted {
        /// The pool's prefix.
        pool: String,
        /// How many it has.
        size: u128,
    },
    /// The family is switched off.
    #[error("{0:?} is not enabled on this node: enable it, or ask for the other family")]
    Disabled(AddressFamily),
    /// Nobody said who is to have it.
    #[error("an address needs an owner: name who is to have it, as \"namespace/pod\"")]
    NoOwner,
    /// Nobody has it.
    #[error("address {0} is not allocated")]
    NotAllocated(IpAddr),
    /// There is no pool of that name.
    #[error("there is no pool {0:?}: only \"default\" exists")]
    NoPool(String),
    /// The pool has no address for this node yet.
    #[error(
        "pool {pool:?} has no {family} address for this node yet{said}: see that CiliumPodIPPool {pool} is \
         there and has free {family} prefixes, and that an operator runs with --ipam=multi-pool; then try again"
    )]
    Lacking {
        /// Name of the pool.
        pool: String,
        /// Of which family.
        family: AddressFamily,
        /// What the operator says of it.
        said: String,
    },
    /// Nothing more is handed out of its prefix.
    #[error(
        "address {address} is in {prefix}, which this node gives back or has lost: ask for any other one"
    )]
    Closed {
        /// The address.
        address: IpAddr,
        /// Its prefix.
        prefix: IpNet,
    },
    /// Which pool a pod's addresses are of is not clear.
    #[error("{0}")]
    NoChoice(String),
    /// Restored addresses are not all reserved yet.
    #[error("addresses are handed out once restored endpoints have theirs reserved; try again")]
    NotReady,
}

/// What IPAM can be told.
pub enum IpamMsg {
    /// Reserve that very address. During restore an address outside the pool is taken too, and
    /// the address is its owner's for good; afterwards an endpoint may still claim it.
    Reserve {
        /// The address.
        address: IpAddr,
        /// For whom.
        owner: String,
        /// Where the answer goes.
        reply: Reply<Result<(), IpamError>>,
    },
    /// Reserve many, each like one.
    ReserveAll {
        /// The addresses, and for whom each.
        desired: Vec<(IpAddr, String)>,
        /// Where the answers go, in the same order: the name of the pool that each is of.
        reply: Reply<Vec<Result<String, IpamError>>>,
    },
    /// Hand out an address of one family, or of each that is enabled. Waits for the end of restore.
    Allocate {
        /// Which family; `None` is each that is enabled.
        family: Option<AddressFamily>,
        /// For whom.
        owner: String,
        /// From which pool; `None` is the pod's, or the default one.
        pool: Option<String>,
        /// Given back after so long unless an endpoint claims it.
        expires: Option<Duration>,
        /// Where the answer goes.
        reply: Reply<Result<Allocated, IpamError>>,
    },
    /// An endpoint, or the node itself, has it now: it no longer expires and nobody else can
    /// claim it. Reserves it if nobody has it.
    Claim {
        /// The address.
        address: IpAddr,
        /// For whom.
        owner: String,
        /// Another plugin handed it out, from wherever: nobody else is to get it here.
        external: bool,
        /// Where the answer goes.
        reply: Reply<Result<(), IpamError>>,
    },
    /// An owner takes its claim back, if it has the address: it is handed out again last.
    Unclaim {
        /// The address.
        address: IpAddr,
        /// Who may have claimed it.
        owner: String,
    },
    /// Its owner gives an address back; it is handed out again last.
    Release {
        /// The address.
        address: IpAddr,
        /// Where the answer goes.
        reply: Reply<Result<(), IpamError>>,
    },
    /// Give back an address that was asked for and that no endpoint has claimed; one that is
    /// claimed stays, and its owner is named.
    Withdraw {
        /// The address.
        address: IpAddr,
        /// Where the answer goes.
        reply: Reply<Result<(), IpamError>>,
    },
    /// Every restored address is reserved: the gate opens.
    RestoreFinished,
    /// These are the prefixes of several pools, and no others are.
    Prefixes {
        /// All of them.
        all: PoolPrefixes,
        /// What their giver says is wrong; empty if nothing is.
        said: String,
    },
    /// Hand nothing out of these any more, if nobody has an address of them.
    Close {
        /// Which ones.
        prefixes: Vec<IpNet>,
        /// Which of them are closed.
        reply: Reply<Vec<IpNet>>,
    },
    /// Show how much of each pool is used and needed.
    Demand(Reply<PoolsDemand>),
    /// Show all that is handed out.
    Dump(Reply<BTreeMap<IpAddr, AddressLease>>),
}

impl Message for IpamMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Reserve { .. } => "Reserve",
            Self::ReserveAll { .. } => "ReserveAll",
            Self::Allocate { .. } => "Allocate",
            Self::Claim { .. } => "Claim",
            Self::Unclaim { .. } => "Unclaim",
            Self::Release { .. } => "Release",
            Self::Withdraw { .. } => "Withdraw",
            Self::RestoreFinished => "RestoreFinished",
            Self::Prefixes { .. } => "Prefixes",
            Self::Close { .. } => "Close",
            Self::Demand(_) => "Demand",
            Self::Dump(_) => "Dump",
        }
    }

    /// One lane for all: the gate opens after the reservations that were sent before it.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}
