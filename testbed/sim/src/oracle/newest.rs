//! Whether what was told last is in force.

use volvox_actors_simulated::testing::KernelState;

use super::Oracle;

impl Oracle {
    /// Whether every verdict is what the newest model says; if so, only that one counts from now
    /// on. Otherwise one that is not.
    pub(crate) fn exact(&mut self, state: &KernelState) -> Option<String> {
        if let Some(lack) = self.services.lacks(&state.services) {
            return Some(lack);
        }
        let before = (self.expected.clone(), self.late);
        self.rest();
        self.everything(state);
        let found = std::mem::take(&mut self.violations).into_iter().next();
        if found.is_none() {
            self.services.rest();
            self.routes.rest(state);
        } else {
            (self.expected, self.late) = before;
        }
        found
    }

    /// A verdict that is not what the newest model says, of all pods but one.
    pub(crate) fn current(&mut self, state: &KernelState, but: Option<u8>) -> Option<String> {
        let before = (self.expected.clone(), self.late);
        self.rest();
        if let Some(but) = but {
            self.expected.pods.remove(&but);
        }
        self.everything(state);
        let found = std::mem::take(&mut self.violations).into_iter().next();
        (self.expected, self.late) = before;
        found
    }

    /// Everything is in force: only the newest version explains anything.
    fn rest(&mut self) {
        self.expected.rest();
        self.late = false;
    }
}
