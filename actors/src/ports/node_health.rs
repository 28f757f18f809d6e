//! The ports for the health of nodes: the place of the health endpoint, and probes of other nodes.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::Serialize;

use crate::{
    host::Reply,
    model::{Addresses, Mac},
};

/// Name of the health endpoint's interface on the node.
pub const HEALTH_DEVICE: &str = "lxc_health";

/// Where a health endpoint is: a pair of interfaces, one of them in a network namespace of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthPlace {
    /// The interface on the node.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub node_mac: Mac,
    /// Ethernet address of the interface inside.
    pub mac: Mac,
    /// Addresses inside.
    pub addresses: Addresses,
    /// Cookie of the namespace.
    pub netns_cookie: u64,
    /// The file that holds the namespace.
    pub netns_path: String,
}

/// How a place for a health endpoint is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredHealthPlace {
    /// Its addresses.
    pub addresses: Addresses,
    /// Where it routes to: one for each family that it has.
    pub router: Addresses,
    /// The largest packet, bytes.
    pub mtu: u32,
}

/// Why there is no such place, or nobody answers there, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HealthPlaceError(pub String);

/// The place of the node's health endpoint. It outlives the agent: interfaces, addresses and the kernel's
/// answers to ICMP are there while no agent runs. Only who answers HTTP there ends with it.
pub trait HealthPlaces {
    /// What an earlier life left, if all of it is there; who asks there by HTTP is answered from now on.
    fn look(&self, reply: Reply<Result<Option<HealthPlace>, HealthPlaceError>>);

    /// Makes a place, in the stead of what is left of another one. Its interface on the node stays down.
    fn make(
        &self,
        desired: DesiredHealthPlace,
        reply: Reply<Result<HealthPlace, HealthPlaceError>>,
    );

    /// Removes all of it; nothing there is fine.
    fn remove(&self, reply: Reply<Result<(), HealthPlaceError>>);
}

/// How an address answered: after how long, or why not.
pub type Echo = Result<Duration, String>;

/// Probes of addresses: each answer says after how long it came, or why none did.
pub trait Probes {
    /// Sends each address up to so many ICMP echo requests, until one is answered. All are answered for
    /// `patience` after the last request at the latest.
    fn echo(
        &self,
        addresses: Vec<IpAddr>,
        requests: u32,
        patience: Duration,
        reply: Reply<BTreeMap<IpAddr, Echo>>,
    );

    /// Asks who answers for health there by HTTP.
    fn hello(&self, address: IpAddr, patience: Duration, reply: Reply<Echo>);
}
