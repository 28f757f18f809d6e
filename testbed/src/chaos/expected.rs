//! Which measures are judged of a history, and how much of each is well.

use std::collections::BTreeMap;

use super::history::Expectations;
use crate::judge::{Finding, Measure};

/// Limits of what is judged.
pub(super) struct Limits(BTreeMap<Measure, f64>);

/// What a history expects.
pub(super) fn expected(expect: &Expectations) -> Limits {
    let count = |limit: Option<u64>| limit.map(|limit| limit as f64);
    let time = |limit: Option<std::time::Duration>| limit.map(|limit| limit.as_secs_f64());
    let all = [
        (Measure::Lost, count(expect.lost)),
        (Measure::Dips, count(expect.dips)),
        (Measure::LetThrough, count(expect.let_through)),
        (Measure::Moved, count(expect.moved)),
        (Measure::NotReady, Some(0.0)),
        (Measure::Api, time(expect.api)),
        (Measure::Ready, time(expect.ready)),
        (
            Measure::Writes,
            count(expect.writes).or_else(|| expect.guarantees.contains(&9).then_some(0.0)),
        ),
        (Measure::Leaks, count(expect.leaks)),
    ];
    let is_asked = |measure: Measure| {
        let number = measure.guarantee().unwrap_or_default();
        expect.guarantees.is_empty() || expect.guarantees.contains(&number)
    };
    let judged = all.into_iter().filter(|(measure, _)| is_asked(*measure));
    Limits(judged.filter_map(|(measure, limit)| Some((measure, limit?))).collect())
}

impl Limits {
    /// The most that is well, if it is judged.
    pub(super) fn get(&self, measure: Measure) -> Option<f64> {
        self.0.get(&measure).copied()
    }

    /// What was found, if it is judged.
    pub(super) fn finding(
        &self,
        measure: Measure,
        found: Option<f64>,
        detail: String,
    ) -> Option<Finding> {
        Some(Finding::new(measure, found, self.get(measure)?, detail))
    }

    /// Those that are judged.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Measure, f64)> {
        self.0.iter().map(|(measure, limit)| (*measure, *limit))
    }
}
