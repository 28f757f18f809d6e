use std::{rc::Rc, time::Duration};

use super::*;
use crate::{
    host::{Ref, Universe},
    ports::{KernelOp, KernelOutcome, Swept},
    testing::{FakeKernel, crash},
};

const FIVE_MINUTES: Duration = Duration::from_secs(300);

struct Bench {
    universe: Universe,
    kernel: Rc<FakeKernel>,
    conntrack: Ref<ConntrackMsg>,
}

impl Bench {
    fn new(fixed: Option<Duration>) -> Self {
        let universe = Universe::default();
        let kernel = FakeKernel::new();
        let make = Conntrack::factory(Rc::clone(&kernel) as _, fixed);
        let conntrack = universe.spawn("conntrack", make);
        Self { universe, kernel, conntrack }
    }

    fn begun(fixed: Option<Duration>) -> Self {
        let bench = Self::new(fixed);
        bench.conntrack.tell(ConntrackMsg::Begin).unwrap();
        bench.universe.settle();
        bench
    }

    fn found(&self, seen: u64, deleted: u64) {
        let connections = Swept { seen, deleted };
        let translations = Swept { seen: 2 * seen, deleted: 2 * deleted };
        let ops = self.kernel.answer(|_| KernelOutcome::Collected { connections, translations });
        assert_eq!(ops, [KernelOp::CollectConntrack]);
        self.universe.settle();
    }

    fn status(&self) -> ConntrackStatus {
        let patience = Duration::from_secs(1);
        let mut answer =
            self.universe.host.ask(&self.conntrack, patience, "status", ConntrackMsg::Show);
        self.universe.settle();
        answer.now().unwrap().unwrap()
    }

    /// How long until the next round is asked of the kernel.
    fn until_next(&self) -> Duration {
        let start = self.universe.host.now();
        while self.kernel.pending() == 0 {
            let next = self.universe.host.next_timer().expect("a round is to come");
            self.universe.advance(next.since(self.universe.host.now()));
        }
        self.universe.host.now().since(start)
    }
}

#[test]
fn nothing_is_collected_before_restore_is_over() {
    let bench = Bench::new(None);
    bench.universe.advance(FIVE_MINUTES * 100);
    assert_eq!(bench.kernel.pending(), 0);
}

#[test]
fn rounds_follow_what_they_find() {
    let bench = Bench::begun(None);
    assert_eq!(bench.until_next(), FIVE_MINUTES);
    bench.found(1000, 500);
    assert_eq!(bench.until_next(), FIVE_MINUTES / 2);
    bench.found(500, 0);
    assert_eq!(bench.until_next(), FIVE_MINUTES / 2 * 3 / 2);
    let status = bench.status();
    assert_eq!((status.rounds, status.connections), (2, Swept { seen: 500, deleted: 0 }));
    assert_eq!((status.deleted_total, status.translations_deleted_total), (500, 1000));
}

#[test]
fn a_fixed_interval_stays_and_zero_is_none() {
    let minute = Duration::from_secs(60);
    let bench = Bench::begun(Some(minute));
    for _ in 0..3 {
        assert_eq!(bench.until_next(), minute);
        bench.found(10, 10);
    }
    assert_eq!(Bench::begun(Some(Duration::ZERO)).until_next(), FIVE_MINUTES);
}

#[test]
fn one_round_at_a_time_also_if_told_twice_to_begin() {
    let bench = Bench::begun(None);
    bench.conntrack.tell(ConntrackMsg::Begin).unwrap();
    bench.universe.advance(FIVE_MINUTES);
    assert_eq!(bench.kernel.pending(), 1);
}

#[test]
fn a_failed_round_is_shown_and_the_next_one_comes() {
    let bench = Bench::begun(None);
    bench.until_next();
    bench.kernel.fail();
    bench.universe.settle();
    assert_eq!(bench.status().last_error, Some(FakeKernel::error().to_string()));
    assert_eq!(bench.until_next(), FIVE_MINUTES);
    bench.found(1, 0);
    assert_eq!(bench.status().last_error, None);
}

#[test]
fn a_silent_kernel_and_a_crash_do_not_end_it() {
    let bench = Bench::begun(None);
    bench.until_next();
    bench.universe.advance(FIVE_MINUTES);
    assert!(bench.status().last_error.is_some_and(|error| error.contains("deadline")));
    bench.conntrack.tell(ConntrackMsg::Show(crash())).unwrap();
    bench.universe.advance(FIVE_MINUTES);
    assert_eq!(bench.kernel.pending(), 2);
}
