//! Ports that policies call by the names that pods give them.

use std::collections::BTreeSet;

use super::{
    ClausePeers, IdentityView, Policy, Repository, Subject, repository::UnresolvedPort,
    rule::Clause,
};
use crate::model::{Direction, NamedPorts};

/// The numbers that ports of that name and protocol have.
pub(super) fn numbers(ports: &NamedPorts, name: &str, protocol: u8) -> impl Iterator<Item = u16> {
    let all = ports.get(name).into_iter().flatten();
    all.filter(move |(of, _)| *of == protocol).map(|(_, port)| *port)
}

impl Repository {
    /// Names of ports in a policy that nobody has: of the endpoints that it is for where they
    /// receive, of their peers where they send. A policy that is for no endpoint asks nobody.
    pub(super) fn unresolved_ports(
        &self,
        policy: &Policy,
        endpoints: &[Subject],
        view: &IdentityView,
    ) -> Vec<UnresolvedPort> {
        let mut unresolved = BTreeSet::new();
        for rule in &policy.rules {
            let selected: Vec<_> = endpoints.iter().filter(|it| rule.selects(&it.labels)).collect();
            for clause in rule.clauses.iter().filter(|_| !selected.is_empty()) {
                let receivers: Vec<&NamedPorts> = match clause.direction {
                    Direction::Ingress => selected.iter().map(|it| &it.named_ports).collect(),
                    Direction::Egress => self.ports_of_peers(clause, view),
                };
                // A name without a protocol stands for it in each: that of one is enough.
                let has = |(name, protocol): &(&str, u8)| {
                    receivers.iter().any(|ports| numbers(ports, name, *protocol).next().is_some())
                };
                let known: BTreeSet<&str> =
                    clause.port_names().filter(has).map(|(name, _)| name).collect();
                let unknown = clause.port_names().filter(|(name, _)| !known.contains(name));
                unresolved.extend(unknown.map(|(name, _)| UnresolvedPort {
                    name: name.to_owned(),
                    path: clause.origin.path.clone(),
                }));
            }
        }
        unresolved.into_iter().collect()
    }

    fn ports_of_peers<'a>(&self, clause: &Clause, view: &'a IdentityView) -> Vec<&'a NamedPorts> {
        match &clause.peers {
            ClausePeers::Any => view.iter().map(|(_, facts)| &*facts.named_ports).collect(),
            ClausePeers::Of(peers) => {
                let families = self.settings().families;
                let ids = peers.iter().flat_map(|peer| view.select(peer, families));
                ids.filter_map(|id| view.get(id)).map(|facts| &*facts.named_ports).collect()
            }
        }
    }
}
