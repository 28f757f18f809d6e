//! The agent's lives: each begins by what the one before left on disk and in the kernel.

use volvox_actors_simulated::testing::Turn;

use super::node::Node;

impl Node {
    /// An agent begins, if there is none.
    pub(crate) fn boot(&mut self, reported: bool) {
        if self.world.is_alive() {
            return;
        }
        self.lives += 1;
        self.clear_rubbish();
        self.endpoints += self.oracle.borrow().expected.pods.len() as u64;
        self.world.wake();
        self.watch();
        let kernel = self.world.kernel.clone();
        kernel.with(|state| self.oracle.borrow_mut().everything(state));
        self.news.heard = false;
        match &self.world.cluster {
            // It has what it was told, and is there or not.
            Some(cluster) => cluster.set_down(!reported),
            None => self.news.untold = self.world.manifests.keys().cloned().collect(),
        }
        if reported {
            self.deliver(false);
        }
        self.ask_queued();
    }

    /// The agent dies before the nth step of kernel or disk from now.
    pub(crate) fn kill_at(&mut self, nth: u16) {
        self.faults.power = None;
        if self.world.is_alive() {
            self.world.fate.at(nth.into(), Turn::Die);
        }
    }

    /// The agent dies: what it had in memory is gone, and whoever waits for it hears nothing.
    pub(crate) fn kill(&mut self) {
        if self.world.is_alive() {
            self.world.crash();
            self.requests.freed.clear();
            self.requests.regenerations.clear();
            self.requests.quarantine.clear();
            self.hang_up();
        }
    }
}
