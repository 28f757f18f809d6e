//! Reads the peers of a rule of ClusterNetworkPolicy: `from` and `to`.

use std::collections::BTreeSet;

use super::{
    cidr::prefix,
    ranked_pods::{in_namespaces, in_pods},
    scope::ParseContext,
    selector::{Keys, selector},
};
use crate::{
    model::{
        Direction,
        field::{Fault, Field, Mapping},
    },
    policy::rules::{
        ClauseAction, Selector, SelectorKey,
        peer::{CidrMatch, Peer},
        rule::ClausePeers,
    },
};

/// One of the two lists of rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSide {
    /// The way the packet goes.
    pub(super) direction: Direction,
    /// Name of the list.
    pub(super) list: &'static str,
    /// Name of a rule's peers.
    pub(super) peers: &'static str,
}

impl PeerSide {
    pub(super) const ALL: [Self; 2] = [
        Self { direction: Direction::Ingress, list: "ingress", peers: "from" },
        Self { direction: Direction::Egress, list: "egress", peers: "to" },
    ];
}

/// Reserved identities that are of the cluster and that are no pods of a namespace.
const CLUSTER: [&str; 7] =
    ["host", "remote-node", "init", "ingress", "health", "unmanaged", "kube-apiserver"];

/// Reads the peers of a rule. What is not known of them goes to `unknown`.
pub(super) fn peers<'a>(
    rule: &Mapping<'a>,
    side: PeerSide,
    action: ClauseAction,
    scope: &ParseContext<'_>,
    unknown: &mut Vec<Field<'a>>,
) -> Result<ClausePeers, Fault> {
    let list = rule.need(side.peers)?;
    let entries = list.elements()?;
    if entries.is_empty() {
        return Err(list.fault("the rule lists no peer", "add one; namespaces: {} is every pod"));
    }
    let mut found = RankedPeers { peers: Vec::new(), whole: BTreeSet::new() };
    for entry in &entries {
        found.read(entry, side, scope, unknown)?;
    }
    Ok(found.finish(action, scope))
}

/// What the peers of a rule come to.
struct RankedPeers {
    peers: Vec<Peer>,
    /// Families of which every address is meant: whether they are IPv4.
    whole: BTreeSet<bool>,
}

impl RankedPeers {
    fn read<'a>(
        &mut self,
        entry: &Field<'a>,
        side: PeerSide,
        scope: &ParseContext<'_>,
        unknown: &mut Vec<Field<'a>>,
    ) -> Result<(), Fault> {
        let mapping = entry.any_mapping()?;
        let mut ways = mapping.entries();
        let Some((way, field)) = ways.next() else {
            // A newer definition has a way that the API server left out of the object.
            unknown.push(entry.clone());
            return Ok(());
        };
        if let Some((_, second)) = ways.next() {
            return Err(second.fault("two ways to select a peer", "write two entries of the list"));
        }
        match (way, side.direction) {
            ("namespaces", _) => self.pods(in_namespaces(&field)?, scope),
            ("pods", _) => self.pods(in_pods(&field)?, scope),
            ("nodes", Direction::Egress) => self.nodes(&field, scope, unknown)?,
            ("networks", Direction::Egress) => self.networks(&field)?,
            // Names of domains, or what only a newer agent knows.
            _ => unknown.push(field),
        }
        Ok(())
    }

    fn pods(&mut self, mut selector: Selector, scope: &ParseContext<'_>) {
        scope.in_cluster(&mut selector);
        self.peers.push(Peer::Labels(selector));
    }

    fn nodes<'a>(
        &mut self,
        field: &Field<'a>,
        scope: &ParseContext<'_>,
        unknown: &mut Vec<Field<'a>>,
    ) -> Result<(), Fault> {
        let selector = selector(field, Keys::Node)?;
        let remote = SelectorKey::new("reserved", "remote-node");
        if selector == Selector::default() {
            self.peers.push(Peer::Labels(Selector::reserved("host")));
            self.peers.push(Peer::Labels(selector.and_exists(remote)));
        } else if scope.settings.node_selectors {
            self.peers.push(Peer::Labels(selector.and_exists(remote)));
        } else {
            unknown.push(field.clone());
        }
        Ok(())
    }

    fn networks(&mut self, field: &Field<'_>) -> Result<(), Fault> {
        let networks = field.elements()?;
        if networks.is_empty() {
            return Err(field.fault("the peer lists no network", "add one, as in 10.0.0.0/8"));
        }
        for network in &networks {
            let net = prefix(network)?;
            if net.prefix_len() == 0 {
                self.whole.insert(net.addr().is_ipv4());
            }
            self.peers.push(Peer::Cidr(CidrMatch { net, except: BTreeSet::new() }));
        }
        Ok(())
    }

    /// All addresses are those of the cluster as well. A policy's rows do not know of which family a
    /// packet is: where only one of two families is meant, a denial means the cluster's whole traffic,
    /// and what lets packets pass none of it.
    fn finish(mut self, action: ClauseAction, scope: &ParseContext<'_>) -> ClausePeers {
        let families = scope.settings.families;
        let meant = |ipv4: bool| self.whole.contains(&ipv4);
        let all = (meant(true) || !families.ipv4) && (meant(false) || !families.ipv6);
        let some = (meant(true) && families.ipv4) || (meant(false) && families.ipv6);
        if all && some {
            return ClausePeers::Any;
        }
        if some && action == ClauseAction::Deny {
            self.peers.push(Peer::Labels(scope.cluster_pods()));
            let reserved = CLUSTER.iter().map(|name| Peer::Labels(Selector::reserved(name)));
            self.peers.extend(reserved);
        }
        ClausePeers::Of(self.peers)
    }
}
