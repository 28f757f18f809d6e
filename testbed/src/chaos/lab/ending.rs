//! The end of a history: faults end, an agent runs, all gets ready, and everything is measured.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::World;
use crate::{
    chaos::{
        expected::{Limits, expected},
        outcome::{Outcome, Stream},
    },
    judge::{Finding, Measure, leftovers, more, significant_time},
    lab::Metrics,
};

/// Series whose sum over kernel objects is what an agent wrote since its start.
const WRITES: &str = "volvox_kernel_writes_total";
/// What is written with nothing changed: garbage is collected from connection tracking.
const APART: &str = "object=\"conntrack\"";
/// What is cleared away in the background takes its time: an address of a pod that never came to be is kept for
/// a minute.
const CLEARED: Duration = Duration::from_secs(300);

impl World<'_> {
    /// Ends it, and says what was found.
    pub(super) fn end(&mut self, outcome: &mut Outcome) -> Result<()> {
        self.end_faults()?;
        if !self.node.has_agent() {
            self.bury();
            self.node.exec_agent()?;
        }
        self.wait_until_ready()?;
        self.node.wait_until_restored()?;
        self.wait_until_applied()?;
        let limits = expected(&self.history.expect);
        let writes = limits.get(Measure::Writes).map(|_| self.unchanged_restart()).transpose()?;
        let (api, ready) = (self.longest(|life| life.api)?, self.longest(|life| life.ready)?);
        let judgement = self.take_judge()?.end(&self.node)?;
        let lines = self.flows.judged.iter().zip(&judgement.reports);
        outcome.streams = lines
            .map(|(what, report)| Stream {
                what: what.clone(),
                sent: report.sent,
                lost: report.lost + report.failures,
                longest_gap: report.longest_gap.as_secs_f64(),
                gap_at: report.gap_since.map(|since| self.seconds(since)),
            })
            .collect();
        outcome.reach = self.reach()?;
        let silent = judgement.reports.iter().filter(|report| report.sent == 0).count();
        ensure!(silent == 0, "{silent} streams sent nothing");
        let of = match judgement.changes.as_slice() {
            [] => format!("of {}", judgement.endpoints),
            changes => changes.join("; "),
        };
        let found = [
            (Measure::Lost, Some(judgement.lost() as f64), String::new()),
            (Measure::Dips, Some(judgement.dips as f64), String::new()),
            (Measure::LetThrough, Some(judgement.let_through as f64), String::new()),
            (Measure::Moved, Some(judgement.moved as f64), of),
            (Measure::NotReady, Some(0.0), String::new()),
            (Measure::Api, Some(api.0.as_secs_f64()), api.1),
            (Measure::Ready, Some(ready.0.as_secs_f64()), ready.1),
            (Measure::Writes, writes, String::new()),
        ];
        for (measure, found, detail) in found {
            outcome.findings.extend(limits.finding(measure, found, detail));
        }
        outcome.findings.extend(limits.differences(&judgement.differences));
        let leaks = self.delete_all(&limits)?;
        outcome.findings.extend(leaks);
        Ok(())
    }

    /// Another restart, with nothing changed: what it wrote.
    fn unchanged_restart(&mut self) -> Result<f64> {
        self.kill()?;
        self.node.exec_agent()?;
        self.wait_until_ready()?;
        self.node.wait_until_restored()?;
        let metrics = Metrics::scrape(self.node.rest())?;
        let all: Vec<_> = metrics.family(WRITES).collect();
        ensure!(!all.is_empty(), "the agent has no metric {WRITES}");
        let counted = all.iter().filter(|(labels, _)| !labels.contains(APART));
        Ok(counted.map(|(_, value)| value).sum())
    }

    /// Deletes every pod; what is left then.
    fn delete_all(&mut self, limits: &Limits) -> Result<Option<Finding>> {
        if limits.get(Measure::Leaks).is_none() {
            return Ok(None);
        }
        let begun = Instant::now();
        for (_, member) in std::mem::take(&mut self.pods) {
            drop(member.responders);
            super::broken(self.remove(&member.pod))?;
        }
        loop {
            let left = leftovers(&self.node)?;
            let more = more(&left, &self.before);
            if more.is_empty() || begun.elapsed() > CLEARED {
                let count: usize = more.iter().map(|(_, count)| count).sum();
                let detail = match more.as_slice() {
                    [] => format!("within {}", significant_time(begun.elapsed())),
                    some => some
                        .iter()
                        .map(|(what, count)| format!("{count} {what}"))
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                return Ok(limits.finding(Measure::Leaks, Some(count as f64), detail));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The judge; a new one has nothing to look at.
    fn take_judge(&mut self) -> Result<crate::judge::Judge> {
        let next = crate::judge::Judge::begin(&self.node)?;
        Ok(std::mem::replace(&mut self.judge, next))
    }
}
