//! The policies in force, by source: how documents replace earlier ones, and whom a change
//! touches. Documents are read by the parser, rows are made by the resolver.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{
    Bound, ClausePeers, Departure, Enforcement, IdentityView, KnownServices, MissingGroup,
    MissingService, Peer, Policy, PolicyError, PolicyName, PolicySettings, RefusedDocument,
    ServiceName, Subject, Unsupported,
    error::twice,
    groups::Groups,
    parse::{self, parse},
    rule::{Clause, Rule},
};
use crate::{
    model::{ApiObject, Families, Labels},
    ports::AgentNews,
};

/// What a source holds.
#[derive(Clone, Debug, Default)]
struct SourcePolicies {
    policies: BTreeMap<PolicyName, Policy>,
    rejected: Vec<RefusedDocument>,
    /// Whether any of these policies names groups of prefixes, or services.
    names_others: bool,
}

impl SourcePolicies {
    /// Whether a clause of it may mean one of these services.
    fn names_any(&self, services: &BTreeSet<ServiceName>) -> bool {
        self.names_others && self.policies.values().any(|policy| policy.names_any(services))
    }

    /// Puts in what groups and services come to; the policies that changed by it, before and after.
    fn resolve(&mut self, groups: &Groups, services: &KnownServices) -> Vec<(Policy, &Policy)> {
        let mut changed = Vec::new();
        for policy in self.policies.values_mut().filter(|policy| policy.names_others()) {
            let before = policy.clone();
            let regrouped = policy.resolve_groups(groups);
            if policy.resolve_services(services) || regrouped {
                changed.push((before, &*policy));
            }
        }
        changed
    }
}

/// All policies in force and the groups that they name, by the source that they come from.
#[derive(Clone, Debug)]
pub struct Repository {
    settings: PolicySettings,
    /// Shared with the repository of before a change: that goes on being in force meanwhile.
    sources: BTreeMap<String, Arc<SourcePolicies>>,
    revision: u64,
}

/// What became of a source's documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Policies that were understood.
    pub accepted: Vec<PolicyName>,
    /// Documents that were not. An earlier version of the same object stays in force.
    pub rejected: Vec<PolicyError>,
    /// Parts of accepted policies that are not supported yet.
    pub unsupported: Vec<Unsupported>,
    /// Whether anything that is in force is now different.
    pub changed: bool,
    /// Subjects of the policies that are different, before and after.
    subjects: BTreeSet<Bound>,
    /// Whether every endpoint may have got another policy.
    everyone: bool,
}

impl ApplyReport {
    /// Whether an endpoint with these labels may have got another policy.
    pub fn touches(&self, labels: &Labels) -> bool {
        self.everyone || self.subjects.iter().any(|subject| subject.includes(labels))
    }

    /// Also says what became of another source.
    pub(super) fn join(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.rejected.extend(other.rejected);
        self.unsupported.extend(other.unsupported);
        self.changed |= other.changed;
        self.subjects.extend(other.subjects);
        self.everyone |= other.everyone;
    }

    fn changed(&mut self, policy: Option<&Policy>) {
        self.changed = true;
        let rules = policy.into_iter().flat_map(|policy| &policy.rules);
        self.subjects.extend(rules.filter_map(|rule| rule.subject.clone()));
    }
}

/// A port's name that none of those concerned has: the clause is about no port by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnresolvedPort {
    /// The name, lower case.
    pub name: String,
    /// Path of the clause, `spec.ingress[0]`.
    pub path: String,
}

/// How a policy stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// File, or whatever else it comes from.
    pub source: String,
    /// The policy; `None` for a document of which no version is in force.
    pub policy: Option<PolicyName>,
    /// How many endpoints it selects.
    pub selects: usize,
    /// What of it is not supported yet.
    pub unsupported: Vec<Unsupported>,
    /// What of it Cilium 1.19 takes otherwise.
    #[serde(default)]
    pub departures: Vec<Departure>,
    /// Names of ports in it that nobody concerned has.
    pub unresolved_ports: Vec<UnresolvedPort>,
    /// Groups of prefixes that it names and that there are not.
    pub missing_groups: Vec<MissingGroup>,
    /// Services that it names and that there are not.
    pub missing_services: Vec<MissingService>,
    /// Policies of the same tier and priority: which of them is asked first, only the agent says.
    #[serde(default)]
    pub same_priority: Vec<PolicyName>,
    /// Why its newest version was refused; if it selects anything, an older one is in force.
    pub error: Option<PolicyError>,
}

impl PolicyStatus {
    /// Of a document that was refused.
    pub(super) fn refused(source: &str, error: PolicyError) -> Self {
        Self {
            source: source.to_owned(),
            policy: None,
            selects: 0,
            unsupported: Vec::new(),
            departures: Vec::new(),
            unresolved_ports: Vec::new(),
            missing_groups: Vec::new(),
            missing_services: Vec::new(),
            same_priority: Vec::new(),
            error: Some(error),
        }
    }
}

impl Repository {
    /// What became of policies since another state: what is new or another one, and what is gone.
    pub(super) fn news_since(&self, old: &Self) -> Vec<AgentNews> {
        let changed = |of: &BTreeMap<String, Arc<SourcePolicies>>, other: &Self| {
            let mut names = BTreeSet::new();
            for (source, all) in of {
                let there = other.sources.get(source);
                if there.is_some_and(|there| Arc::ptr_eq(there, all)) {
                    continue;
                }
                let same = |policy: &&Policy| {
                    there.and_then(|it| it.policies.get(&policy.name)) == Some(*policy)
                };
                names.extend(
                    all.policies.values().filter(|it| !same(it)).map(|it| &it.name).cloned(),
                );
            }
            names
        };
        let fresh = changed(&self.sources, old);
        let is_there =
            |name: &PolicyName| self.sources.values().any(|it| it.policies.contains_key(name));
        let gone: BTreeSet<_> =
            changed(&old.sources, self).into_iter().filter(|name| !is_there(name)).collect();
        let count = self.sources.values().map(|source| source.policies.len()).sum();
        let news = [(fresh, false), (gone, true)].into_iter();
        let news = news.filter(|(names, _)| !names.is_empty()).map(|(names, deleted)| {
            let labels = names.iter().flat_map(PolicyName::rule_labels).collect();
            AgentNews::Policies { labels, revision: self.revision, count, deleted }
        });
        news.collect()
    }

    /// A repository without policies.
    pub fn new(settings: PolicySettings) -> Self {
        Self { settings, sources: BTreeMap::new(), revision: 1 }
    }

    /// What applies to all policies.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// Counts the changes; starts at 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Endpoints are held to policy at these times.
    pub fn enforce(&mut self, enforcement: Enforcement) -> ApplyReport {
        let changed = self.settings.enforcement != enforcement;
        self.settings.enforcement = enforcement;
        self.revision += u64::from(changed);
        ApplyReport { changed, everyone: changed, ..ApplyReport::default() }
    }

    /// Takes the documents of a source in place of those it had. A document that is refused does
    /// not harm others: an earlier version of it stays in force. Where it cannot be told which
    /// object is refused, every earlier one that is not there any more stays.
    pub fn apply(
        &mut self,
        source: &str,
        documents: &Result<Vec<ApiObject>, String>,
        services: &KnownServices,
    ) -> ApplyReport {
        let mut report = ApplyReport::default();
        let old = self.sources.remove(source).unwrap_or_default();
        let mut new = SourcePolicies::default();
        let (parsed, mut refused) = read(source, documents, &self.settings);
        for policy in parsed {
            if new.policies.contains_key(&policy.name) {
                let (error, meant) = (twice(source, policy.name.to_string()), policy.bounds());
                refused.push(RefusedDocument { name: Some(policy.name), error, meant });
                continue;
            }
            if let Some(error) = self.too_large(source, &policy) {
                let meant = policy.bounds();
                refused.push(RefusedDocument { name: Some(policy.name), error, meant });
                continue;
            }
            report.accepted.push(policy.name.clone());
            report.unsupported.extend(policy.unsupported.iter().cloned());
            new.policies.insert(policy.name.clone(), policy);
        }
        let nameless = refused.iter().any(|refused| refused.name.is_none());
        let named: BTreeSet<_> = refused.iter().filter_map(|it| it.name.as_ref()).collect();
        for (name, policy) in &old.policies {
            let stays = nameless || named.contains(name);
            if stays && !new.policies.contains_key(name) {
                new.policies.insert(name.clone(), policy.clone());
            }
        }
        report.rejected = refused.iter().map(|refused| refused.error.clone()).collect();
        new.rejected = refused;
        new.names_others = new.policies.values().any(Policy::names_others);
        self.replace(source, &old, new, services, &mut report);
        self.revision += u64::from(report.changed);
        report
    }

    /// Why a policy fits no endpoint's map: a rule of it names more prefixes than that has rows. It
    /// would only hold up the others while it is tried in vain.
    fn too_large(&self, source: &str, policy: &Policy) -> Option<PolicyError> {
        let most = self.settings.rows_max as usize;
        let over = policy.rules.iter().find_map(|rule| {
            let mut named = BTreeSet::new();
            rule.clauses.iter().find(|clause| {
                self.prefixes(clause).any(|prefix| named.insert(prefix) && named.len() > most)
            })
        })?;
        Some(PolicyError {
            file: source.to_owned(),
            object: Some(policy.name.to_string()),
            path: over.origin.path.clone(),
            problem: format!(
                "with this the rule names more than {most} prefixes, for which no endpoint's policy \
                 has room"
            ),
            remedy: "name wider ones, or start the agent with a larger --bpf-policy-map-max"
                .to_owned(),
        })
    }

    /// Some of the services are others now.
    pub(super) fn resolve_services(
        &mut self,
        services: &KnownServices,
        changed: &BTreeSet<ServiceName>,
    ) -> ApplyReport {
        let mut report = ApplyReport::default();
        let groups = self.groups();
        for held in self.sources.values_mut().filter(|held| held.names_any(changed)) {
            for (before, after) in Arc::make_mut(held).resolve(&groups, services) {
                report.changed(Some(&before));
                report.changed(Some(after));
            }
        }
        self.revision += u64::from(report.changed);
        report
    }

    /// Has a source hold that, and notes what became another by it.
    fn replace(
        &mut self,
        source: &str,
        old: &SourcePolicies,
        new: SourcePolicies,
        services: &KnownServices,
        report: &mut ApplyReport,
    ) {
        let has_groups =
            |held: &SourcePolicies| held.policies.values().any(|it| it.group.is_some());
        let regroups = has_groups(old) || has_groups(&new);
        let is_empty = new.policies.is_empty() && new.rejected.is_empty();
        let names_others = new.names_others;
        self.sources.insert(source.to_owned(), Arc::new(new));
        if regroups || names_others {
            let groups = self.groups();
            for (name, held) in &mut self.sources {
                let is_other = name != source;
                if is_other && !regroups {
                    continue;
                }
                if !held.names_others {
                    continue;
                }
                for (before, after) in Arc::make_mut(held).resolve(&groups, services) {
                    // What it was itself before, the old one says.
                    if is_other {
                        report.changed(Some(&before));
                        report.changed(Some(after));
                    }
                }
            }
        }
        let new = &self.sources[source].policies;
        for (name, policy) in new {
            let before = old.policies.get(name);
            if before != Some(policy) {
                report.changed(before);
                report.changed(Some(policy));
            }
        }
        for (_, gone) in old.policies.iter().filter(|(name, _)| !new.contains_key(*name)) {
            report.changed(Some(gone));
        }
        if is_empty {
            self.sources.remove(source);
        }
    }

    /// The groups of prefixes of all sources.
    pub(super) fn groups(&self) -> Groups {
        let mut groups = Groups::new();
        for (_, policy) in self.policies() {
            if let Some(group) = &policy.group {
                groups.entry(policy.name.name.clone()).or_insert_with(|| group.clone());
            }
        }
        groups
    }

    /// Each policy in force, with its source.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.sources.iter().flat_map(|(source, held)| {
            held.policies.values().map(move |policy| (source.as_str(), policy))
        })
    }

    /// How each policy stands, given every endpoint and every identity that a peer may have.
    pub fn status(&self, endpoints: &[Subject], view: &IdentityView) -> Vec<PolicyStatus> {
        let mut all = Vec::new();
        let groups = self.groups();
        for (source, held) in &self.sources {
            let mut errors: Vec<_> = held.rejected.iter().map(|it| it.error.clone()).collect();
            for policy in held.policies.values() {
                let object = Some(policy.name.to_string());
                let error = errors.iter().position(|error| error.object == object);
                let selects = endpoints.iter().filter(|it| policy.selects(&it.labels)).count();
                if policy.group.is_some() && error.is_none() {
                    continue;
                }
                all.push(PolicyStatus {
                    source: source.clone(),
                    policy: Some(policy.name.clone()),
                    selects,
                    unsupported: policy.unsupported.clone(),
                    departures: policy.departures(),
                    unresolved_ports: self.unresolved_ports(policy, endpoints, view),
                    missing_groups: policy.missing_groups(&groups),
                    missing_services: policy.missing_services(),
                    same_priority: self.same_priority(policy),
                    error: error.map(|index| errors.remove(index)),
                });
            }
            all.extend(errors.into_iter().map(|error| PolicyStatus::refused(source, error)));
        }
        all
    }

    /// Documents that were refused, and whether an earlier version of each is in force.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&RefusedDocument, bool)> {
        self.sources.values().flat_map(|held| {
            held.rejected.iter().map(|refused| {
                let stays = |name| held.policies.contains_key(name);
                (refused, refused.name.as_ref().is_some_and(stays))
            })
        })
    }

    /// Whether any policy selects an endpoint with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.policies().any(|(_, policy)| policy.selects(labels))
    }

    /// Every prefix that needs an identity of its own, exceptions included. All of a family is
    /// none of them: that is the world.
    pub fn cidrs(&self) -> BTreeSet<IpNet> {
        let clauses = self.rules().flat_map(|rule| &rule.clauses);
        clauses.flat_map(|clause| self.prefixes(clause)).collect()
    }

    /// Those of one clause, one after the other.
    fn prefixes(&self, clause: &Clause) -> impl Iterator<Item = IpNet> {
        let peers = match &clause.peers {
            ClausePeers::Any => None,
            ClausePeers::Of(peers) => Some(peers),
        };
        let nets = peers.into_iter().flatten().flat_map(Peer::cidrs);
        let nets = nets.flat_map(|cidr| std::iter::once(&cidr.net).chain(&cidr.except));
        let Families { ipv4, ipv6 } = self.settings.families;
        let enabled = move |net: &&IpNet| if net.addr().is_ipv4() { ipv4 } else { ipv6 };
        nets.filter(enabled).filter(|net| net.prefix_len() > 0).copied()
    }

    /// All rules, in the order of their sources and names.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.policies().flat_map(|(_, policy)| &policy.rules)
    }

    /// Those for an endpoint with these labels.
    pub(super) fn rules_for<'a>(&'a self, labels: &Labels) -> impl Iterator<Item = &'a Rule> {
        self.rules().filter(|rule| rule.selects(labels))
    }
}

impl Policy {
    /// Whether a clause of it names what other objects say.
    fn names_others(&self) -> bool {
        self.names_groups() || self.names_services()
    }

    /// Whether one of its rules is for an endpoint with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.rules.iter().any(|rule| rule.selects(labels))
    }

    /// Whom its rules are for.
    fn bounds(&self) -> Vec<Bound> {
        self.rules.iter().filter_map(|rule| rule.subject.clone()).collect()
    }
}

impl Rule {
    /// Whether it is for an endpoint with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.subject.as_ref().is_some_and(|subject| subject.includes(labels))
    }
}

fn read(
    source: &str,
    documents: &Result<Vec<ApiObject>, String>,
    settings: &PolicySettings,
) -> (Vec<Policy>, Vec<RefusedDocument>) {
    let (mut policies, mut refused) = (Vec::new(), Vec::new());
    match documents {
        Err(problem) => refused.push(unreadable(source, problem)),
        Ok(documents) => {
            for read in documents.iter().flat_map(|it| parse(source, it, settings)) {
                match read {
                    Ok(policy) => policies.push(policy),
                    Err(error) => refused.push(error),
                }
            }
        }
    }
    (policies, refused)
}

fn unreadable(source: &str, problem: &str) -> RefusedDocument {
    let error = PolicyError {
        file: source.to_owned(),
        object: None,
        path: String::new(),
        problem: problem.to_owned(),
        remedy: "correct the file; what it said before stays in force".to_owned(),
    };
    RefusedDocument { name: None, error, meant: parse::anybody() }
}
