//! Desired and realised ipcache entries of other nodes, and which node claims which address. The
//! reported decides what to write next; the actor tells the ipcache.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use ipnet::IpNet;

use super::{NodeEntry, entry::Seat, messages::NodePrefixes};
use crate::model::{IdentityId, IdentityScope, NodeKey};

/// Other nodes and their addresses: what the cluster says, and what the ipcache was told.
#[derive(Debug, Default)]
pub(super) struct ReportedNodes {
    nodes: BTreeMap<NodeKey, NodeEntry>,
    /// Who names an address, and as what.
    claims: BTreeMap<IpNet, BTreeMap<NodeKey, Seat>>,
    contested: BTreeSet<IpNet>,
    /// What the ipcache was told, now or by an earlier run.
    reported: BTreeMap<IpNet, Seat>,
    /// What else it was told and has not confirmed; of some prefixes that they go.
    attempted: BTreeMap<IpNet, BTreeSet<IdentityId>>,
    /// Prefixes to be looked at.
    due: BTreeSet<IpNet>,
    /// Those of them that it could not write: they are left alone for a while.
    resting: BTreeSet<IpNet>,
    listed: bool,
    /// What an earlier run mapped and nobody names was looked at.
    settled: bool,
}

impl ReportedNodes {
    /// What an earlier run mapped.
    pub(super) fn inherited(reported: BTreeMap<IpNet, Seat>) -> Self {
        Self { reported, ..Self::default() }
    }

    /// What a node says now; prefixes that another one named before.
    pub(super) fn set(&mut self, key: &NodeKey, entry: Option<NodeEntry>) -> Vec<IpNet> {
        let before = match entry {
            Some(entry) => self.nodes.insert(key.clone(), entry),
            None => self.nodes.remove(key),
        };
        for (prefix, _) in before.iter().flat_map(NodeEntry::rows) {
            self.leave(key, prefix);
        }
        let mut contested = Vec::new();
        for (prefix, seat) in self.nodes.get(key).into_iter().flat_map(NodeEntry::rows) {
            let claims = self.claims.entry(prefix).or_default();
            // Of what one node says twice of an address that counts which counts most.
            let said = claims.entry(key.clone()).or_insert(seat);
            *said = most([*said, seat]).unwrap_or(seat);
            if claims.len() > 1 && self.contested.insert(prefix) {
                contested.push(prefix);
            }
            self.due.insert(prefix);
        }
        contested
    }

    fn leave(&mut self, key: &NodeKey, prefix: IpNet) {
        if let Some(claims) = self.claims.get_mut(&prefix) {
            claims.remove(key);
            if claims.len() < 2 {
                self.contested.remove(&prefix);
            }
            if claims.is_empty() {
                self.claims.remove(&prefix);
            }
        }
        self.due.insert(prefix);
    }

    /// All nodes of this cluster were named.
    pub(super) fn listed(&mut self) {
        self.listed = true;
    }

    /// All nodes that there are were named: addresses that none of them has go.
    pub(super) fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            let unnamed = self.reported.keys().filter(|prefix| !self.claims.contains_key(*prefix));
            self.due.extend(unnamed);
        }
    }

    /// Whether they were.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// What the ipcache is to hear next. Rows of which policies do not know the identity wait.
    pub(super) fn next(&mut self, is_known: impl Fn(IdentityId) -> bool) -> Option<NodePrefixes> {
        let mut rows = NodePrefixes::new();
        let mut due = std::mem::take(&mut self.due);
        // Until it is told.
        due.retain(|&prefix| {
            let desired = self.desired(&prefix);
            let reported = self.reported.get(&prefix).copied();
            let differs = desired != reported || self.attempted.contains_key(&prefix);
            let may_go = desired.is_none_or(|seat| is_known(seat.identity))
                && !self.resting.contains(&prefix);
            if differs && may_go {
                rows.insert(prefix, desired);
            }
            differs
        });
        self.due = due;
        for (&prefix, seat) in &rows {
            let id = seat.map(|seat| seat.identity);
            self.attempted.entry(prefix).or_default().extend(id);
        }
        (!rows.is_empty()).then_some(rows)
    }

    /// Identities that rows wait for.
    pub(super) fn strangers(&self, is_known: impl Fn(IdentityId) -> bool) -> BTreeSet<IdentityId> {
        let desired = self.due.iter().filter_map(|prefix| Some(self.desired(prefix)?.identity));
        desired.filter(|id| !is_known(*id)).collect()
    }

    /// Identities that addresses have, or may have.
    pub(super) fn used(&self) -> BTreeSet<IdentityId> {
        let claimed = self.claims.values().flat_map(BTreeMap::values);
        let attempted = self.attempted.values().flatten().copied();
        self.reported.values().chain(claimed).map(|seat| seat.identity).chain(attempted).collect()
    }

    /// The identity of a prefix: which does not depend on who named it first.
    fn desired(&self, prefix: &IpNet) -> Option<Seat> {
        most(self.claims.get(prefix)?.values().copied())
    }

    /// The ipcache could not write that: it is told again when it has rested.
    pub(super) fn failed(&mut self, rows: NodePrefixes) {
        self.resting.extend(rows.into_keys());
    }

    /// What rested is told again.
    pub(super) fn resume(&mut self) {
        self.resting.clear();
    }

    /// The ipcache has that.
    pub(super) fn reported(&mut self, rows: NodePrefixes) {
        for (prefix, seat) in rows {
            self.attempted.remove(&prefix);
            match seat {
                Some(seat) => self.reported.insert(prefix, seat),
                None => self.reported.remove(&prefix),
            };
        }
    }

    pub(super) fn nodes(&self) -> &BTreeMap<NodeKey, NodeEntry> {
        &self.nodes
    }

    /// Nodes that name an address.
    pub(super) fn claimants(&self, prefix: &IpNet) -> BTreeSet<String> {
        self.claims.get(prefix).into_iter().flatten().map(|(key, _)| key.to_string()).collect()
    }

    /// Addresses that several nodes name, and which.
    pub(super) fn contested(&self) -> BTreeMap<IpNet, BTreeSet<String>> {
        self.contested.iter().map(|prefix| (*prefix, self.claimants(prefix))).collect()
    }

    /// Addresses that the ipcache was told of, and those that it is still to hear of.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.reported.len(), self.due.len())
    }
}

/// Of several identities of one address the node itself counts before what runs on it.
fn most(all: impl IntoIterator<Item = Seat>) -> Option<Seat> {
    let is_itself =
        |id: &IdentityId| *id == IdentityId::REMOTE_NODE || id.scope() == IdentityScope::RemoteNode;
    all.into_iter().max_by_key(|Seat { identity, tunnel }| {
        (is_itself(identity), Reverse((*identity, *tunnel)))
    })
}
