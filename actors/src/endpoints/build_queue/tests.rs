//! Tests: permits go out in order, survive crashes, and are neither exceeded nor lost.

use std::time::Duration;

use proptest::prelude::*;

use super::{permits::SPARE, *};
use crate::{
    host::{Answer, AskError, Ref, Universe},
    model::EndpointId,
    testing::crash,
};

const PATIENCE: Duration = Duration::from_secs(330);

struct Fixture {
    universe: Universe,
    queue: Ref<BuildQueueMsg>,
}

impl Fixture {
    fn new(permits: usize) -> Self {
        let universe = Universe::default();
        let queue = universe.spawn("build-queue", BuildQueue::factory(permits));
        Self { universe, queue }
    }

    fn acquire(&self, endpoint: u16, class: Class) -> Answer<Permit> {
        let endpoint = EndpointId(endpoint);
        let answer = self.universe.host.ask(&self.queue, PATIENCE, "a permit", |reply| {
            BuildQueueMsg::Acquire { endpoint, class, reply }
        });
        self.universe.settle();
        answer
    }

    fn show(&self) -> Queued {
        let mut answer =
            self.universe.host.ask(&self.queue, PATIENCE, "the queue", BuildQueueMsg::Show);
        self.universe.settle();
        answer.now().unwrap().unwrap()
    }

    fn crash(&self) {
        // Refused while it rests with a full mailbox: then it crashed often enough, and the reply
        // must not be heard here.
        if let Err(refused) = self.queue.tell(BuildQueueMsg::Show(crash())) {
            std::mem::forget(refused);
        }
        self.universe.settle();
    }
}

fn granted(answer: &mut Answer<Permit>) -> Permit {
    answer.now().unwrap().unwrap()
}

fn ids(waiting: &[(EndpointId, Class)]) -> Vec<u16> {
    waiting.iter().map(|(endpoint, _)| endpoint.0).collect()
}

#[test]
fn new_pods_go_before_mass_and_order_is_kept_within() {
    let fixture = Fixture::new(1);
    let first = granted(&mut fixture.acquire(1, Class::Mass));
    let mut waiting = [
        fixture.acquire(2, Class::Mass),
        fixture.acquire(3, Class::Mass),
        fixture.acquire(4, Class::NewPod),
        fixture.acquire(5, Class::NewPod),
    ];
    assert_eq!(fixture.show().building, [EndpointId(1)]);
    assert_eq!(ids(&fixture.show().waiting), [4, 5, 2, 3]);
    drop(first);
    for next in [2, 3, 0, 1] {
        fixture.universe.settle();
        drop(granted(&mut waiting[next]));
    }
    fixture.universe.settle();
    assert_eq!(fixture.show(), Queued { permits: 1, building: vec![], waiting: vec![] });
}

#[test]
fn who_waits_already_keeps_the_better_place_and_its_earlier_question_ends() {
    let fixture = Fixture::new(1);
    let _building = granted(&mut fixture.acquire(1, Class::Mass));
    let mut early = fixture.acquire(2, Class::Mass);
    let _other = fixture.acquire(3, Class::Mass);
    let mut again = fixture.acquire(2, Class::Mass);
    assert_eq!(early.now().unwrap().unwrap_err(), AskError::Gone);
    assert_eq!(ids(&fixture.show().waiting), [2, 3]);

    let _urgent = fixture.acquire(3, Class::NewPod);
    let _not_worse = fixture.acquire(3, Class::Mass);
    assert_eq!(fixture.show().waiting[0], (EndpointId(3), Class::NewPod));
    assert!(again.now().is_none());
}

#[test]
fn a_permit_comes_back_from_a_holder_that_panics() {
    let fixture = Fixture::new(1);
    let permit = granted(&mut fixture.acquire(1, Class::Mass));
    let mut next = fixture.acquire(2, Class::Mass);
    let holder = std::panic::AssertUnwindSafe(move || {
        let _held = permit;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(std::panic::catch_unwind(holder).is_err());
    fixture.universe.settle();
    granted(&mut next);
}

#[test]
fn who_went_away_is_passed_over() {
    let fixture = Fixture::new(1);
    let building = granted(&mut fixture.acquire(1, Class::Mass));
    let unheard = fixture.acquire(3, Class::Mass);
    let mut heard = fixture.acquire(4, Class::Mass);
    assert_eq!(ids(&fixture.show().waiting), [3, 4]);
    drop(unheard);
    drop(building);
    fixture.universe.settle();
    granted(&mut heard);
}

#[test]
fn a_crash_of_the_queue_counts_on_and_ends_questions() {
    let fixture = Fixture::new(1);
    let building = granted(&mut fixture.acquire(1, Class::Mass));
    let mut waiting = fixture.acquire(2, Class::Mass);
    fixture.crash();
    assert!(waiting.now().unwrap().is_err());
    let mut again = fixture.acquire(2, Class::Mass);
    assert!(again.now().is_none());
    drop(building);
    fixture.universe.settle();
    granted(&mut again);
}

#[test]
fn who_builds_for_long_keeps_nobody_else_from_it() {
    let fixture = Fixture::new(2);
    let hung = [1, 2].map(|endpoint| granted(&mut fixture.acquire(endpoint, Class::Mass)));
    let mut next = [3, 4, 5].map(|endpoint| fixture.acquire(endpoint, Class::Mass));
    fixture.universe.advance(Duration::from_millis(900));
    assert!(next.iter_mut().all(|answer| answer.now().is_none()));
    fixture.universe.advance(Duration::from_millis(200));
    let [third, fourth, fifth] = &mut next;
    let (third, _fourth) = (granted(third), granted(fourth));
    assert!(fifth.now().is_none(), "no more at once than there are permits");
    drop(third);
    fixture.universe.settle();
    let _fifth = granted(fifth);
    drop(hung);
    fixture.universe.settle();
    assert_eq!(fixture.show().building, [EndpointId(4), EndpointId(5)]);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(u16, bool),
    DropOldest,
    Abandon(usize),
    Crash,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u16..12, any::<bool>()).prop_map(|(endpoint, new)| Step::Acquire(endpoint, new)),
        4 => Just(Step::DropOldest),
        2 => (0usize..8).prop_map(Step::Abandon),
        1 => Just(Step::Crash),
        1 => (1u64..400).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever happens, no more permits are out than there are, but for those that are held for
    /// long, and in the end all are back.
    #[test]
    fn permits_are_neither_exceeded_nor_lost(
        permits in 1usize..4,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let fixture = Fixture::new(permits);
        let mut asked: Vec<Answer<Permit>> = Vec::new();
        let mut held: Vec<Permit> = Vec::new();
        let mut most = permits;
        for step in steps {
            match step {
                Step::Acquire(endpoint, true) => asked.push(fixture.acquire(endpoint, Class::NewPod)),
                Step::Acquire(endpoint, false) => asked.push(fixture.acquire(endpoint, Class::Mass)),
                Step::DropOldest if !held.is_empty() => drop(held.remove(0)),
                Step::Abandon(nth) if nth < asked.len() => drop(asked.remove(nth)),
                Step::Crash => fixture.crash(),
                Step::Wait(seconds) => {
                    // Those that are held for so long count no more.
                    most = permits * (1 + SPARE);
                    fixture.universe.advance(Duration::from_secs(seconds));
                }
                _ => {}
            }
            fixture.universe.settle();
            asked.retain_mut(|answer| match answer.now() {
                Some(Ok(permit)) => {
                    held.push(permit);
                    false
                }
                Some(Err(_)) => false,
                None => true,
            });
            prop_assert!(held.len() <= most);
        }
        drop((asked, held));
        // After each crash that is still to come the cell rests, half a minute at most.
        fixture.universe.advance(Duration::from_secs(3600));
        let mut all: Vec<_> = (100..).take(permits).map(|id| fixture.acquire(id, Class::Mass)).collect();
        prop_assert!(all.iter_mut().all(|answer| matches!(answer.now(), Some(Ok(_)))));
    }
}
