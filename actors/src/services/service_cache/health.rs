//! Which services load balancers outside ask this node for, and what is told of them. Only these are
//! held: of most services nobody asks.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::source_object::Name;
use crate::{
    host::Ref,
    mutants::{Mutant, mutated},
    services::health_checks::{HealthChange, HealthCheck, HealthChecksMsg},
};

/// What is told to who answers.
pub(super) struct HealthCheckNews {
    subscriber: Ref<HealthChecksMsg>,
    checks: BTreeMap<Name, HealthCheck>,
    /// Of these it was not told yet how they are now,
    news: BTreeSet<Name>,
    /// or of none.
    anew: bool,
}

impl HealthCheckNews {
    pub(super) fn new(subscriber: Ref<HealthChecksMsg>) -> Self {
        Self { subscriber, checks: BTreeMap::new(), news: BTreeSet::new(), anew: false }
    }

    /// A service is asked for in that way, or is not.
    pub(super) fn set(&mut self, name: &Name, check: Option<HealthCheck>) {
        let before = match check {
            Some(check) => self.checks.insert(Rc::clone(name), check),
            None => self.checks.remove(name),
        };
        let is_news = before.is_none() || check.is_none() || !mutated(Mutant::HealthToldOnce);
        if before != check && is_news {
            self.news.insert(Rc::clone(name));
        }
    }

    /// Who hears may have missed something: all is told again.
    pub(super) fn begin_anew(&mut self) {
        self.anew = true;
    }

    /// What is to be told: whether it is all that there is, and how services are asked for; none if
    /// there is nothing to tell.
    pub(super) fn take_news(&mut self) -> Option<(bool, Vec<HealthChange>)> {
        let news = std::mem::take(&mut self.news);
        if std::mem::take(&mut self.anew) {
            let all = self.checks.iter().map(|(name, check)| (Rc::clone(name), Some(*check)));
            return Some((true, all.collect()));
        }
        let change = |name| {
            let check = self.checks.get(&name).copied();
            (name, check)
        };
        (!news.is_empty()).then(|| (false, news.into_iter().map(change).collect()))
    }

    pub(super) fn subscriber(&self) -> &Ref<HealthChecksMsg> {
        &self.subscriber
    }
}
