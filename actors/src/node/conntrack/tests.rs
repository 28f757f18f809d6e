//! Tests: rounds follow the traffic and signals of full tables; failures and crashes lose none.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, time::Duration};

use super::*;
use crate::{
    host::{Behaviour, Cx, NoAnswer, Ref, Reply, Universe},
    model::{BackendId, Families},
    ports::{KernelOp, KernelOutcome, Swept},
    services::service_cache::{LeavingBackend, ServicesMsg},
    testing::{FakeKernel, crash},
};

const FIVE_MINUTES: Duration = Duration::from_secs(300);
const TEN_SECONDS: Duration = Duration::from_secs(10);

const IPV4: Families = Families { ipv4: true, ipv6: false };
const IPV6: Families = Families { ipv4: false, ipv6: true };

/// A round over these that looks for nobody.
fn collect(families: Families) -> KernelOp {
    KernelOp::CollectConntrack { families, backends: BTreeSet::new() }
}

struct Fixture {
    universe: Universe,
    kernel: Rc<FakeKernel>,
    conntrack: Ref<ConntrackMsg>,
}

impl Fixture {
    fn new(fixed: Option<Duration>) -> Self {
        let universe = Universe::default();
        let kernel = FakeKernel::new();
        let make = Conntrack::factory(Rc::clone(&kernel) as _, fixed);
        let conntrack = universe.spawn("conntrack", make);
        Self { universe, kernel, conntrack }
    }

    fn begun(fixed: Option<Duration>) -> Self {
        let fixture = Self::new(fixed);
        fixture.conntrack.tell(ConntrackMsg::Begin).unwrap();
        fixture.universe.settle();
        fixture
    }

    fn found(&self, seen: u64, deleted: u64) {
        self.found_in(Families::DUAL, seen, deleted);
    }

    fn found_in(&self, families: Families, seen: u64, deleted: u64) {
        self.found_at(0, families, seen, deleted);
    }

    /// Where the fullest table is that full, percent.
    fn found_at(&self, fill: u8, families: Families, seen: u64, deleted: u64) {
        let connections = Swept { seen, deleted };
        let translations = Swept { seen: 2 * seen, deleted: 2 * deleted };
        let ops = self.kernel.answer(|_| KernelOutcome::Collected {
            connections,
            translations,
            fill,
            used: BTreeSet::new(),
        });
        assert_eq!(ops, [collect(families)]);
        self.universe.settle();
    }

    /// The datapath finds no room.
    fn full(&self, families: Families) {
        let table = FullTable::Translations;
        self.conntrack.tell(ConntrackMsg::Full { table, families }).unwrap();
        self.universe.advance(Duration::ZERO);
    }

    fn crash(&self) {
        self.conntrack.tell(ConntrackMsg::Show(crash())).unwrap();
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
    let fixture = Fixture::new(None);
    fixture.universe.advance(FIVE_MINUTES * 100);
    assert_eq!(fixture.kernel.pending(), 0);
}

#[test]
fn rounds_follow_what_they_find() {
    let fixture = Fixture::begun(None);
    assert_eq!(fixture.until_next(), FIVE_MINUTES);
    fixture.found(1000, 500);
    assert_eq!(fixture.until_next(), FIVE_MINUTES / 2);
    fixture.found(500, 0);
    assert_eq!(fixture.until_next(), FIVE_MINUTES / 2 * 3 / 2);
    let status = fixture.status();
    assert_eq!((status.rounds, status.connections), (2, Swept { seen: 500, deleted: 0 }));
    assert_eq!((status.deleted_total, status.translations_deleted_total), (500, 1000));
}

#[test]
fn a_fixed_interval_stays_and_zero_is_none() {
    let minute = Duration::from_secs(60);
    let fixture = Fixture::begun(Some(minute));
    for _ in 0..3 {
        assert_eq!(fixture.until_next(), minute);
        fixture.found(10, 10);
    }
    assert_eq!(Fixture::begun(Some(Duration::ZERO)).until_next(), FIVE_MINUTES);
}

#[test]
fn one_round_at_a_time_also_if_told_twice_to_begin() {
    let fixture = Fixture::begun(None);
    fixture.conntrack.tell(ConntrackMsg::Begin).unwrap();
    fixture.universe.advance(FIVE_MINUTES);
    assert_eq!(fixture.kernel.pending(), 1);
}

#[test]
fn a_failed_round_is_shown_and_the_next_one_comes() {
    let fixture = Fixture::begun(None);
    fixture.until_next();
    fixture.kernel.fail();
    fixture.universe.settle();
    assert_eq!(fixture.status().last_error, Some(FakeKernel::error().to_string()));
    assert_eq!(fixture.until_next(), FIVE_MINUTES);
    fixture.found(1, 0);
    assert_eq!(fixture.status().last_error, None);
}

#[test]
fn a_silent_kernel_and_a_crash_do_not_end_it() {
    let fixture = Fixture::begun(None);
    fixture.until_next();
    fixture.universe.advance(FIVE_MINUTES);
    assert!(fixture.status().last_error.is_some_and(|error| error.contains("deadline")));
    fixture.crash();
    fixture.universe.advance(FIVE_MINUTES);
    assert_eq!(fixture.kernel.pending(), 2);
}

#[test]
fn a_full_table_has_its_family_swept_at_once() {
    for families in [IPV4, IPV6] {
        let fixture = Fixture::begun(None);
        fixture.universe.advance(TEN_SECONDS / 2);
        fixture.full(families);
        assert_eq!(fixture.until_next(), Duration::ZERO);
        fixture.found_in(families, 1000, 500);
        let status = fixture.status();
        assert_eq!((status.rounds, status.rounds_by_signal), (1, 1));
        assert_eq!(status.interval, FIVE_MINUTES, "one family says nothing of both");
        assert_eq!(status.connections, Swept::default());
        assert_eq!(fixture.until_next(), FIVE_MINUTES - TEN_SECONDS / 2);
        fixture.found(1, 0);
        assert_eq!(fixture.status().rounds_by_signal, 1);
    }
}

#[test]
fn signals_wait_until_a_while_after_the_round_before_and_merge() {
    let fixture = Fixture::begun(None);
    fixture.full(IPV4);
    assert_eq!(fixture.kernel.pending(), 1);
    // What comes during a round is not answered by it.
    fixture.full(IPV4);
    assert_eq!(fixture.kernel.pending(), 1);
    fixture.universe.advance(TEN_SECONDS * 2);
    fixture.found_in(IPV4, 1, 1);
    fixture.universe.advance(TEN_SECONDS / 2);
    fixture.full(IPV4);
    fixture.full(IPV6);
    assert_eq!(fixture.until_next(), TEN_SECONDS / 2);
    fixture.found(1, 0);
    let status = fixture.status();
    assert_eq!((status.rounds, status.rounds_by_signal), (2, 2));
    let ipv4 = Signals { received: 2, coalesced: 1 };
    let ipv6 = Signals { received: 1, coalesced: 0 };
    assert_eq!(status.translations_full, FullSignals { ipv4, ipv6 });
    assert_eq!(status.connections_full, FullSignals::default());
    // Both together are a round of all families.
    assert_eq!(fixture.until_next(), status.interval);
}

/// Has IPv4 be full again and again, where each round removes so many of a hundred; how many rounds there
/// are until one is over all families.
fn rounds_until_all(fixture: &Fixture, deleted: u64) -> u64 {
    let start = fixture.universe.host.now();
    for rounds in 1..100 {
        fixture.full(IPV4);
        fixture.until_next();
        let ops = fixture.kernel.answer(|_| KernelOutcome::Collected {
            connections: Swept { seen: 100, deleted },
            translations: Swept::default(),
            fill: 0,
            used: BTreeSet::new(),
        });
        fixture.universe.settle();
        if ops == [collect(Families::DUAL)] {
            assert_eq!(fixture.universe.host.now().since(start), FIVE_MINUTES);
            return rounds;
        }
        assert_eq!(ops, [collect(IPV4)]);
    }
    panic!("no round is over all families");
}

#[test]
fn a_family_that_is_full_again_and_again_keeps_none_from_its_round() {
    let fixture = Fixture::begun(None);
    assert_eq!(rounds_until_all(&fixture, 10), 31);
    assert_eq!(fixture.status().rounds_by_signal, 30);
}

#[test]
fn what_is_full_of_what_lives_is_swept_ever_more_rarely() {
    let fixture = Fixture::begun(None);
    // At once, then after 20, 40 and 80 seconds, then the regular one.
    assert_eq!(rounds_until_all(&fixture, 0), 5);
    // After that they come soon again.
    fixture.full(IPV4);
    assert_eq!(fixture.until_next(), TEN_SECONDS);
}

#[test]
fn a_fixed_interval_may_be_shorter_than_signals_wait() {
    let second = Duration::from_secs(1);
    let fixture = Fixture::begun(Some(second));
    assert_eq!(fixture.until_next(), second);
    fixture.found(1, 0);
    fixture.full(IPV4);
    assert_eq!(fixture.until_next(), second);
    fixture.found(1, 0);
    assert_eq!(fixture.status().rounds_by_signal, 0);
}

#[test]
fn a_table_that_is_full_before_restore_is_over_is_swept_then() {
    let fixture = Fixture::new(None);
    fixture.full(IPV6);
    fixture.universe.advance(FIVE_MINUTES);
    assert_eq!(fixture.kernel.pending(), 0);
    fixture.conntrack.tell(ConntrackMsg::Begin).unwrap();
    fixture.universe.settle();
    assert_eq!(fixture.until_next(), Duration::ZERO);
    fixture.found_in(IPV6, 1, 0);
}

#[test]
fn a_crash_loses_neither_a_signal_nor_a_round() {
    let fixture = Fixture::begun(None);
    // One that waits for the next round.
    fixture.full(IPV4);
    fixture.found_in(IPV4, 1, 1);
    fixture.full(IPV4);
    fixture.crash();
    assert_eq!(fixture.until_next(), TEN_SECONDS);
    // And one whose round nobody hears of.
    fixture.crash();
    fixture.found_in(IPV4, 1, 1);
    assert_eq!(fixture.until_next(), TEN_SECONDS);
    fixture.found_in(IPV4, 1, 1);
    let ipv4 = Signals { received: 2, coalesced: 0 };
    assert_eq!(fixture.status().translations_full, FullSignals { ipv4, ..FullSignals::default() });
    // The regular one, too.
    fixture.until_next();
    fixture.crash();
    fixture.found(1, 1);
    assert_eq!(fixture.until_next(), TEN_SECONDS);
}

#[test]
fn a_failed_round_is_not_repeated_for_the_signal() {
    let fixture = Fixture::begun(None);
    fixture.full(IPV4);
    fixture.kernel.fail();
    fixture.universe.settle();
    assert_eq!(fixture.until_next(), FIVE_MINUTES);
    fixture.found(1, 0);
}

#[test]
fn rounds_that_find_nothing_dead_come_later_but_not_where_a_table_is_nearly_full() {
    let fixture = Fixture::begun(None);
    fixture.until_next();
    fixture.found(100, 0);
    let interval = || fixture.status().interval;
    assert!(interval() > FIVE_MINUTES);
    fixture.until_next();
    fixture.found_at(80, Families::DUAL, 100, 0);
    assert_eq!(interval(), FIVE_MINUTES);
}

/// Stands for the owner of services: who left, and of whom it heard that no connection has them.
struct Keeper {
    left: Vec<LeavingBackend>,
    unused: Rc<RefCell<Vec<u32>>>,
    answers: bool,
    unanswered: Vec<Reply<Vec<LeavingBackend>>>,
}

impl Behaviour for Keeper {
    type Msg = ServicesMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: ServicesMsg, _: &mut Cx<'_, Self>) {
        match msg {
            ServicesMsg::Leaving(reply) if self.answers => reply.send(self.left.clone()),
            ServicesMsg::Leaving(reply) => self.unanswered.push(reply),
            ServicesMsg::Unused(all) => {
                self.unused.borrow_mut().extend(all.iter().map(|it| it.id.0))
            }
            _ => {}
        }
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

/// A collector that looks for backend 4, of IPv4, and for 6 and 7, of IPv6; what is told of them.
fn looking(answers: bool) -> (Fixture, Rc<RefCell<Vec<u32>>>) {
    let fixture = Fixture::begun(None);
    let left = [(4, true), (6, false), (7, false)];
    let left = left.map(|(id, is_ipv4)| LeavingBackend { id: BackendId(id), is_ipv4, nth: 1 });
    let unused = Rc::<RefCell<Vec<u32>>>::default();
    let told = Rc::clone(&unused);
    let make = move || Keeper {
        left: left.to_vec(),
        unused: Rc::clone(&told),
        answers,
        unanswered: Vec::new(),
    };
    let services = fixture.universe.spawn("services", make);
    fixture.conntrack.tell(ConntrackMsg::LookFor(services)).unwrap();
    fixture.universe.settle();
    (fixture, unused)
}

fn looked_for(families: Families, backends: &[u32]) -> KernelOp {
    let backends = backends.iter().copied().map(BackendId).collect();
    KernelOp::CollectConntrack { families, backends }
}

/// Answers the round that is under way: these have connections.
fn found_used(fixture: &Fixture, used: &[u32]) -> Vec<KernelOp> {
    let used: BTreeSet<_> = used.iter().copied().map(BackendId).collect();
    let (connections, translations) = (Swept::default(), Swept::default());
    let outcome = KernelOutcome::Collected { connections, translations, fill: 0, used };
    let ops = fixture.kernel.answer(|_| outcome.clone());
    fixture.universe.settle();
    ops
}

#[test]
fn who_left_is_looked_for_and_of_whom_nothing_was_found_that_is_told() {
    let (fixture, unused) = looking(true);
    fixture.until_next();
    assert_eq!(found_used(&fixture, &[6]), [looked_for(Families::DUAL, &[4, 6, 7])]);
    assert_eq!(*unused.borrow(), [4, 7]);
    // A round over one family says nothing of the other.
    fixture.full(IPV6);
    fixture.until_next();
    assert_eq!(found_used(&fixture, &[]), [looked_for(IPV6, &[6, 7])]);
    assert_eq!(*unused.borrow(), [4, 7, 6, 7]);
    // Also after a crash.
    fixture.crash();
    fixture.until_next();
    assert_eq!(found_used(&fixture, &[4, 6, 7]), [looked_for(Families::DUAL, &[4, 6, 7])]);
    assert_eq!(unused.borrow().len(), 4);
}

#[test]
fn a_round_that_failed_proves_nothing() {
    let (fixture, unused) = looking(true);
    fixture.until_next();
    fixture.kernel.fail();
    fixture.universe.settle();
    assert_eq!(*unused.borrow(), [0_u32; 0]);
}

#[test]
fn rounds_do_not_wait_long_for_who_does_not_say_whom_to_look_for() {
    let (fixture, unused) = looking(false);
    fixture.universe.advance(FIVE_MINUTES);
    assert_eq!(fixture.kernel.pending(), 0);
    fixture.universe.advance(TEN_SECONDS);
    assert_eq!(found_used(&fixture, &[]), [collect(Families::DUAL)]);
    assert_eq!(*unused.borrow(), [0_u32; 0]);
    assert_eq!(fixture.status().rounds, 1);
}
