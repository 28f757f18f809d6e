//! Why a packet passes at an endpoint, or is dropped: what its rows make of it, the rules behind the row,
//! and where no rule allows it the one that is nearest to it, with what of that is not about the packet.
//!
//! The rows decide, as in the kernel. Clauses are looked at only to say why.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ClauseAction, ClauseOrigin, Enforcement, IdentityView, Policies, Policy, PolicyTier,
    Repository, Resolved, Verdict,
    misfit::misfits,
    packet::{Misfit, NearestRule, PacketExplained, PacketFate, PacketQuestion, SelectingPolicy},
    resolve::turn,
    rule::{Clause, Rule},
};
use crate::model::{Direction, IdentityId};

impl Repository {
    /// What becomes of a packet by these rows, and why by these policies.
    pub fn explain(&self, question: &PacketQuestion, view: &IdentityView) -> PacketExplained {
        let labels = &question.subject.labels;
        let direction = question.direction;
        let selecting = |(source, policy): (&str, &Policy)| {
            let mine = || policy.rules.iter().filter(|rule| rule.selects(labels));
            let speaks = |rule: &Rule| rule.clauses.iter().any(|it| it.direction == direction);
            mine().next()?;
            Some(SelectingPolicy {
                policy: policy.name.clone(),
                source: source.to_owned(),
                enforces: mine().any(|rule| rule.default_deny(direction)),
                speaks: mine().any(speaks),
            })
        };
        let selected_by: Vec<_> = match self.settings().enforcement {
            Enforcement::Never => Vec::new(),
            _ => self.policies().filter_map(selecting).collect(),
        };
        let fate = match question.asks(&question.rows) {
            Verdict::Allowed(_) => PacketFate::Allowed,
            Verdict::Denied(0) | Verdict::NoMatch => PacketFate::NoRule,
            Verdict::Denied(_) => PacketFate::Denied,
        };
        PacketExplained {
            fate,
            enforced: self
                .settings()
                .enforcement
                .holds(labels, || selected_by.iter().any(|policy| policy.enforces)),
            selected_by,
            rules: Vec::new(),
            passed_on_by: self.passed_on_by(question, view).cloned(),
            nearest: match fate {
                PacketFate::NoRule => self.nearest(question, view),
                _ => None,
            },
            remarks: Vec::new(),
        }
    }

    /// The first rule of the administrator's tier that is about the packet, if it passes it on.
    fn passed_on_by(
        &self,
        question: &PacketQuestion,
        view: &IdentityView,
    ) -> Option<&ClauseOrigin> {
        let settings = self.settings();
        let spared = question.direction == Direction::Ingress
            && settings.allow_localhost
            && question.peer == IdentityId::HOST;
        if spared || settings.enforcement == Enforcement::Never {
            return None;
        }
        let mut rules: Vec<(&Policy, &Rule)> = self
            .policies()
            .flat_map(|(_, policy)| policy.rules.iter().map(move |rule| (policy, rule)))
            .filter(|(_, rule)| rule.rank.tier == PolicyTier::Admin)
            .filter(|(_, rule)| rule.selects(&question.subject.labels))
            .collect();
        rules.sort_by(|(_, a), (_, b)| turn(a).cmp(&turn(b)));
        let mut clauses = rules
            .into_iter()
            .flat_map(|(policy, rule)| rule.clauses.iter().map(move |it| (policy, rule, it)))
            .filter(|(.., clause)| clause.direction == question.direction);
        let (.., first) = clauses.find(|(policy, rule, clause)| {
            self.misfits(question, view, (policy, rule, clause)).is_empty()
        })?;
        (first.action == ClauseAction::Pass).then_some(&*first.origin)
    }

    fn misfits(
        &self,
        question: &PacketQuestion,
        view: &IdentityView,
        (policy, rule, clause): (&Policy, &Rule, &Clause),
    ) -> Vec<Misfit> {
        misfits(question, view, self.settings().families, (policy, rule, clause))
    }

    /// The allowance of which least is not about the packet. Of equals the first.
    fn nearest(&self, question: &PacketQuestion, view: &IdentityView) -> Option<NearestRule> {
        if self.settings().enforcement == Enforcement::Never {
            return None;
        }
        let clauses = self.policies().flat_map(|(_, policy)| {
            let rules = policy.rules.iter();
            rules.flat_map(move |rule| rule.clauses.iter().map(move |it| (policy, rule, it)))
        });
        let candidates = clauses.filter(|(.., clause)| {
            clause.direction == question.direction && clause.action == ClauseAction::Allow
        });
        let judged = candidates.map(|it| (self.misfits(question, view, it), it.2));
        // One of which all is about the packet is not in force yet, or has no room: a remark says so.
        let judged = judged.filter(|(fails, _)| !fails.is_empty());
        let (fails, clause) =
            judged.min_by_key(|(fails, _)| fails.iter().map(|it| it.distance).sum::<u32>())?;
        Some(NearestRule { rule: ClauseOrigin::clone(&clause.origin), fails })
    }
}

impl Policies {
    /// What becomes of a packet by the rows of an endpoint, and why.
    pub(super) fn explain(&self, question: &PacketQuestion) -> PacketExplained {
        let known = &self.known;
        let computed = known.computed.get(&question.subject);
        let resolved = match computed {
            Some(computed) => Arc::clone(&computed.resolved),
            None => known.repository.resolver(&known.view).resolve(&question.subject),
        };
        let mut explained = known.repository.explain(question, &known.view);
        let verdict = question.asks(&question.rows);
        if let Verdict::Allowed(cookie) | Verdict::Denied(cookie) = verdict
            && cookie != 0
        {
            match self.behind(cookie, &resolved) {
                Some(rules) => explained.rules = rules,
                None => explained.remarks.push(format!(
                    "the rule behind the row (cookie {cookie:08x}) is of an earlier policy"
                )),
            }
        }
        if !known.ready {
            explained.remarks.push(
                "not all policies are known yet: the endpoint keeps those of an earlier run"
                    .to_owned(),
            );
        } else if question.asks(&resolved.rows).passes() != verdict.passes() {
            let then = if verdict.passes() { "denied" } else { "allowed" };
            explained.remarks.push(format!(
                "by the newest policy (revision {}) it is {then}, but the endpoint does not enforce that \
                 yet: `volvox why` of it says what it waits for",
                known.revision
            ));
        }
        if explained.fate != PacketFate::Allowed {
            explained.remarks.extend(self.remarks(&question.subject));
        }
        explained
    }

    /// The rules of a cookie: those of the endpoint's own policy, or else of any that is known.
    fn behind(&self, cookie: u32, own: &Resolved) -> Option<Vec<ClauseOrigin>> {
        let of = |origins: &BTreeMap<u32, Vec<ClauseOrigin>>| origins.get(&cookie).cloned();
        let mut all = self.known.computed.values();
        of(&own.origins).or_else(|| all.find_map(|it| of(&it.resolved.origins)))
    }
}
