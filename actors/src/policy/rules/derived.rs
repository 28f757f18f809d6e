//! An endpoint's policy by direction and port, for Cilium's REST interface.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    ClauseAction, ClauseOrigin, ClausePeers, ClausePorts, Repository, Selector,
    ports::protocol,
    rule::{Clause, PortMatch},
};
use crate::model::{Direction, Labels};

/// Clauses of one direction and port, as Cilium's REST shows an endpoint's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DerivedFilter {
    /// The way the packet goes.
    pub direction: Direction,
    /// Port, 0 for every port; for ICMP the type.
    pub port: u16,
    /// Last port of a range.
    pub end_port: Option<u16>,
    /// A port's name.
    pub port_name: Option<String>,
    /// `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, `ANY`.
    pub protocol: String,
    /// Whether the clauses deny.
    pub deny: bool,
    /// Selectors of the peers in Cilium's notation, each with the clauses that name it.
    pub selectors: BTreeMap<String, BTreeSet<ClauseOrigin>>,
}

impl DerivedFilter {
    /// The clauses behind it.
    pub fn origins(&self) -> BTreeSet<&ClauseOrigin> {
        self.selectors.values().flatten().collect()
    }
}

impl ClauseOrigin {
    /// Cilium's labels for a rule read from a directory.
    pub fn labels(&self) -> Vec<String> {
        let policy = &self.policy;
        let mut labels = vec![
            format!("directory:filename={}", self.source),
            format!("directory:io.cilium.k8s.policy.name={}", policy.name),
            format!("directory:policy-derived-from={}", policy.kind),
        ];
        if let Some(namespace) = &policy.namespace {
            labels.push(format!("directory:io.cilium.k8s.policy.namespace={namespace}"));
        }
        labels.sort();
        labels
    }
}

/// Direction, denial, protocol, first and last port, name.
type FilterKey<'a> = (Direction, bool, u8, u16, u16, Option<&'a str>);

impl Repository {
    /// The clauses that are about an endpoint with these labels, by direction and port.
    pub fn derived(&self, labels: &Labels) -> Vec<DerivedFilter> {
        let mut filters: BTreeMap<FilterKey<'_>, DerivedFilter> = BTreeMap::new();
        let clauses = self.rules_for(labels).flat_map(|rule| &rule.clauses);
        // What passes on allows nothing and denies nothing.
        for clause in clauses.filter(|clause| clause.action != ClauseAction::Pass) {
            for place in places(clause) {
                let filter = filters.entry(place).or_insert_with(|| filter(place));
                for selector in selectors(clause) {
                    let origins = filter.selectors.entry(selector).or_default();
                    origins.insert(ClauseOrigin::clone(&clause.origin));
                }
            }
        }
        filters.into_values().filter(|filter| !filter.selectors.is_empty()).collect()
    }
}

fn places(clause: &Clause) -> Vec<FilterKey<'_>> {
    let (direction, deny) = (clause.direction, clause.action == ClauseAction::Deny);
    let ClausePorts::Of(ports) = &clause.ports else {
        return vec![(direction, deny, 0, 0, u16::MAX, None)];
    };
    let place = |port| match port {
        &PortMatch::Range(range) => {
            (direction, deny, range.protocol, range.first, range.last, None)
        }
        PortMatch::Named { name, protocol } => {
            (direction, deny, *protocol, 0, 0, Some(name.as_str()))
        }
    };
    ports.iter().map(place).collect()
}

fn filter((direction, deny, number, first, last, name): FilterKey<'_>) -> DerivedFilter {
    let whole = (first, last) == (0, u16::MAX);
    DerivedFilter {
        direction,
        port: first,
        end_port: (first != last && !whole).then_some(last),
        port_name: name.map(str::to_owned),
        protocol: protocol::name(number),
        deny,
        selectors: BTreeMap::new(),
    }
}

fn selectors(clause: &Clause) -> Vec<String> {
    match &clause.peers {
        ClausePeers::Any => vec![Selector::default().to_string()],
        ClausePeers::Of(peers) => peers.iter().map(ToString::to_string).collect(),
    }
}
