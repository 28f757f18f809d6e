//! Tests: ports follow their services, also when a port is taken or the actor crashes.

use std::{rc::Rc, time::Duration};

use super::*;
use crate::{
    host::{Ref, Reply, Universe},
    testing::{MemoryListeners, crash},
};

struct Fixture {
    universe: Universe,
    listeners: MemoryListeners,
    checks: Ref<HealthChecksMsg>,
}

impl Fixture {
    fn new() -> Self {
        let (universe, listeners) = (Universe::default(), MemoryListeners::default());
        let make = HealthChecks::factory(Rc::new(listeners.clone()));
        let checks = universe.spawn("health-checks", make);
        universe.settle();
        Self { universe, listeners, checks }
    }

    /// The service `shop/NAME` is asked for at that port, or nowhere, and has so many pods.
    fn set(&self, changes: &[(&str, u16, usize)]) {
        self.say(false, changes, Reply::to(|_| {}));
        self.settle();
    }

    fn say(&self, all: bool, changes: &[(&str, u16, usize)], reply: Reply<()>) {
        let change = |(name, port, local_endpoints): &(&str, u16, usize)| {
            let check = HealthCheck { port: *port, local_endpoints: *local_endpoints };
            (format!("shop/{name}").into(), (*port > 0).then_some(check))
        };
        let changes = changes.iter().map(change).collect();
        self.checks.tell(HealthChecksMsg::Set { all, changes, reply }).unwrap();
    }

    fn settle(&self) {
        loop {
            self.universe.settle();
            if !self.listeners.step() {
                return;
            }
        }
    }

    fn wait(&self, seconds: u64) {
        for _ in 0..seconds {
            self.universe.advance(Duration::from_secs(1));
            self.settle();
        }
    }

    /// Who is answered for at which port, and with how many pods.
    fn answers(&self) -> String {
        let all = self.listeners.answers().into_iter();
        all.map(|(port, of, pods)| format!("{port} {of} {pods}; ")).collect()
    }

    fn problems(&self) -> Vec<String> {
        let show = HealthChecksMsg::Show;
        let mut all = self.universe.host.ask(&self.checks, Duration::from_secs(60), "test", show);
        self.universe.settle();
        let all = all.now().unwrap().unwrap().into_iter();
        all.filter_map(|it| Some(format!("{}: {}", it.service, it.problem?))).collect()
    }
}

#[test]
fn ports_come_change_and_go_with_their_services() {
    let fixture = Fixture::new();
    fixture.set(&[("web", 31000, 1), ("db", 31001, 0)]);
    assert_eq!(fixture.answers(), "31000 shop/web 1; 31001 shop/db 0; ");
    fixture.set(&[("web", 31000, 2)]);
    assert_eq!(fixture.answers(), "31000 shop/web 2; 31001 shop/db 0; ");
    fixture.set(&[("web", 31005, 2), ("db", 0, 0)]);
    assert_eq!(fixture.answers(), "31005 shop/web 2; ");
    let done = fixture.listeners.done();
    fixture.set(&[("web", 31005, 2), ("db", 0, 0)]);
    fixture.wait(100);
    assert_eq!(fixture.listeners.done(), done, "nothing is new");
    fixture.set(&[("web", 0, 0)]);
    assert_eq!((fixture.answers(), fixture.problems()), (String::new(), vec![]));
}

#[test]
fn what_changes_while_a_port_is_being_opened_is_answered_in_the_end() {
    let fixture = Fixture::new();
    for last in [("web", 31000, 3), ("web", 31001, 3), ("web", 0, 0)] {
        for change in [("web", 31000, 1), ("web", 31000, 2), ("web", 0, 0), last] {
            fixture.say(false, &[change], Reply::to(|_| {}));
            fixture.universe.settle();
        }
        fixture.settle();
        let (name, port, pods) = last;
        let expected =
            if port > 0 { format!("{port} shop/{name} {pods}; ") } else { String::new() };
        assert_eq!(fixture.answers(), expected);
    }
}

#[test]
fn who_came_first_has_a_port_and_the_next_gets_it_from_that_one() {
    let fixture = Fixture::new();
    fixture.set(&[("web", 31000, 1)]);
    fixture.set(&[("api", 31000, 2), ("db", 31000, 3)]);
    assert_eq!(fixture.answers(), "31000 shop/web 1; ");
    let said = fixture.problems();
    let expected = "its healthCheckNodePort 31000 is shop/web's: give one of the two another";
    assert_eq!(said, [format!("shop/api: {expected}"), format!("shop/db: {expected}")]);
    // What is new of it is no reason to lose it, and of the others no reason to get it.
    fixture.set(&[("api", 31000, 4), ("web", 31000, 5)]);
    assert_eq!(fixture.answers(), "31000 shop/web 5; ");
    fixture.set(&[("web", 31001, 5)]);
    assert_eq!(fixture.answers(), "31000 shop/api 4; 31001 shop/web 5; ");
    fixture.set(&[("api", 0, 0)]);
    assert_eq!(fixture.answers(), "31000 shop/db 3; 31001 shop/web 5; ");
    assert_eq!(fixture.problems(), [""; 0]);
}

#[test]
fn a_port_that_somebody_else_has_is_tried_again_ever_more_slowly() {
    let fixture = Fixture::new();
    fixture.listeners.take(&[31000]);
    fixture.set(&[("web", 31000, 1), ("db", 31001, 2)]);
    assert_eq!(fixture.answers(), "31001 shop/db 2; ", "others are answered for");
    let expected = "shop/web: its healthCheckNodePort 31000 answers nobody: port 31000 is taken";
    assert_eq!(fixture.problems(), [expected]);
    let before = fixture.listeners.done();
    fixture.wait(60);
    let tries = fixture.listeners.done() - before;
    assert!((5..=11).contains(&tries), "{tries} tries in a minute");
    fixture.wait(600);
    fixture.set(&[("web", 31000, 7)]);
    fixture.listeners.take(&[]);
    fixture.wait(31);
    assert_eq!(fixture.answers(), "31000 shop/web 7; 31001 shop/db 2; ");
    assert_eq!(fixture.problems(), [""; 0]);
    // One that goes while it waits for its turn waits no more.
    fixture.set(&[("web", 0, 0)]);
    fixture.listeners.take(&[31000]);
    fixture.set(&[("web", 31000, 7)]);
    fixture.set(&[("web", 0, 0)]);
    let before = fixture.listeners.done();
    fixture.wait(60);
    assert_eq!(
        (fixture.answers().as_str(), fixture.listeners.done()),
        ("31001 shop/db 2; ", before)
    );
}

#[test]
fn all_that_is_said_anew_leaves_nothing_stale() {
    let fixture = Fixture::new();
    fixture.set(&[("web", 31000, 1), ("db", 31001, 2), ("api", 31001, 3)]);
    fixture.say(true, &[("api", 31001, 3), ("web", 31000, 1)], Reply::to(|_| {}));
    fixture.settle();
    assert_eq!(fixture.answers(), "31000 shop/web 1; 31001 shop/api 3; ");
}

#[test]
fn a_crash_closes_no_port_and_loses_none() {
    let fixture = Fixture::new();
    fixture.set(&[("web", 31000, 1), ("db", 31001, 2)]);
    // It crashes over what it has taken in, and with a port of which it will not hear.
    fixture.say(false, &[("web", 31002, 1), ("db", 31001, 4), ("api", 31003, 1)], crash());
    fixture.universe.settle();
    assert_eq!(fixture.answers(), "31000 shop/web 1; 31001 shop/db 2; ", "they answer on");
    fixture.settle();
    assert_eq!(fixture.answers(), "31001 shop/db 4; 31002 shop/web 1; 31003 shop/api 1; ");
    fixture.say(false, &[("web", 31004, 1)], Reply::to(|_| {}));
    fixture.universe.settle();
    fixture.say(false, &[], crash());
    fixture.settle();
    assert_eq!(fixture.answers(), "31001 shop/db 4; 31003 shop/api 1; 31004 shop/web 1; ");
    // It is as it was, but for what it does not hear of.
    fixture.say(false, &[("web", 31004, 2)], Reply::to(|_| {}));
    fixture.universe.settle();
    fixture.say(false, &[("web", 31004, 1)], crash());
    fixture.settle();
    assert_eq!(fixture.answers(), "31001 shop/db 4; 31003 shop/api 1; 31004 shop/web 1; ");
}
