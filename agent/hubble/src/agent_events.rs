//! What the agent said of itself, the newest of it: for `GetAgentEvents`. It is kept in memory, and begins
//! anew with each life.

use std::collections::VecDeque;

use crate::messages::AgentEvent;

/// Events of the agent, numbered.
#[derive(Debug)]
pub struct AgentEvents {
    kept: VecDeque<(u64, AgentEvent)>,
    /// Number of the next one.
    next: u64,
    capacity: usize,
}

impl AgentEvents {
    /// Room for so many.
    pub fn new(capacity: usize) -> Self {
        Self { kept: VecDeque::new(), next: 0, capacity: capacity.max(1) }
    }

    /// Keeps one; the oldest goes.
    pub fn push(&mut self, time: u64, event: AgentEvent) {
        if self.kept.len() == self.capacity {
            self.kept.pop_front();
        }
        self.kept.push_back((time, event));
        self.next += 1;
    }

    /// Numbers of the oldest that is kept, and of the next that comes.
    pub fn bounds(&self) -> (u64, u64) {
        (self.next - self.kept.len() as u64, self.next)
    }

    /// One of them, and when it was.
    pub fn get(&self, number: u64) -> Option<&(u64, AgentEvent)> {
        let (oldest, _) = self.bounds();
        self.kept.get(usize::try_from(number.checked_sub(oldest)?).ok()?)
    }
}
