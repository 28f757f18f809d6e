//! A host for tests and the simulator: time is virtual, and the caller picks the next cell to run.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use super::{Behaviour, CellId, Driver, Host, NoRecorder, Recorder, Ref};
use crate::host::{Clock, Time};

/// A clock that only its owner moves.
#[derive(Debug, Default)]
pub struct VirtualClock {
    monotonic: Cell<u64>,
    /// How far the wall clock is ahead.
    ahead: Cell<u64>,
}

impl VirtualClock {
    /// Moves it on.
    pub fn advance(&self, span: Duration) {
        self.monotonic.set((Time(self.monotonic.get()) + span).0);
    }

    /// Sets the wall clock, and nothing else.
    pub fn set_wall(&self, wall: u64) {
        self.ahead.set(wall.wrapping_sub(self.monotonic.get()));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(self.monotonic.get())
    }

    fn wall(&self) -> u64 {
        self.monotonic.get().wrapping_add(self.ahead.get())
    }
}

/// Cells that have something to do, in the order in which they were rung for.
#[derive(Debug, Default)]
struct Steps(RefCell<VecDeque<CellId>>);

impl Driver for Steps {
    fn spawned(&self, _: &Host, _: CellId) {}

    fn ring(&self, cell: CellId) {
        let mut queue = self.0.borrow_mut();
        if !queue.contains(&cell) {
            queue.push_back(cell);
        }
    }

    fn wake_at(&self, _: Time) {}

    fn stopped(&self, cell: CellId) {
        self.0.borrow_mut().retain(|&other| other != cell);
    }
}

/// A host in virtual time, one step at a time. Each test makes its own.
pub struct Universe {
    /// The host.
    pub host: Host,
    clock: Rc<VirtualClock>,
    steps: Rc<Steps>,
}

impl Default for Universe {
    fn default() -> Self {
        Self::new(Box::new(NoRecorder))
    }
}

/// Cells hold their host, which holds them: whoever lives through many lives ends each.
impl Drop for Universe {
    fn drop(&mut self) {
        self.host.end();
    }
}

impl Universe {
    /// A host without cells, at time zero.
    pub fn new(recorder: Box<dyn Recorder>) -> Self {
        let clock = Rc::new(VirtualClock::default());
        let steps = Rc::new(Steps::default());
        let host = Host::new(Rc::clone(&clock) as _, Rc::clone(&steps) as _, recorder);
        Self { host, clock, steps }
    }

    /// Brings a cell to life.
    pub fn spawn<B: Behaviour>(
        &self,
        name: &str,
        make: impl FnMut() -> B + 'static,
    ) -> Ref<B::Msg> {
        self.host.spawn(name, 25, make)
    }

    /// The clock.
    pub fn clock(&self) -> Rc<VirtualClock> {
        Rc::clone(&self.clock)
    }

    /// Cells that have something to do, next first.
    pub fn runnable(&self) -> Vec<CellId> {
        self.steps.0.borrow().iter().copied().collect()
    }

    /// How many cells have something to do.
    pub fn runnable_count(&self) -> usize {
        self.steps.0.borrow().len()
    }

    /// Handles one message of the `nth` runnable cell; false if there is none.
    pub fn step(&self, nth: usize) -> bool {
        let cell = self.steps.0.borrow_mut().remove(nth);
        match cell {
            Some(cell) => {
                self.host.run_one(cell);
                true
            }
            None => false,
        }
    }

    /// Runs until no cell has anything to do. Time stands still.
    pub fn settle(&self) {
        while self.step(0) {}
    }

    /// Lets time pass, firing each timer at its moment and running what it wakes.
    pub fn advance(&self, span: Duration) {
        let end = self.host.now() + span;
        self.settle();
        while let Some(next) = self.host.next_timer().filter(|&next| next <= end) {
            self.clock.advance(next.since(self.host.now()));
            self.host.fire_due();
            self.settle();
        }
        self.clock.advance(end.since(self.host.now()));
    }
}
