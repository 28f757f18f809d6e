//! Reads the peers of a clause in Cilium's policies: `fromEndpoints`, `toCIDRSet` and the like.

use std::collections::BTreeSet;

use super::{
    cidr::{prefix, with_except},
    scope::{NAMESPACE_LABEL, NAMESPACE_LABELS, ParseContext},
    selector::{Keys, selector},
    side::Side,
    to_services,
};
use crate::{
    model::{
        Direction,
        field::{Fault, Field, Mapping},
    },
    policy::rules::{
        GroupMatch, GroupSelector, Selector, SelectorKey,
        peer::{CidrMatch, Peer},
        rule::ClausePeers,
    },
};

/// Names of a clause's peer fields. At most one of them may list anything.
struct PeerFieldNames {
    endpoints: &'static str,
    cidr: &'static str,
    cidr_set: &'static str,
    entities: &'static str,
    services: Option<&'static str>,
    nodes: &'static str,
    not_supported: &'static [&'static str],
    requires: &'static str,
}

const FROM: PeerFieldNames = PeerFieldNames {
    endpoints: "fromEndpoints",
    cidr: "fromCIDR",
    cidr_set: "fromCIDRSet",
    entities: "fromEntities",
    services: None,
    nodes: "fromNodes",
    not_supported: &["fromGroups"],
    requires: "fromRequires",
};

const TO: PeerFieldNames = PeerFieldNames {
    endpoints: "toEndpoints",
    cidr: "toCIDR",
    cidr_set: "toCIDRSet",
    entities: "toEntities",
    services: Some("toServices"),
    nodes: "toNodes",
    not_supported: &["toFQDNs", "toGroups"],
    requires: "toRequires",
};

const TO_DENY: PeerFieldNames = PeerFieldNames { not_supported: &["toGroups"], ..TO };

fn names(side: Side) -> &'static PeerFieldNames {
    match (side.direction, side.deny) {
        (Direction::Ingress, _) => &FROM,
        (Direction::Egress, false) => &TO,
        (Direction::Egress, true) => &TO_DENY,
    }
}

/// Names of the peer fields that a clause may have.
pub(super) fn fields(side: Side) -> Vec<&'static str> {
    let names = names(side);
    let mut fields = vec![
        names.endpoints,
        names.cidr,
        names.cidr_set,
        names.entities,
        names.nodes,
        names.requires,
    ];
    fields.extend(names.services);
    fields.extend(names.not_supported);
    fields
}

/// Reads the peers of a clause; `None` if it has no field about them.
pub(super) fn peers(
    clause: &Mapping<'_>,
    side: Side,
    for_init: bool,
    scope: &mut ParseContext<'_>,
) -> Result<Option<ClausePeers>, Fault> {
    let names = names(side);
    if let Some(field) = clause.get(names.requires) {
        return Err(field.fault(
            format!("{} is not supported", names.requires),
            "deny the others by ingressDeny or egressDeny",
        ));
    }
    let mut found = PeerFields { side, lists: Vec::new(), any: false, peers: Vec::new() };
    for field in found.list(clause, names.endpoints)? {
        let selector = endpoints(&field, for_init, scope)?;
        found.peers.push(Peer::Labels(selector));
    }
    for field in found.list(clause, names.cidr)? {
        let cidr = CidrMatch { net: prefix(&field)?, except: [].into() };
        found.peers.push(Peer::Cidr(cidr));
    }
    for field in found.list(clause, names.cidr_set)? {
        found.cidr_set(&field)?;
    }
    for field in found.list(clause, names.entities)? {
        found.entity(&field, scope)?;
    }
    if let Some(name) = names.services {
        for field in found.list(clause, name)? {
            found.peers.push(Peer::Service(to_services::services(&field)?));
        }
    }
    for field in found.list(clause, names.nodes)? {
        match scope.settings.node_selectors {
            true => found.peers.push(Peer::Labels(nodes(&field)?)),
            false => found.not_supported(&field, scope),
        }
    }
    for name in names.not_supported {
        for field in found.list(clause, name)? {
            found.not_supported(&field, scope);
        }
    }
    found.finish(clause)
}

/// What the peer fields of a clause come to.
struct PeerFields {
    side: Side,
    /// Fields that are there, and whether they list anything.
    lists: Vec<(&'static str, bool)>,
    any: bool,
    peers: Vec<Peer>,
}

impl PeerFields {
    fn list<'a>(
        &mut self,
        clause: &Mapping<'a>,
        name: &'static str,
    ) -> Result<Vec<Field<'a>>, Fault> {
        let list = clause.list(name)?;
        if let Some(list) = &list {
            self.lists.push((name, !list.is_empty()));
        }
        Ok(list.unwrap_or_default())
    }

    fn not_supported(&mut self, field: &Field<'_>, scope: &mut ParseContext<'_>) {
        scope.not_supported(&field.path(), self.side.effect());
        self.any |= self.side.deny;
    }

    fn cidr_set(&mut self, field: &Field<'_>) -> Result<(), Fault> {
        let mapping = field.mapping(&["cidr", "cidrGroupRef", "cidrGroupSelector", "except"])?;
        let ways = ["cidr", "cidrGroupRef", "cidrGroupSelector"].map(|name| mapping.get(name));
        let except = mapping.list("except")?.unwrap_or_default();
        let which = match ways {
            [Some(cidr), None, None] => {
                self.peers.push(Peer::Cidr(with_except(&cidr, &except)?));
                return Ok(());
            }
            [None, Some(name), None] => GroupSelector::Name(name.text()?.to_owned()),
            [None, None, Some(labels)] => GroupSelector::Labels(selector(&labels, Keys::Pod)?),
            [None, None, None] => {
                return Err(field.fault("the entry names no prefix", "add cidr"));
            }
            _ => {
                return Err(field.fault(
                    "the entry names prefixes in two ways",
                    "write an entry of the list for each",
                ));
            }
        };
        let except = except.iter().map(prefix).collect::<Result<_, _>>()?;
        self.peers.push(Peer::Group(GroupMatch { which, except, nets: BTreeSet::new() }));
        Ok(())
    }

    fn entity(&mut self, field: &Field<'_>, scope: &ParseContext<'_>) -> Result<(), Fault> {
        let reserved: &[&str] = match field.text()? {
            "all" => {
                self.any = true;
                &[]
            }
            "none" => &[],
            "world" => &["world", "world-ipv4", "world-ipv6"],
            "cluster" => {
                self.peers.push(Peer::Labels(scope.cluster_pods()));
                &["host", "remote-node", "init", "ingress", "health", "unmanaged", "kube-apiserver"]
            }
            "world-ipv4" => &["world-ipv4"],
            "world-ipv6" => &["world-ipv6"],
            "host" => &["host"],
            "init" => &["init"],
            "ingress" => &["ingress"],
            "unmanaged" => &["unmanaged"],
            "remote-node" => &["remote-node"],
            "health" => &["health"],
            "kube-apiserver" => &["kube-apiserver"],
            other => {
                return Err(field.fault(
                    format!("unknown entity {other:?}"),
                    "write all, world, world-ipv4, world-ipv6, cluster, host, init, ingress, \
                     unmanaged, remote-node, health, none or kube-apiserver",
                ));
            }
        };
        self.peers.extend(reserved.iter().map(|name| Peer::Labels(Selector::reserved(name))));
        Ok(())
    }

    fn finish(self, clause: &Mapping<'_>) -> Result<Option<ClausePeers>, Fault> {
        let mut full = self.lists.iter().filter(|(_, full)| *full).map(|(name, _)| name);
        if let (Some(first), Some(second)) = (full.next(), full.next()) {
            let field = clause.need(second)?;
            return Err(field.fault(
                format!("{first} and {second} in one rule"),
                "write two rules, one with each",
            ));
        }
        Ok(match (self.any, self.lists.is_empty()) {
            (true, _) => Some(ClausePeers::Any),
            (false, true) => None,
            (false, false) => Some(ClausePeers::Of(self.peers)),
        })
    }
}

/// A selector of other nodes by their labels.
fn nodes(field: &Field<'_>) -> Result<Selector, Fault> {
    let selector = selector(field, Keys::Node)?;
    Ok(selector.and_exists(SelectorKey::new("reserved", "remote-node")))
}

/// A selector of peers, narrowed as Cilium narrows it: to the policy's namespace and cluster, or
/// for a clusterwide policy to whatever has a namespace, unless it speaks of these itself.
fn endpoints(
    field: &Field<'_>,
    for_init: bool,
    scope: &ParseContext<'_>,
) -> Result<Selector, Fault> {
    let mut selector = selector(field, Keys::Cilium)?;
    if selector.keys().any(|key| key.source == "reserved") {
        return Ok(selector);
    }
    let pods = |key: &SelectorKey| matches!(key.source.as_str(), "k8s" | "any");
    let names_namespace = selector.keys().any(|key| pods(key) && key.key == NAMESPACE_LABEL);
    let tests_namespace =
        selector.keys().any(|key| pods(key) && key.key.starts_with(NAMESPACE_LABELS));
    match &scope.name.namespace {
        Some(namespace) if !names_namespace && !tests_namespace => {
            ParseContext::in_namespace(&mut selector, namespace);
        }
        None if !names_namespace && !for_init => {
            selector = selector.and_exists(SelectorKey::new("k8s", NAMESPACE_LABEL));
        }
        _ => {}
    }
    scope.in_cluster(&mut selector);
    Ok(selector)
}
