//! In which order things are done: actors, kernel, disk, and whoever answers from outside.

use std::time::Duration;

use super::node::Node;
use crate::random::Random;

/// Steps that may be taken while time stands still. All of a node takes some ten thousand.
const STEPS_MAX: u32 = 1_000_000;

impl Node {
    /// Takes some steps, of whoever comes first.
    pub(crate) fn steps(&mut self, count: u16, seed: u64) {
        let mut random = Random::new(seed);
        for taken in 0..count {
            if !self.world.is_alive() || !self.step(&mut random) {
                break;
            }
            if taken % 16 == 15 {
                self.answers();
            }
        }
        if self.world.is_alive() {
            self.answers();
        }
    }

    /// One step; false if there is none to be taken.
    fn step(&mut self, random: &mut Random) -> bool {
        if self.world.fate.is_dead() {
            return false;
        }
        let cells = self.world.life().universe.runnable_count();
        let jobs = self.world.kernel.able();
        let disk = usize::from(self.world.disk.jobs() > 0);
        let said = self.api_server_jobs();
        let stored = self.store_jobs();
        let meshed = self.remote_store_jobs();
        let all = cells + jobs + disk + said + stored + meshed + self.runtime_jobs();
        if all == 0 {
            return false;
        }
        let chosen = random.roll(all);
        if chosen < cells {
            self.world.life().universe.step(chosen);
            true
        } else if chosen < cells + jobs {
            // A kernel that stands still takes none.
            self.world.kernel.step(chosen - cells) || all > jobs
        } else if chosen < cells + jobs + disk {
            self.world.disk.step()
        } else if chosen < cells + jobs + disk + said {
            self.step_api_server(chosen - cells - jobs - disk);
            true
        } else if chosen < cells + jobs + disk + said + stored {
            self.step_store(chosen - cells - jobs - disk - said);
            true
        } else if chosen < all - self.runtime_jobs() {
            self.step_remote_store(chosen - cells - jobs - disk - said - stored);
            true
        } else {
            self.step_runtime();
            true
        }
    }

    /// Does all that can be done while time stands still.
    pub(crate) fn settle(&mut self, random: &mut Random) {
        let mut left = STEPS_MAX;
        loop {
            while self.step(random) {
                left -= 1;
                if left == 0 {
                    return self.wrong("somebody is busy for ever");
                }
            }
            if self.world.fate.is_dead() || !self.answers() {
                return;
            }
        }
    }

    pub(crate) fn time(&mut self, span: Duration, seed: u64) {
        if !self.world.is_alive() {
            return;
        }
        let mut random = Random::new(seed);
        let end = self.world.life().universe.host.now() + span;
        self.settle(&mut random);
        loop {
            if self.world.fate.is_dead() {
                return;
            }
            let universe = &self.world.life().universe;
            let next = universe.host.next_timer().filter(|&next| next <= end);
            let Some(next) = next.filter(|_| self.wrong.is_none()) else { break };
            universe.clock().advance(next.since(universe.host.now()));
            universe.host.fire_due();
            self.settle(&mut random);
        }
        let universe = &self.world.life().universe;
        universe.clock().advance(end.since(universe.host.now()));
        self.answers();
    }
}
