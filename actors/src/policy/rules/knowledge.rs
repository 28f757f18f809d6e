//! The state of the policy owner that survives a crash: rules, identities, computed policies and
//! changes that wait.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    EndpointPolicy, Enforcement, IdentityView, KnownServices, PeerFacts, Repository, Resolved,
    Resolver, Subject, change::PrefixChange, identities::prefix_facts, users::IdentityUsers,
};
use crate::model::{IdentityId, Labels, Manifest, NamedPorts};

/// Of more changes that an endpoint does not enforce, not all rules before them are kept.
const BEHIND_MAX: usize = 8;

/// What outlives a crash of the owner: rules, and what they select.
pub(super) struct Knowledge {
    pub(super) repository: Repository,
    /// What rules name by services. Those in force hold what these came to.
    pub(super) services: KnownServices,
    pub(super) view: IdentityView,
    pub(super) identity_users: IdentityUsers,
    pub(super) revision: u64,
    /// By subject, computed when it was first asked for and again after every change.
    pub(super) computed: BTreeMap<Subject, Computed>,
    /// Changes that wait for the one under way.
    pub(super) changes: VecDeque<RuleChange>,
    /// The change under way.
    pub(super) change: Option<PrefixChange>,
    /// Changes that some endpoints may not enforce yet, the oldest first.
    pub(super) behind: Vec<Behind>,
    /// Prefixes with identities, as the policy knows them.
    pub(super) prefixes: BTreeMap<IpNet, IdentityId>,
    /// Prefixes that an earlier run mapped, with their identities.
    pub(super) inherited: BTreeMap<IpNet, IdentityId>,
    /// Labels of endpoints that keep the policy of an earlier run until the first one is known.
    pub(super) keeping: BTreeSet<Arc<Labels>>,
    /// The first manifests are taken in.
    pub(super) ready: bool,
}

impl Knowledge {
    /// What is known at first: these identities, with names of their ports on other nodes, and
    /// prefixes that an earlier run mapped.
    pub(super) fn new(
        repository: Repository,
        reserved: impl IntoIterator<Item = (IdentityId, Labels)>,
        inherited: BTreeMap<IpNet, IdentityId>,
        named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
    ) -> Self {
        let mut view = IdentityView::default();
        let mut identity_users = IdentityUsers::default();
        identity_users.hear_of_others(named_ports);
        for (id, labels) in reserved {
            let named_ports = identity_users.named_ports(id);
            view.insert(id, PeerFacts { labels: Arc::new(labels), prefix: None, named_ports });
        }
        for (&prefix, &id) in &inherited {
            view.insert(id, prefix_facts(prefix, repository.settings().families));
        }
        Self {
            repository,
            services: KnownServices::default(),
            view,
            identity_users,
            revision: 1,
            computed: BTreeMap::new(),
            changes: VecDeque::new(),
            change: None,
            behind: Vec::new(),
            prefixes: inherited.clone(),
            inherited,
            keeping: BTreeSet::new(),
            ready: false,
        }
    }

    /// Prefixes that rules name, or are about to.
    pub(super) fn desired(&self) -> BTreeSet<IpNet> {
        let coming = self.change.as_ref().and_then(|change| change.rules.as_ref());
        coming.map_or(&self.repository, |(rules, _)| rules).cidrs()
    }

    /// Whether prefixes have numbers that no rule names.
    pub(super) fn has_stale(&self) -> bool {
        let desired = self.repository.cidrs();
        self.prefixes.keys().any(|prefix| !desired.contains(prefix))
    }

    /// Some endpoints may not enforce that change yet. While one never does, changes come and go: it
    /// enforces the rules before the oldest, or the newest that it was told.
    pub(super) fn fall_behind(&mut self, change: Behind) {
        self.behind.push(change);
        if self.behind.len() > BEHIND_MAX {
            self.behind.remove(1);
        }
    }

    /// The labels of subjects whose policy by these rules is another one with these peers.
    pub(super) fn concerned_by(
        &self,
        rules: &Repository,
        peers: &[PeerFacts],
    ) -> BTreeSet<Arc<Labels>> {
        let rules = rules.concerned(peers);
        let subjects = self.computed.keys();
        let concerned = subjects.filter(|it| rules.iter().any(|rule| rule.selects(&it.labels)));
        concerned.map(|it| Arc::clone(&it.labels)).collect()
    }
}

/// What is to become of the rules.
#[derive(Clone, Debug)]
pub(super) enum RuleChange {
    /// These sources are others.
    Manifests(Vec<Manifest>),
    /// Endpoints are held to policy at other times.
    Enforcement(Enforcement),
}

/// A change of the rules that some endpoints may not enforce yet.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    /// The revision that they are to come to.
    pub(super) revision: u64,
    /// The rules before, if the change was one of the rules and these were this life's.
    pub(super) rules: Option<Repository>,
    /// Whether all do but those that do not answer.
    pub(super) by_most: bool,
}

/// A policy that was computed, with all that is known of it.
#[derive(Clone)]
pub(super) struct Computed {
    pub(super) policy: Arc<EndpointPolicy>,
    pub(super) resolved: Arc<Resolved>,
}

impl Computed {
    /// The policy of an endpoint; rows that are as before stay the same ones.
    pub(super) fn new(
        resolver: &mut Resolver<'_>,
        revision: u64,
        subject: &Subject,
        before: Option<&Self>,
    ) -> Self {
        let resolved = resolver.resolve(subject);
        let before = before.map(|before| &before.policy.rows);
        let rows = before.filter(|before| **before == resolved.rows).unwrap_or(&resolved.rows);
        let policy = EndpointPolicy {
            revision,
            rows: Arc::clone(rows),
            ingress_enforced: resolved.ingress_enforced,
            egress_enforced: resolved.egress_enforced,
        };
        Self { policy: Arc::new(policy), resolved }
    }
}
