//! A node that shares an etcd with many others.

use std::{collections::BTreeSet, net::Ipv4Addr};

use anyhow::{Result, ensure};
use volvox_actors::cluster::kvstore::{ADDRESSES, IDENTITIES};

use super::Size;
use crate::{
    bench::Options,
    fleet::Fleet,
    lab::{Binaries, Etcd, Metrics, Node, Pair, Store, Through, other_node},
    progress::Progress,
};

impl Size {
    /// Whose the address number `nth` of other nodes is.
    pub(super) fn identity_of(&self, nth: u32) -> u32 {
        FIRST_IDENTITY + nth % self.identities
    }
}

/// The lowest number of their identities: what this node chooses itself lies beside them.
pub(super) const FIRST_IDENTITY: u32 = 20_000;

/// The lowest of their addresses.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

/// A node whose endpoints are ready, and an etcd that it shares with many others.
pub(super) struct Neighbours {
    pub(super) fleet: Fleet,
    etcd: Etcd,
    pub(super) store: Store,
    pub(super) size: Size,
}

impl Neighbours {
    pub(super) fn launch(options: &Options, progress: &Progress) -> Result<Self> {
        let size = options.cluster.clone();
        ensure!(size.addresses >= size.identities, "every identity has an address");
        let mut node = Node::new(Binaries::find()?)?;
        options.add_flags(&mut node);
        let etcd = Etcd::start_careless(&node.path("etcd"))?;
        etcd.share_with(&mut node)?;
        let mut store = etcd.connect()?;
        let numbers = FIRST_IDENTITY..FIRST_IDENTITY + size.identities;
        let identities: Vec<Pair> =
            numbers.flat_map(|id| other_node::identity(id, &labels(id))).collect();
        store.put_many(&identities)?;
        let fleet = Fleet::launch_on(node, options.endpoints.into(), Through::Rest, progress)?;
        Ok(Self { fleet, etcd, store, size })
    }

    /// Every address of theirs is announced.
    pub(super) fn announce(&mut self) -> Result<()> {
        let pair = |nth| {
            let id = self.size.identity_of(nth);
            other_node::address(address(nth), id, &namespace(id), &format!("pod-{nth}"))
        };
        self.store.put_many(&(0..self.size.addresses).map(pair).collect::<Vec<_>>())
    }

    /// None is.
    pub(super) fn withdraw(&mut self) -> Result<()> {
        (0..self.size.addresses).step_by(1 << 16).try_for_each(|nth| {
            // Their second byte is what they have in common.
            let [a, b, ..] = address(nth).octets();
            self.store.delete_all(&format!("{ADDRESSES}{a}.{b}."))
        })
    }

    /// Leaves the machine to somebody else.
    pub(super) fn end(self) -> Result<()> {
        drop((self.store, self.etcd));
        drop(self.fleet.pods);
        self.fleet.node.uninstall()
    }

    /// Numbers that no identity has.
    pub(super) fn free_identities(&mut self, count: usize) -> Result<Vec<u32>> {
        let known = self.store.list(IDENTITIES)?;
        let numbers: BTreeSet<u32> = known
            .iter()
            .filter_map(|(key, _)| key.strip_prefix(IDENTITIES)?.parse().ok())
            .collect();
        let free = (FIRST_IDENTITY..).filter(|id| !numbers.contains(id));
        Ok(free.take(count).collect())
    }
}

/// How many addresses of other nodes the agent has in force.
pub(super) fn in_force(node: &Node) -> Result<u32> {
    let metrics = Metrics::scrape(node.rest())?;
    let mut all = metrics.family("volvox_kvstore_addresses");
    let found = all.find(|(labels, _)| labels.contains("in-force"));
    Ok(found.map_or(0, |(_, value)| value as u32))
}

/// Their address number `nth`.
pub(super) fn address(nth: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + nth)
}

/// The namespace of an identity.
fn namespace(identity: u32) -> String {
    format!("elsewhere-{}", identity % 100)
}

/// What an identity stands for.
fn labels(identity: u32) -> String {
    let app = format!("app-{identity}");
    let tier = ["front", "middle", "back"][identity as usize % 3];
    other_node::labels(&namespace(identity), &[("app", &app), ("tier", tier)])
}
