//! The policies as people ask for them: as written, and which identities each selector selects.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Bound, ClausePeers, Peer, Policies, Repository, Selector,
    messages::{PolicySelector, WrittenPolicies, WrittenRule},
};
use crate::model::IdentityId;

impl Repository {
    fn written(&self) -> Vec<WrittenRule> {
        self.policies()
            .flat_map(|(source, policy)| {
                policy.written.iter().map(move |value| (source, policy, value))
            })
            .map(|(source, policy, value)| {
                let name = &policy.name;
                let mut labels = BTreeMap::from([
                    ("filename".to_owned(), source.to_owned()),
                    ("io.cilium.k8s.policy.name".to_owned(), name.name.clone()),
                    ("policy-derived-from".to_owned(), name.kind.to_string()),
                ]);
                if let Some(namespace) = &name.namespace {
                    labels.insert("io.cilium.k8s.policy.namespace".to_owned(), namespace.clone());
                }
                WrittenRule { labels, value: value.clone() }
            })
            .collect()
    }

    fn peers(&self) -> impl Iterator<Item = Peer> {
        let rules = self.policies().flat_map(|(_, policy)| &policy.rules);
        rules.flat_map(|rule| &rule.clauses).flat_map(|clause| match &clause.peers {
            ClausePeers::Any => vec![Peer::Labels(Selector::default())],
            ClausePeers::Of(peers) => peers.clone(),
        })
    }

    fn subjects(&self) -> impl Iterator<Item = Bound> {
        let rules = self.policies().flat_map(|(_, policy)| &policy.rules);
        rules.filter_map(|rule| rule.subject.clone())
    }
}

impl Policies {
    /// Every policy in force, as it was written.
    pub(super) fn written(&self) -> WrittenPolicies {
        WrittenPolicies { revision: self.known.revision, rules: self.known.repository.written() }
    }

    /// Selectors of subjects, or else of peers.
    pub(super) fn selectors(&self, subjects: bool) -> Vec<PolicySelector> {
        if subjects {
            let used = counted(self.known.repository.subjects()).into_iter();
            return used
                .map(|(bound, users)| PolicySelector {
                    identities: self.bound(&bound),
                    selector: bound.selector().to_string(),
                    users,
                })
                .collect();
        }
        let families = self.known.repository.settings().families;
        let used = counted(self.known.repository.peers()).into_iter();
        used.map(|(peer, users)| PolicySelector {
            identities: self.known.view.select(&peer, families),
            selector: peer.to_string(),
            users,
        })
        .collect()
    }

    /// Whom rules for these bind. How the node itself is labelled is not known by its identity.
    fn bound(&self, bound: &Bound) -> BTreeSet<IdentityId> {
        let known = self.known.view.iter().filter(|(_, facts)| bound.includes(&facts.labels));
        let mut subjects = self.known.computed.keys();
        let host = subjects
            .any(|subject| subject.labels.has_reserved("host") && bound.includes(&subject.labels));
        let known = known.map(|(id, _)| id).filter(|id| *id != IdentityId::HOST);
        known.chain(host.then_some(IdentityId::HOST)).collect()
    }
}

/// How often each of them is there.
fn counted<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}
