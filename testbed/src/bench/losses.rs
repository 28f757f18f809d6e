//! What streams lost, with and without a disturbance.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Figure, Unit};
use crate::{fleet::Fleet, traffic::stop_all};

/// Figures of streams that run while something happens to the agent.
pub(super) struct Losses {
    lost: Figure,
    control: Figure,
    gap: Figure,
}

impl Losses {
    /// `names` are those of the loss, of the control run's loss, and of the longest silence.
    pub(super) fn new(names: [&'static str; 3]) -> Self {
        Self {
            lost: Figure::new(names[0], Unit::Count).zero(),
            control: Figure::new(names[1], Unit::Count),
            gap: Figure::new(names[2], Unit::Seconds),
        }
    }

    /// Runs all kinds of stream during `disturb`, then for as long without it. One value a stream.
    pub(super) fn measure(
        &mut self,
        fleet: &mut Fleet,
        disturb: impl FnOnce(&mut Fleet) -> Result<()>,
    ) -> Result<()> {
        let streams = fleet.all_streams()?;
        let begun = Instant::now();
        disturb(fleet)?;
        let took = begun.elapsed();
        for report in stop_all(streams)? {
            self.lost.push_count(report.lost + report.failures);
            self.gap.push_time(report.longest_gap);
        }
        let streams = fleet.all_streams()?;
        thread::sleep(took.max(Duration::from_secs(1)));
        for report in stop_all(streams)? {
            self.control.push_count(report.lost + report.failures);
        }
        Ok(())
    }

    pub(super) fn figures(self) -> [Figure; 3] {
        [self.lost, self.control, self.gap]
    }
}
