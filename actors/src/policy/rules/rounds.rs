//! What each round of a change asks, and what it makes of the answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    Policies,
    actor::ENFORCE_PATIENCE,
    answers::PolicyAnswer,
    change::{ChangeRound, ChangeRoundOutcome, Prefixes, RETRY},
    identities::prefix_facts,
    knowledge::Behind,
};
use crate::{
    host::{AskError, Cx},
    model::IdentityId,
    policy::{
        identity::{IdentityError, IdentityMsg},
        ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource},
        rules::{AwaitedEndpoints, InheritResult, PolicyNews, Reached, Successors},
    },
    ports::KernelError,
};

/// How long another supervisor may take.
const PATIENCE: Duration = Duration::from_secs(60);

type PrefixNumbers = Result<Result<BTreeMap<IpNet, IdentityId>, IdentityError>, AskError>;
type Mapped = Result<Result<(), KernelError>, AskError>;

impl Policies {
    /// Asks for what a round is for; false if there is nothing to wait for.
    pub(super) fn ask_for(&mut self, cx: &mut Cx<'_, Self>, round: &ChangeRound) -> bool {
        match round {
            ChangeRound::Number(desired) => self.number(cx, desired),
            ChangeRound::Prepare(_) if self.known.ready => self.prepare(cx),
            ChangeRound::Prepare(_) => return self.prepare_inherited(cx),
            ChangeRound::Premap(prefixes) => self.map(cx, prefixes, PolicyAnswer::Premapped),
            ChangeRound::Enforce(prefixes) => self.enforce(cx, prefixes),
            ChangeRound::Unmap(prefixes) => self.unmap(cx, prefixes),
            ChangeRound::Return(prefixes) => self.give_back(cx, prefixes),
            ChangeRound::Idle | ChangeRound::Pause(_) => {}
        }
        true
    }

    /// Asks for numbers of all prefixes that rules name or named.
    fn number(&mut self, cx: &mut Cx<'_, Self>, desired: &BTreeSet<IpNet>) {
        let all = desired.iter().chain(self.known.prefixes.keys()).copied().collect();
        let identities = self.peers.identities.clone();
        cx.ask(
            &identities,
            PATIENCE,
            "identities of the prefixes that rules name",
            |reply| IdentityMsg::Prefixes { desired: all, reply },
            PolicyAnswer::Numbered,
        );
    }

    pub(super) fn numbered(&mut self, cx: &mut Cx<'_, Self>, answer: PrefixNumbers) {
        let end = match answer {
            Ok(Ok(numbers)) => ChangeRoundOutcome::Numbered(self.take_numbers(numbers)),
            Ok(Err(error)) => ChangeRoundOutcome::Refused(error.to_string()),
            Err(error) => ChangeRoundOutcome::Refused(error.to_string()),
        };
        self.advance(cx, end);
    }

    /// From now on prefixes have these numbers; those of them that no rule names.
    fn take_numbers(
        &mut self,
        numbers: BTreeMap<IpNet, IdentityId>,
    ) -> BTreeMap<IpNet, IdentityId> {
        let ChangeRound::Number(desired) = &self.round else { return BTreeMap::new() };
        let known = &mut *self.known;
        let families = known.repository.settings().families;
        let mut renumbered = false;
        for (&prefix, &id) in &numbers {
            let before = known.prefixes.get(&prefix);
            if let Some(&other) = before.filter(|before| **before != id) {
                known.view.remove(other);
                renumbered = true;
            }
            renumbered |= known.view.insert(id, prefix_facts(prefix, families));
        }
        if let Some(change) = &mut known.change {
            change.renumbered |= renumbered;
            let (before, named) = (&known.prefixes, numbers.iter());
            let named = named.filter(|(prefix, _)| desired.contains(prefix));
            let new = named.filter(|(prefix, id)| before.get(prefix) != Some(id));
            change.unmapped.extend(new.map(|(_, id)| *id));
        }
        let stale = numbers.iter().filter(|(prefix, _)| !desired.contains(prefix));
        let stale = stale.map(|(prefix, id)| (*prefix, *id)).collect();
        known.prefixes = numbers;
        stale
    }

    /// What an earlier run left in the kernel learns of the new prefixes; false if there are none
    /// whose packets would meet anything else.
    fn prepare_inherited(&mut self, cx: &mut Cx<'_, Self>) -> bool {
        let successors = Arc::new(self.successors());
        if successors.is_empty() {
            return false;
        }
        let endpoints = self.peers.endpoints.clone();
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "policies of an earlier life to know the new prefixes",
            |reply| PolicyNews::Inherit { successors, reply },
            PolicyAnswer::Bequeathed,
        );
        true
    }

    /// The numbers of prefixes that are not mapped yet, each with that of what its packets are now.
    fn successors(&self) -> Successors {
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

    pub(super) fn inherited_policy_written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<InheritResult, AskError>,
    ) {
        self.advance(cx, ChangeRoundOutcome::of(answer));
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
                awaited: AwaitedEndpoints::Able,
                reply,
            },
            PolicyAnswer::Prepared,
        );
    }

    pub(super) fn prepared(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Reached, AskError>) {
        self.advance(cx, ChangeRoundOutcome::of(answer.map(|_| Ok::<_, AskError>(()))));
    }

    /// Has the prefixes that rules name mapped to their identities.
    fn map(
        &mut self,
        cx: &mut Cx<'_, Self>,
        prefixes: &Prefixes,
        then: fn(Mapped) -> PolicyAnswer,
    ) {
        let entry = |id: IdentityId| IpcacheEntry::of(id, IpcacheSource::Policy);
        let named = self.known.prefixes.iter().filter(|(it, _)| prefixes.desired.contains(it));
        let entries = named.map(|(&prefix, &id)| (prefix, entry(id))).collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            "prefixes in the ipcache",
            |reply| IpcacheMsg::Upsert { entries, reply },
            then,
        );
    }

    pub(super) fn premapped(&mut self, cx: &mut Cx<'_, Self>, answer: Mapped) {
        let why = "prefixes are not in the ipcache";
        let done = matches!(answer, Ok(Ok(())));
        self.advance(
            cx,
            if done {
                ChangeRoundOutcome::Done
            } else {
                ChangeRoundOutcome::Refused(why.to_owned())
            },
        );
    }

    /// The new rules are in force from now on. Nobody's change waits for those who do not come to
    /// enforce it: only what the rules before may name stays as it is meanwhile.
    fn enforce(&mut self, cx: &mut Cx<'_, Self>, prefixes: &Prefixes) {
        // Where peers are what they were, a policy changes by its own rules only.
        let (mut report, mut before, mut ruled) = (None, None, false);
        let known = &mut *self.known;
        if let Some(change) = &mut known.change {
            change.unmapped.clear();
            if let Some((rules, changed)) = change.rules.take() {
                let old = std::mem::replace(&mut known.repository, rules);
                if let Some(notices) = &self.peers.notices {
                    let news = known.repository.news_since(&old);
                    news.into_iter().for_each(|it| notices.happened(it));
                }
                (before, ruled) = (known.ready.then_some(old), true);
                report = (!change.renumbered).then_some(changed);
            }
        }
        let mut touched = self.recompute(|subject| {
            report.as_ref().is_none_or(|report| report.touches(&subject.labels))
        });
        touched.labels.append(&mut self.known.keeping);
        self.become_ready();
        if ruled || !touched.labels.is_empty() {
            let revision = self.known.revision;
            self.known.fall_behind(Behind { revision, rules: before, by_most: false });
            self.await_enforced(cx, revision, touched, AwaitedEndpoints::All);
        }
        self.map(cx, prefixes, PolicyAnswer::Mapped);
    }

    pub(super) fn mapped(&mut self, cx: &mut Cx<'_, Self>, answer: Mapped) {
        let end = ChangeRoundOutcome::of(answer);
        if let ChangeRoundOutcome::Refused(error) = &end {
            tracing::error!(%error, "prefixes are not in the ipcache yet");
        }
        self.advance(cx, end);
    }

    fn unmap(&mut self, cx: &mut Cx<'_, Self>, Prefixes { stale, .. }: &Prefixes) {
        let prefixes = stale.keys().copied().collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            "prefixes that no rule names to leave the ipcache",
            |reply| IpcacheMsg::Remove { prefixes, source: IpcacheSource::Policy, reply },
            PolicyAnswer::Unmapped,
        );
    }

    pub(super) fn unmapped(&mut self, cx: &mut Cx<'_, Self>, answer: Mapped) {
        if !matches!(answer, Ok(Ok(()))) {
            tracing::warn!(?answer, "prefixes that no rule names are still in the ipcache");
            cx.after(RETRY, PolicyAnswer::Retry);
        }
        self.advance(cx, ChangeRoundOutcome::of(answer));
    }

    /// Policies forget what no rule names, and its numbers are given back.
    fn give_back(&mut self, cx: &mut Cx<'_, Self>, Prefixes { desired, stale }: &Prefixes) {
        for id in stale.values() {
            self.known.view.remove(*id);
        }
        let touched = self.recompute(|_| true);
        self.announce(cx, touched);
        let (identities, desired) = (self.peers.identities.clone(), desired.clone());
        cx.ask(
            &identities,
            PATIENCE,
            "to give back identities of prefixes",
            |reply| IdentityMsg::Prefixes { desired, reply },
            PolicyAnswer::Returned,
        );
    }

    pub(super) fn returned(&mut self, cx: &mut Cx<'_, Self>, answer: PrefixNumbers) {
        let end = ChangeRoundOutcome::of(
            answer.map(|answer| answer.map(|numbers| self.known.prefixes = numbers)),
        );
        if let ChangeRoundOutcome::Refused(error) = &end {
            tracing::warn!(%error, "identities of prefixes are still taken");
        }
        self.advance(cx, end);
    }
}
