//! The identities that a peer may have, and the search for those that a clause selects. The
//! numbers come from elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    Selector,
    peer::{CidrMatch, Peer},
    selector::{SelectorKey, Test},
};
use crate::{
    model::{Families, IdentityId, Labels, NamedPorts},
    policy::identity::reserved::prefix_labels,
};

/// What is known of an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFacts {
    /// Its labels.
    pub labels: Arc<Labels>,
    /// The prefix that it stands for, if it stands for one outside the cluster.
    pub prefix: Option<IpNet>,
    /// Names of its pods' ports.
    pub named_ports: Arc<NamedPorts>,
}

/// Every identity that a peer may have, indexed by label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityView {
    known: BTreeMap<IdentityId, PeerFacts>,
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<IdentityId>>>,
    prefixes: BTreeMap<IpNet, IdentityId>,
}

impl IdentityView {
    /// Adds an identity, or changes what is known of it. Answers whether anything is new.
    pub fn insert(&mut self, id: IdentityId, facts: PeerFacts) -> bool {
        if self.known.get(&id) == Some(&facts) {
            return false;
        }
        self.remove(id);
        for label in facts.labels.iter() {
            let values = self.by_label.entry(label.key.clone()).or_default();
            values.entry(label.value.clone()).or_default().insert(id);
        }
        if let Some(prefix) = facts.prefix {
            self.prefixes.insert(prefix, id);
        }
        self.known.insert(id, facts);
        true
    }

    /// Forgets an identity. Answers what was known of it.
    pub fn remove(&mut self, id: IdentityId) -> Option<PeerFacts> {
        let facts = self.known.remove(&id)?;
        if let Some(prefix) = &facts.prefix {
            self.prefixes.remove(prefix);
        }
        for label in facts.labels.iter() {
            let Some(values) = self.by_label.get_mut(&label.key) else { continue };
            if let Some(ids) = values.get_mut(&label.value) {
                ids.remove(&id);
                if ids.is_empty() {
                    values.remove(&label.value);
                }
            }
            if values.is_empty() {
                self.by_label.remove(&label.key);
            }
        }
        Some(facts)
    }

    /// What is known of an identity.
    pub fn get(&self, id: IdentityId) -> Option<&PeerFacts> {
        self.known.get(&id)
    }

    /// A number of exactly these labels.
    pub(super) fn of_labels(&self, labels: &Labels) -> Option<IdentityId> {
        let label = labels.iter().next()?;
        let mut ids = self.by_label.get(&label.key)?.get(&label.value)?.iter();
        ids.find(|id| self.known.get(id).is_some_and(|facts| *facts.labels == *labels)).copied()
    }

    /// Each identity, by number.
    pub fn iter(&self) -> impl Iterator<Item = (IdentityId, &PeerFacts)> {
        self.known.iter().map(|(id, facts)| (*id, facts))
    }

    /// Those that a peer of a clause selects.
    pub(super) fn select(&self, peer: &Peer, families: Families) -> BTreeSet<IdentityId> {
        match peer {
            Peer::Labels(selector) => self.select_labels(selector),
            Peer::Cidr(cidr) => self.select_cidr(cidr, families),
            Peer::Group(group) => {
                group.nets.iter().flat_map(|cidr| self.select_cidr(cidr, families)).collect()
            }
            Peer::Service(service) => {
                service.peers.iter().flat_map(|peer| self.select(peer, families)).collect()
            }
        }
    }

    /// Whether a peer of a clause selects one identity: what [`select`](Self::select) would find,
    /// without a search.
    pub(super) fn is_selected(&self, peer: &Peer, id: IdentityId, families: Families) -> bool {
        let Some(facts) = self.known.get(&id) else { return false };
        let by_cidr = |cidr: &CidrMatch| {
            let whole = cidr.net.prefix_len() == 0;
            let is_world = || families.world(cidr.net.addr().is_ipv4()) == Some(id);
            facts.prefix.as_ref().is_some_and(|prefix| {
                self.prefixes.get(prefix) == Some(&id)
                    && cidr.net.contains(prefix)
                    && cidr.selects(prefix)
            }) || (whole && is_world())
        };
        match peer {
            Peer::Labels(selector) => selector.matches(&facts.labels),
            Peer::Cidr(cidr) => by_cidr(cidr),
            Peer::Group(group) => group.nets.iter().any(by_cidr),
            Peer::Service(service) => {
                service.peers.iter().any(|peer| self.is_selected(peer, id, families))
            }
        }
    }

    fn select_labels(&self, selector: &Selector) -> BTreeSet<IdentityId> {
        let matches = |id: &IdentityId| {
            self.known.get(id).is_some_and(|facts| selector.matches(&facts.labels))
        };
        match self.candidates(selector) {
            Some(ids) => ids.into_iter().flatten().copied().filter(matches).collect(),
            None => self.known.keys().copied().filter(matches).collect(),
        }
    }

    /// The index entries of the requirement that leaves the fewest; `None` if all must be tried.
    fn candidates(&self, selector: &Selector) -> Option<Vec<&BTreeSet<IdentityId>>> {
        let ids = |key: &SelectorKey, value: &String| self.by_label.get(&key.key)?.get(value);
        let exact = selector.labels.iter().map(|(key, value)| Vec::from_iter(ids(key, value)));
        let listed = selector.expressions.iter().filter_map(|requirement| {
            let key = &requirement.key;
            match &requirement.test {
                Test::In(values) => Some(values.iter().filter_map(|v| ids(key, v)).collect()),
                Test::Exists => Some(
                    self.by_label.get(&key.key).into_iter().flat_map(BTreeMap::values).collect(),
                ),
                Test::NotIn(_) | Test::DoesNotExist => None,
            }
        });
        exact.chain(listed).min_by_key(|sets: &Vec<_>| {
            sets.iter().map(|ids: &&BTreeSet<IdentityId>| ids.len()).sum::<usize>()
        })
    }

    fn select_cidr(&self, cidr: &CidrMatch, families: Families) -> BTreeSet<IdentityId> {
        // Sorted by address, then by length: the parts of a prefix lie between its ends.
        let (first, last) = (cidr.net.trunc(), IpNet::from(cidr.net.broadcast()));
        let local = self.prefixes.range(first..=last);
        let local = local.filter(|(prefix, _)| cidr.selects(prefix));
        let whole = cidr.net.prefix_len() == 0;
        let world = whole.then(|| families.world(cidr.net.addr().is_ipv4())).flatten();
        let world = world.filter(|id| self.known.contains_key(id));
        local.map(|(_, id)| *id).chain(world).collect()
    }
}

/// What is known of a prefix.
pub(super) fn prefix_facts(prefix: IpNet, families: Families) -> PeerFacts {
    let labels = Arc::new(prefix_labels(&prefix, families));
    PeerFacts { labels, prefix: Some(prefix), ..PeerFacts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rules::selector::Requirement;

    fn view() -> IdentityView {
        let mut view = IdentityView::default();
        for (id, labels) in [
            (1, vec!["reserved:host"]),
            (256, vec!["k8s:app=web", "k8s:tier=front"]),
            (257, vec!["k8s:app=web", "k8s:tier=back"]),
            (258, vec!["k8s:app=db"]),
        ] {
            let labels = Arc::new(Labels::parse(labels).unwrap());
            view.insert(IdentityId(id), PeerFacts { labels, ..PeerFacts::default() });
        }
        view
    }

    fn selected(view: &IdentityView, selector: &Selector) -> Vec<u32> {
        view.select_labels(selector).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn the_index_finds_what_a_scan_finds() {
        let view = view();
        let app = || SelectorKey::parse("app");
        let expression = |test| Selector {
            expressions: vec![Requirement { key: app(), test }],
            ..Selector::default()
        };
        let values = || BTreeSet::from(["web".to_owned(), "db".to_owned()]);
        assert_eq!(selected(&view, &Selector::label(app(), "web")), [256, 257]);
        assert_eq!(selected(&view, &Selector::label(app(), "mail")), [0u32; 0]);
        assert_eq!(selected(&view, &expression(Test::In(values()))), [256, 257, 258]);
        assert_eq!(selected(&view, &expression(Test::NotIn(values()))), [1]);
        assert_eq!(selected(&view, &expression(Test::Exists)), [256, 257, 258]);
        assert_eq!(selected(&view, &expression(Test::DoesNotExist)), [1]);
        assert_eq!(selected(&view, &Selector::default()), [1, 256, 257, 258]);
    }

    #[test]
    fn a_removed_identity_leaves_nothing_behind() {
        let mut view = view();
        for id in [1, 256, 257, 258] {
            assert!(view.remove(IdentityId(id)).is_some());
        }
        assert_eq!(view, IdentityView::default());
    }
}
