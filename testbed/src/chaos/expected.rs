//! Which measures are judged of a history, and how much of each is well.

use std::collections::BTreeMap;

use volvox_actors::node::verification::NodeDifference;

use super::history::Expectations;
use crate::judge::{self, Finding, Measure};

/// Limits of what is judged, and the guarantees that are asked about, all if there are none.
pub(super) struct Limits(BTreeMap<Measure, f64>, Vec<u8>);

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
        (Measure::Differences, count(expect.differences)),
    ];
    let is_asked = |measure: Measure| {
        // What knows of many guarantees is asked about those.
        let number = measure.guarantee();
        expect.guarantees.is_empty() || number.is_none_or(|it| expect.guarantees.contains(&it))
    };
    let judged = all.into_iter().filter(|(measure, _)| is_asked(*measure));
    let limits = judged.filter_map(|(measure, limit)| Some((measure, limit?))).collect();
    Limits(limits, expect.guarantees.clone())
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

    /// What differs in the end, of each guarantee that is asked about.
    pub(super) fn differences(&self, all: &[NodeDifference]) -> Vec<Finding> {
        let Some(limit) = self.get(Measure::Differences) else { return Vec::new() };
        judge::findings(all, limit, |number| self.1.is_empty() || self.1.contains(&number))
    }

    /// Those that are judged.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Measure, f64)> {
        self.0.iter().map(|(measure, limit)| (*measure, *limit))
    }
}
