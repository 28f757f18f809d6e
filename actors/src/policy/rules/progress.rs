//! Takes changes of the rules through their rounds, one after the other.

use std::collections::BTreeSet;

use super::{
    ApplyReport, AwaitedEndpoints, Enforcement, Policies, Repository, Touched,
    actor::policies_of,
    answers::PolicyAnswer,
    change::{ChangeRound, ChangeRoundOutcome, NextChangeRound, PrefixChange, RETRY},
    knowledge::RuleChange,
};
use crate::{host::Cx, model::Manifest};

impl Policies {
    pub(super) fn manifests(&mut self, cx: &mut Cx<'_, Self>, manifests: Vec<Manifest>) {
        self.change(cx, RuleChange::Manifests(manifests));
    }

    /// Endpoints are to be held to policy at other times.
    pub(super) fn enforcement(&mut self, cx: &mut Cx<'_, Self>, enforcement: Enforcement) {
        if !self.known.ready && self.known.change.is_none() {
            // The first rules are yet to come, and nobody was told a policy.
            self.known.repository.enforce(enforcement);
        } else {
            self.change(cx, RuleChange::Enforcement(enforcement));
        }
    }

    fn change(&mut self, cx: &mut Cx<'_, Self>, change: RuleChange) {
        self.known.changes.push_back(change);
        if self.known.change.is_none() {
            self.next_change(cx);
        }
    }

    fn next_change(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(change) = self.known.changes.pop_front() else { return self.answer_idle() };
        // The old rules are in force until every prefix of the new ones has its number.
        let mut rules = self.known.repository.clone();
        let report = match change {
            RuleChange::Manifests(manifests) => self.take_manifests(&mut rules, manifests),
            RuleChange::Enforcement(enforcement) => rules.enforce(enforcement),
        };
        if report.changed || !self.known.ready {
            let rules = Some((rules, report));
            self.known.change = Some(PrefixChange { rules, ..PrefixChange::default() });
            self.begin(cx);
        } else {
            // The same rules; what was refused, and why, may be other words.
            self.known.repository = rules;
            self.next_change(cx);
        }
    }

    /// Puts what these sources say into the rules.
    fn take_manifests(&mut self, rules: &mut Repository, manifests: Vec<Manifest>) -> ApplyReport {
        let mut all = ApplyReport::default();
        let cluster = rules.settings().cluster_name();
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
        all
    }

    /// Goes on behind a crash: the answer that a change waited for died with the run before, and so
    /// did the timer for what one could not finish.
    pub(super) fn resume(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(newest) = self.known.behind.last() {
            let revision = newest.revision;
            self.await_enforced(cx, revision, Touched::default(), AwaitedEndpoints::All);
        }
        match self.known.change {
            Some(_) => self.begin(cx),
            None if self.known.ready => self.retry(cx),
            None => {}
        }
    }

    /// A change begins, or begins again.
    fn begin(&mut self, cx: &mut Cx<'_, Self>) {
        let desired = self.known.desired();
        self.enter(cx, ChangeRound::Number(desired));
    }

    /// A round of the change ended.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_, Self>, end: ChangeRoundOutcome) {
        let known = &mut *self.known;
        let Some(change) = &mut known.change else { return };
        let round = std::mem::take(&mut self.round);
        match change.next(round, end, !known.behind.is_empty()) {
            NextChangeRound::Enter(round) => self.enter(cx, round),
            NextChangeRound::Pause(why) => self.pause(cx, &why),
            NextChangeRound::Finish => {
                known.change = None;
                self.next_change(cx);
            }
            NextChangeRound::Stay(round) => self.round = round,
        }
    }

    fn enter(&mut self, cx: &mut Cx<'_, Self>, round: ChangeRound) {
        let is_asked = self.ask_for(cx, &round);
        self.round = round;
        if !is_asked {
            self.advance(cx, ChangeRoundOutcome::Done);
        }
    }

    /// A change cannot be finished now; what was in force stays so.
    fn pause(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        tracing::error!(error, "policy change waits");
        // For everyone to see.
        let why = format!("a change of the rules to be tried again, in {RETRY:?}: {error}");
        self.round = ChangeRound::Pause(cx.expect("rules", RETRY, why, |_| PolicyAnswer::Retry));
    }

    /// Takes up what could not be finished.
    pub(super) fn retry(&mut self, cx: &mut Cx<'_, Self>) {
        match &self.round {
            ChangeRound::Pause(until) if until.is_closed() => self.begin(cx),
            ChangeRound::Idle if self.known.behind.is_empty() && self.known.has_stale() => {
                self.known.change = Some(PrefixChange::default());
                self.begin(cx);
            }
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
}
