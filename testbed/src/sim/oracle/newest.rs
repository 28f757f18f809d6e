//! Whether what was told last is in force.

use volvox_actors_simulated::testing::KernelState;

use super::{Oracle, PLACES};

impl Oracle {
    /// Whether every verdict is what the newest model says; if so, only that one counts from now
    /// on. Otherwise one that is not.
    pub(in crate::sim) fn exact(&mut self, state: &KernelState) -> Option<String> {
        let before = (self.subjects.clone(), self.remotes.clone(), self.sources.clone(), self.late);
        if let Some(lack) = self.served.lacks(&state.services) {
            return Some(lack);
        }
        self.rest();
        self.everything(state);
        let found = std::mem::take(&mut self.violations).into_iter().next();
        if found.is_none() {
            self.served.rest();
            self.peers.rest(state);
        } else {
            (self.subjects, self.remotes, self.sources, self.late) = before;
            self.expected = [None; PLACES];
        }
        found
    }

    /// A verdict that is not what the newest model says, of all pods but one.
    pub(in crate::sim) fn current(
        &mut self,
        state: &KernelState,
        but: Option<u8>,
    ) -> Option<String> {
        let before = (self.subjects.clone(), self.remotes.clone(), self.sources.clone(), self.late);
        self.rest();
        if let Some(but) = but {
            self.subjects.remove(&but);
        }
        self.everything(state);
        let found = std::mem::take(&mut self.violations).into_iter().next();
        (self.subjects, self.remotes, self.sources, self.late) = before;
        self.expected = [None; PLACES];
        found
    }
}
