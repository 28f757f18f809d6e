//! Policies of many endpoints at once, with the work shared between them; and which rules a change
//! of peers concerns.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ClausePeers, IdentityView, PeerFacts, Repository, Resolved, Subject,
    peer::Peer,
    resolve::{Selections, resolve},
    rule::{ClausePorts, PortMatch, Rule},
    rule_index::RuleIndex,
};
use crate::model::NamedPorts;

/// What a policy depends on: addresses of the rules, names of ports, whether labels are known.
type Cause = (Vec<usize>, NamedPorts, bool);

/// Resolves the policies of many endpoints. Endpoints for which the same rules are written share
/// one result, and what a clause selects is looked up once.
pub struct Resolver<'a> {
    repository: &'a Repository,
    rules: RuleIndex<'a>,
    selections: Selections<'a>,
    known: BTreeMap<Cause, Arc<Resolved>>,
}

impl<'a> Resolver<'a> {
    /// The policy of an endpoint.
    pub fn resolve(&mut self, subject: &Subject) -> Arc<Resolved> {
        let rules = self.rules.of(&subject.labels);
        let init = subject.labels.has_reserved("init");
        let addresses = rules.iter().map(|rule| std::ptr::from_ref(*rule).addr()).collect();
        let cause = (addresses, subject.named_ports.clone(), init);
        let (selections, repository) = (&mut self.selections, self.repository);
        self.known
            .entry(cause)
            .or_insert_with(|| {
                let resolved = resolve(repository.settings(), &rules, subject, selections);
                Arc::new(Resolved { revision: repository.revision(), ..resolved })
            })
            .clone()
    }
}

impl Repository {
    /// Resolves the policies of many endpoints, given every identity that a peer may have.
    pub fn resolver<'a>(&'a self, view: &'a IdentityView) -> Resolver<'a> {
        Resolver {
            repository: self,
            rules: RuleIndex::new(self.rules()),
            selections: Selections::new(view),
            known: BTreeMap::new(),
        }
    }

    /// The policy of one endpoint.
    pub fn resolve(&self, subject: &Subject, view: &IdentityView) -> Resolved {
        let resolved = self.resolver(view).resolve(subject);
        Arc::unwrap_or_clone(resolved)
    }

    /// The rules by which a policy changes when one of these peers comes, goes or becomes another:
    /// those with a clause that selects it by name.
    pub(super) fn concerned<'a>(&'a self, peers: &[PeerFacts]) -> Vec<&'a Rule> {
        self.rules().filter(|rule| peers.iter().any(|peer| rule.names(peer))).collect()
    }
}

impl Rule {
    fn names(&self, peer: &PeerFacts) -> bool {
        self.clauses.iter().any(|clause| match &clause.peers {
            ClausePeers::Any => clause.ports.has_names() && !peer.named_ports.is_empty(),
            ClausePeers::Of(peers) => peers.iter().any(|desired| desired.selects(peer)),
        })
    }
}

impl Peer {
    fn selects(&self, peer: &PeerFacts) -> bool {
        match self {
            Self::Labels(selector) => selector.matches(&peer.labels),
            Self::Cidr(cidr) => peer.prefix.as_ref().is_some_and(|net| cidr.selects(net)),
            Self::Group(group) => {
                let prefix = peer.prefix.as_ref();
                prefix.is_some_and(|net| group.nets.iter().any(|cidr| cidr.selects(net)))
            }
            Self::Service(service) => service.peers.iter().any(|it| it.selects(peer)),
        }
    }
}

impl ClausePorts {
    fn has_names(&self) -> bool {
        let named = |port: &PortMatch| matches!(port, PortMatch::Named { .. });
        matches!(self, Self::Of(ports) if ports.iter().any(named))
    }
}
