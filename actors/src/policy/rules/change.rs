//! A change of the rules, step by step, in the order that never denies what stays allowed:
//!
//! 1. prefixes that are new get their numbers;
//! 2. every endpoint knows them, still by the old rules; then the ipcache maps them: their packets
//!    meet the verdicts of before;
//! 3. every endpoint enforces the new rules, which name them;
//! 4. the ipcache forgets those that no rule names;
//! 5. policies forget those too, and their numbers are given back.
//!
//! The first rules of an agent's life have no old ones before them: what endpoints enforce then is
//! what an earlier life left in the kernel, and all that is known of that is its rows. A packet of
//! a new prefix comes, until that is mapped, under the identity of the longest prefix around it
//! that is mapped already, or as the world. So in step 2 the new prefix inherits: the rows of that
//! identity are written once more for its number, which no packet carries yet. When it is mapped,
//! its packets meet the verdicts of before, and the rest goes on as ever. Prefixes that are mapped
//! from the start count as named by old rules: the new rules know them until no endpoint has the
//! old ones, and the ipcache forgets them then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    ApplyReport, PeerFacts, Policies, Touched,
    actor::{ENFORCE_PATIENCE, policies_of},
    answers::PolicyAnswer,
    messages::{Behind, PrefixChange},
};
use crate::{
    host::{AskError, Cx},
    model::{Families, IdentityId, Manifest},
    policy::{
        identity::{IdentityError, IdentityMsg, reserved::prefix_labels},
        ipcache::{IpcacheEntry, IpcacheMsg, Source},
        rules::{Awaited, Heirs, Inherited, PolicyNews, Reached},
    },
    ports::KernelError,
};

/// How long another supervisor may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// After that long a change that could not be finished is taken up again.
const RETRY: Duration = Duration::from_secs(2);
/// How often new prefixes may fail to be known or mapped before the rules are enforced all the
/// same: rules that deny must not wait for ever.
const REFUSALS_MAX: u8 = 8;

type Numbers = Result<Result<BTreeMap<IpNet, IdentityId>, IdentityError>, AskError>;

impl Policies {
    pub(super) fn manifests(&mut self, cx: &mut Cx<'_, Self>, manifests: Vec<Manifest>) {
        self.known.changes.push_back(manifests);
        if self.known.change.is_none() {
            self.next_change(cx);
        }
    }

    fn next_change(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(manifests) = self.known.changes.pop_front() else { return self.answer_idle() };
        let mut all = ApplyReport::default();
        // The old rules are in force until every prefix of the new ones has its number.
        let mut rules = self.known.repository.clone();
        let cluster = rules.settings().cluster.as_deref();
        let mut served = BTreeSet::new();
        for Manifest { source, objects } in &manifests {
            served.extend(self.known.services.apply(source, objects, cluster));
        }
        for manifest in manifests {
            let documents = manifest.objects.map(policies_of);
            let report = rules.apply(&manifest.source, &documents, &self.known.services);
            for error in &report.rejected {
                tracing::error!(file = %manifest.source, %error, "policy refused");
            }
            for part in &report.unsupported {
                tracing::warn!(file = %manifest.source, %part, "policy is not wholly supported");
            }
            all.join(report);
        }
        all.join(rules.resolve_services(&self.known.services, &served));
        if all.changed || !self.known.ready {
            let rules = Some((rules, all));
            self.known.change = Some(PrefixChange { rules, ..PrefixChange::default() });
            self.number(cx);
        } else {
            // The same rules; what was refused, and why, may be other words.
            self.known.repository = rules;
            self.next_change(cx);
        }
    }

    /// Goes on behind a crash: the answer that a change waited for died with the life before, and so
    /// did the timer for what one could not finish.
    pub(super) fn resume(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(newest) = self.known.behind.last() {
            let revision = newest.revision;
            self.await_enforced(cx, revision, Touched::default(), Awaited::All);
        }
        match self.known.change {
            Some(_) => self.number(cx),
            None if self.known.ready => self.retry(cx),
            None => {}
        }
    }

    /// Asks for numbers of all prefixes that rules name or named.
    fn number(&mut self, cx: &mut Cx<'_, Self>) {
        let known = &mut *self.known;
        let Some(change) = &mut known.change else { return };
        change.put_off = false;
        change.wanted = change.rules.as_ref().map_or(&known.repository, |(rules, _)| rules).cidrs();
        let all = change.wanted.iter().chain(known.prefixes.keys()).copied().collect();
        let identities = self.peers.identities.clone();
        cx.ask(
            &identities,
            PATIENCE,
            "identities of the prefixes that rules name",
            |reply| IdentityMsg::Prefixes { wanted: all, reply },
            PolicyAnswer::Numbered,
        );
    }

    pub(super) fn numbered(&mut self, cx: &mut Cx<'_, Self>, answer: Numbers) {
        let numbers = match answer {
            Ok(Ok(numbers)) => numbers,
            Ok(Err(error)) => return self.later(cx, &error.to_string()),
            Err(error) => return self.later(cx, &error.to_string()),
        };
        let families = self.known.repository.settings().families;
        let mut renumbered = false;
        for (&prefix, &id) in &numbers {
            let before = self.known.prefixes.get(&prefix);
            if let Some(&other) = before.filter(|before| **before != id) {
                self.known.view.remove(other);
                renumbered = true;
            }
            renumbered |= self.known.view.insert(id, prefix_facts(prefix, families));
        }
        let known = &mut *self.known;
        let Some(change) = &mut known.change else { return };
        change.renumbered |= renumbered;
        change.stale = numbers
            .iter()
            .filter(|(prefix, _)| !change.wanted.contains(prefix))
            .map(|(&prefix, &id)| (prefix, id))
            .collect();
        let before = &known.prefixes;
        let new = change.wanted.iter().filter_map(|prefix| numbers.get_key_value(prefix));
        change
            .unmapped
            .extend(new.filter(|(prefix, id)| before.get(prefix) != Some(id)).map(|it| *it.1));
        let prepares = change.rules.is_some() && !change.unmapped.is_empty();
        known.prefixes = numbers;
        match (prepares, self.known.ready) {
            (true, true) => self.prepare(cx),
            (true, false) => self.bequeath(cx),
            (false, _) => self.enforce(cx),
        }
    }

    /// What an earlier life left in the kernel learns of the new prefixes.
    fn bequeath(&mut self, cx: &mut Cx<'_, Self>) {
        let heirs = Arc::new(self.heirs());
        if heirs.is_empty() {
            return self.map(cx, PolicyAnswer::Premapped);
        }
        let endpoints = self.peers.endpoints.clone();
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "policies of an earlier life to know the new prefixes",
            |reply| PolicyNews::Inherit { heirs, reply },
            PolicyAnswer::Bequeathed,
        );
    }

    /// The numbers of prefixes that are not mapped yet, each with that of what its packets are now.
    fn heirs(&self) -> Heirs {
        let families = self.known.repository.settings().families;
        let mapped = &self.known.inherited;
        let around = |prefix: &IpNet| {
            let lengths = (0..=prefix.prefix_len()).rev();
            let mut wider = lengths
                .filter_map(|length| IpNet::new(prefix.addr(), length).ok())
                .map(|it| it.trunc());
            let nearest = wider.find_map(|wider| mapped.get(&wider).copied());
            nearest.or(families.world(prefix.addr().is_ipv4())).unwrap_or(IdentityId::WORLD)
        };
        let all = self.known.prefixes.iter().map(|(prefix, &id)| (id, around(prefix)));
        all.filter(|(id, now)| id != now).collect()
    }

    pub(super) fn bequeathed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Inherited, AskError>,
    ) {
        let error = match answer {
            Ok(Ok(())) => return self.map(cx, PolicyAnswer::Premapped),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.unprepared(cx, &error);
    }

    /// Some endpoints do not know the new prefixes. What these deny by a wider prefix would pass if
    /// the new ones were mapped.
    fn unprepared(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        if self.refused() {
            return self.later(cx, error);
        }
        tracing::warn!(error, "not every endpoint knows the new prefixes yet; going on");
        self.map(cx, PolicyAnswer::Premapped);
    }

    /// Counts one more refusal; whether the change is to be tried again as it is.
    fn refused(&mut self) -> bool {
        let Some(change) = &mut self.known.change else { return false };
        let again = change.refusals < REFUSALS_MAX;
        change.refusals += u8::from(again);
        again
    }

    /// The old rules learn of the new prefixes, whose packets go on meeting the verdicts of before
    /// when they are mapped.
    fn prepare(&mut self, cx: &mut Cx<'_, Self>) {
        let touched = self.recompute(|_| true);
        let change = self.known.change.as_ref();
        let strangers = change.map(|change| change.unmapped.clone()).unwrap_or_default();
        let (endpoints, revision) = (self.peers.endpoints.clone(), self.known.revision);
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to know the new prefixes",
            |reply| PolicyNews::PolicyChanged {
                revision,
                touched,
                strangers,
                awaited: Awaited::Able,
                reply,
            },
            PolicyAnswer::Prepared,
        );
    }

    pub(super) fn prepared(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Reached, AskError>) {
        match answer {
            Ok(_) => self.map(cx, PolicyAnswer::Premapped),
            Err(error) => self.unprepared(cx, &error.to_string()),
        }
    }

    pub(super) fn premapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        if !matches!(answer, Ok(Ok(()))) && self.refused() {
            return self.later(cx, "prefixes are not in the ipcache");
        }
        if let Some(change) = &mut self.known.change {
            change.unmapped.clear();
        }
        self.enforce(cx);
    }

    /// The new rules are in force from now on. Nobody's change waits for those who do not come to
    /// enforce it: only what the rules before may name stays as it is meanwhile.
    fn enforce(&mut self, cx: &mut Cx<'_, Self>) {
        // Where peers are what they were, a policy changes by its own rules only.
        let (mut report, mut before, mut ruled) = (None, None, false);
        let known = &mut *self.known;
        if let Some(change) = &mut known.change
            && let Some((rules, changed)) = change.rules.take()
        {
            let old = std::mem::replace(&mut known.repository, rules);
            (before, ruled) = (known.ready.then_some(old), true);
            report = (!change.renumbered).then_some(changed);
        }
        let mut touched = self.recompute(|subject| {
            report.as_ref().is_none_or(|report| report.touches(&subject.labels))
        });
        touched.labels.append(&mut self.known.keeping);
        self.become_ready();
        if ruled || !touched.labels.is_empty() {
            let revision = self.known.revision;
            self.known.fall_behind(Behind { revision, rules: before, by_most: false });
            self.await_enforced(cx, revision, touched, Awaited::All);
        }
        self.map(cx, PolicyAnswer::Mapped);
    }

    /// Waits until endpoints enforce what they are told here, or were told before.
    fn await_enforced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        revision: u64,
        touched: Touched,
        awaited: Awaited,
    ) {
        let endpoints = self.peers.endpoints.clone();
        let strangers = BTreeSet::new();
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to enforce the new rules",
            |reply| PolicyNews::PolicyChanged { revision, touched, strangers, awaited, reply },
            move |answer| PolicyAnswer::Enforced { revision, answer },
        );
    }

    /// A change cannot be finished now; what was in force stays so.
    fn later(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        tracing::error!(error, "policy change waits");
        if let Some(change) = &mut self.known.change {
            change.put_off = true;
        }
        // For everyone to see. Answered by nobody: its deadline is what is waited for.
        let why = format!("a change of the rules to be tried again, in {RETRY:?}: {error}");
        self.pause = Some(cx.expect("rules", RETRY, why, |_| PolicyAnswer::Retry));
    }

    pub(super) fn enforced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        revision: u64,
        answer: Result<Reached, AskError>,
    ) {
        if let Ok(Reached::Everyone) = answer {
            self.known.behind.retain(|behind| behind.revision > revision);
            self.retry(cx);
            return self.answer_idle();
        }
        if let Err(error) = answer {
            tracing::warn!(revision, %error, "not every endpoint enforces the new rules yet");
        }
        for behind in self.known.behind.iter_mut().filter(|behind| behind.revision <= revision) {
            behind.by_most = true;
        }
        self.answer_idle();
        if self.known.behind.last().is_some_and(|newest| newest.revision == revision) {
            self.await_enforced(cx, revision, Touched::default(), Awaited::Everyone);
        }
    }

    /// Has the wanted prefixes mapped to their identities.
    fn map(
        &mut self,
        cx: &mut Cx<'_, Self>,
        then: fn(Result<Result<(), KernelError>, AskError>) -> PolicyAnswer,
    ) {
        let Some(change) = &self.known.change else { return };
        let entry = |id: IdentityId| IpcacheEntry::of(id, Source::Policy);
        let entries = self
            .known
            .prefixes
            .iter()
            .filter(|(prefix, _)| change.wanted.contains(prefix))
            .map(|(&prefix, &id)| (prefix, entry(id)))
            .collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            "prefixes in the ipcache",
            |reply| IpcacheMsg::Upsert { entries, reply },
            then,
        );
    }

    pub(super) fn mapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        // The ipcache goes on trying behind its answer.
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "prefixes are not in the ipcache yet"),
            Err(error) => tracing::error!(%error, "prefixes are not in the ipcache yet"),
        }
        let Some(change) = &self.known.change else { return };
        if change.stale.is_empty() {
            return self.end_change(cx);
        }
        if !self.known.behind.is_empty() {
            // The rules of before may name them still: what these deny must not become the world's.
            // They go once everyone enforces others.
            return self.end_change(cx);
        }
        let prefixes = change.stale.keys().copied().collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            "prefixes that no rule names to leave the ipcache",
            |reply| IpcacheMsg::Remove { prefixes, source: Source::Policy, reply },
            PolicyAnswer::Unmapped,
        );
    }

    pub(super) fn unmapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        if !matches!(answer, Ok(Ok(()))) {
            // Packets may still come with these identities: rows for them stay.
            tracing::warn!(?answer, "prefixes that no rule names are still in the ipcache");
            cx.after(RETRY, PolicyAnswer::Retry);
            return self.end_change(cx);
        }
        let Some(change) = &mut self.known.change else { return };
        let stale = std::mem::take(&mut change.stale);
        let wanted = change.wanted.clone();
        for id in stale.values() {
            self.known.view.remove(*id);
        }
        let touched = self.recompute(|_| true);
        self.announce(cx, touched);
        let identities = self.peers.identities.clone();
        cx.ask(
            &identities,
            PATIENCE,
            "to give back identities of prefixes",
            |reply| IdentityMsg::Prefixes { wanted, reply },
            PolicyAnswer::Returned,
        );
    }

    pub(super) fn returned(&mut self, cx: &mut Cx<'_, Self>, answer: Numbers) {
        match answer {
            Ok(Ok(numbers)) => self.known.prefixes = numbers,
            // They are given back with the next change.
            Ok(Err(error)) => tracing::warn!(%error, "identities of prefixes are still taken"),
            Err(error) => tracing::warn!(%error, "identities of prefixes are still taken"),
        }
        self.end_change(cx);
    }

    /// Takes up what could not be finished.
    pub(super) fn retry(&mut self, cx: &mut Cx<'_, Self>) {
        // What a new pause lets go of ends at once.
        if self.pause.as_ref().is_some_and(|pause| !pause.is_closed()) {
            return;
        }
        let wanted = self.known.repository.cidrs();
        match &self.known.change {
            None if self.known.behind.is_empty()
                && self.known.prefixes.keys().any(|prefix| !wanted.contains(prefix)) =>
            {
                self.known.change = Some(PrefixChange::default());
                self.number(cx);
            }
            Some(change) if change.put_off => self.number(cx),
            _ => {}
        }
    }

    pub(super) fn answer_idle(&mut self) {
        let in_force = self.known.behind.iter().all(|behind| behind.by_most);
        let at_rest = self.known.change.is_none() && self.known.changes.is_empty();
        if self.known.ready && at_rest && in_force {
            std::mem::take(&mut self.idle).into_iter().for_each(|reply| reply.send(()));
        }
    }

    fn end_change(&mut self, cx: &mut Cx<'_, Self>) {
        self.known.change = None;
        self.next_change(cx);
    }
}

/// What is known of a prefix.
pub(super) fn prefix_facts(prefix: IpNet, families: Families) -> PeerFacts {
    let labels = Arc::new(prefix_labels(&prefix, families));
    PeerFacts { labels, prefix: Some(prefix), ..PeerFacts::default() }
}
