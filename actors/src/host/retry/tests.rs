//! Tests of trying again: how long pauses are, and that a question and a pause exclude each other.

use std::{cell::RefCell, rc::Rc, time::Duration};

use super::*;
use crate::host::{Message, Ref, Universe};

const SECOND: Duration = Duration::from_secs(1);
const PAUSES: Pauses = Pauses::Linear { step: SECOND, most: Duration::from_secs(3) };

#[test]
fn pauses_stay_grow_by_steps_or_double_up_to_the_longest() {
    let spans = |pauses: Pauses| [1, 2, 3, 4, u32::MAX].map(|n| pauses.after(n).as_secs());
    let most = Duration::from_secs(6);
    assert_eq!(spans(Pauses::Fixed(SECOND)), [1; 5]);
    assert_eq!(spans(Pauses::Linear { step: SECOND * 2, most }), [2, 4, 6, 6, 6]);
    assert_eq!(spans(Pauses::Doubling { first: SECOND, most }), [1, 2, 4, 6, 6]);
}

/// Does to its retry what it is told, and notes what comes of it.
struct Asker {
    retry: Retry,
    heard: Rc<RefCell<Vec<&'static str>>>,
}

/// What is done to the retry.
type Deed = Box<dyn FnOnce(&mut Retry, &mut Cx<'_, Asker>)>;

struct Do(Deed);
struct Again(&'static str);

impl Message for Do {
    fn kind(&self) -> &'static str {
        "Do"
    }
}

impl Message for Again {
    fn kind(&self) -> &'static str {
        "Again"
    }
}

impl Behaviour for Asker {
    type Msg = Do;
    type Answer = Again;
    type Observed = ();

    fn handle(&mut self, Do(act): Do, cx: &mut Cx<'_, Self>) {
        act(&mut self.retry, cx);
    }

    fn answered(&mut self, Again(which): Again, _: &mut Cx<'_, Self>) {
        self.retry.over();
        self.heard.borrow_mut().push(which);
    }

    fn observe(&self) {}
}

struct Fixture {
    universe: Universe,
    asker: Ref<Do>,
    heard: Rc<RefCell<Vec<&'static str>>>,
}

impl Fixture {
    fn new() -> Self {
        let (universe, heard) = (Universe::default(), Rc::<RefCell<Vec<_>>>::default());
        let notes = Rc::clone(&heard);
        let make = move || Asker { retry: Retry::default(), heard: Rc::clone(&notes) };
        let asker = universe.spawn("asker", make);
        Self { universe, asker, heard }
    }

    fn act(&self, act: impl FnOnce(&mut Retry, &mut Cx<'_, Asker>) + 'static) {
        assert!(self.asker.tell(Do(Box::new(act))).is_ok());
        self.universe.settle();
    }

    fn heard_after(&self, span: Duration) -> Vec<&'static str> {
        self.universe.advance(span);
        self.heard.take()
    }
}

#[test]
fn nothing_is_asked_amid_a_question_or_a_pause_and_pauses_grow_until_it_is_done() {
    let fixture = Fixture::new();
    fixture.act(|retry, cx| {
        assert!(retry.begin() && retry.is_asked());
        assert!(!retry.begin() && !retry.begin_now(cx));
        assert_eq!(retry.failed(PAUSES, cx, Again("first")), SECOND);
        assert!(!retry.begin() && retry.is_pausing());
    });
    assert_eq!(fixture.heard_after(SECOND), ["first"]);
    fixture.act(|retry, cx| {
        assert!(retry.begin());
        assert_eq!(retry.failed(PAUSES, cx, Again("second")), SECOND * 2);
        retry.over();
        assert!(retry.begin());
        retry.answered();
        assert_eq!((retry.is_idle(), retry.failures()), (true, 2));
        retry.succeeded();
        assert_eq!(retry.count_failure(PAUSES), SECOND);
    });
}

#[test]
fn there_is_one_timer() {
    let fixture = Fixture::new();
    fixture.act(|retry, cx| {
        retry.pause(cx, SECOND, Again("replaced"));
        retry.pause(cx, SECOND * 2, Again("set"));
        retry.pause_once(cx, SECOND, Again("too many"));
    });
    assert_eq!(fixture.heard_after(SECOND * 3), ["set"]);
    fixture.act(|retry, cx| {
        retry.pause(cx, SECOND, Again("ended"));
        assert!(retry.begin_now(cx));
    });
    assert!(fixture.heard_after(SECOND * 3).is_empty());
}

#[test]
fn a_pause_in_sight_is_a_wait_with_a_reason() {
    let fixture = Fixture::new();
    fixture.act(|retry, cx| {
        retry.pause_in_sight(cx, ("shop", SECOND), "it is shut", || Again("open"))
    });
    let why = |it: &crate::host::Waits| it.iter().map(|wait| wait.why.to_string()).collect();
    let reasons: Vec<String> = fixture.universe.host.with_waits(why);
    assert_eq!(reasons, ["it is shut"]);
    assert_eq!(fixture.heard_after(SECOND), ["open"]);
    fixture.act(|retry, _| assert!(retry.is_idle()));
}
