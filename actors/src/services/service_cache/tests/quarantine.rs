//! Backends that are kept from new connections, as long as there are others.

use std::{cell::Cell, rc::Rc};

use serde_json::{Value, json};

use super::fixture::{Fixture, at, frontend, gone, place, service, slice};
use crate::{
    model::BackendId,
    ports::BackendState,
    services::service_cache::{ServiceSource, UnknownBackend},
    testing::{Landing, Turn},
};

const ONE: &str = "10.0.0.1:8080";
const TWO: &str = "10.0.0.2:8080";

fn everything() -> [Value; 2] {
    [service("web", "10.96.0.1"), slice("web-a", "web", &["10.0.0.1", "10.0.0.2"])]
}

fn served() -> Fixture {
    let fixture = Fixture::new();
    fixture.tell(&everything());
    fixture
}

fn done(fixture: &Fixture, at: &str, expected: bool) {
    assert_eq!(fixture.quarantine(at, expected).now(), Some(Ok(Ok(()))));
}

fn state(fixture: &Fixture, id: u32) -> BackendState {
    fixture.maps().backends[&(BackendId(id), true)].state
}

#[test]
fn who_is_quarantined_is_there_and_nobody_new_finds_it() {
    let fixture = served();
    let before = fixture.list();
    let seen = Rc::new(Cell::new(0));
    let steps = Rc::clone(&seen);
    fixture.kernel.watch(move |state, op| {
        let landing = state.services.landing(frontend("10.96.0.1:80"));
        assert!(matches!(landing, Landing::At(_)), "behind {op:?}: {landing:?}");
        steps.set(steps.get() + 1);
    });
    done(&fixture, ONE, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(
        (state(&fixture, 1), state(&fixture, 2)),
        (BackendState::Quarantined, BackendState::Active)
    );
    let slots = fixture.list().remove(0).backends;
    let [used, retained] = [(2, TWO, BackendState::Active), (1, ONE, BackendState::Quarantined)];
    let view = |(id, at, state)| (BackendId(id), Some(place(at)), state);
    assert_eq!(slots, [view(used), view(retained)]);
    assert_eq!(fixture.status().quarantined, 1);
    // What its sources say next, and asking twice, changes nothing of it.
    fixture.tell(&[slice("web-b", "web", &["10.0.1.1"])]);
    let writes = fixture.kernel.writes().len();
    done(&fixture, ONE, true);
    assert_eq!(fixture.writes_since(writes), []);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO, "10.0.1.1:8080"]));
    fixture.tell(&[gone(slice("web-b", "web", &[]))]);
    done(&fixture, ONE, false);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE, TWO]));
    assert!(seen.get() > 8, "{} steps were seen", seen.get());
    let (mut now, mut then) = (fixture.list(), before);
    [&mut now, &mut then].into_iter().for_each(|list| list[0].backends.sort());
    assert_eq!(now, then, "with the numbers that they had");
}

#[test]
fn all_services_that_it_serves_keep_clients_from_it() {
    let fixture = served();
    fixture.tell(&[service("db", "10.96.0.2"), slice("db-a", "db", &["10.0.0.1", "10.0.0.3"])]);
    done(&fixture, ONE, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(fixture.landing("10.96.0.2:80"), at(&["10.0.0.3:8080"]));
    fixture.tell(&[service("new", "10.96.0.3"), slice("new-a", "new", &["10.0.0.1", "10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.3:80"), at(&[TWO]));
}

#[test]
fn where_there_is_nobody_else_it_serves_and_that_is_named() {
    let fixture = served();
    done(&fixture, ONE, true);
    done(&fixture, TWO, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE, TWO]));
    let problems = fixture.status().problems;
    assert_eq!(
        problems,
        [(
            "shop/web".to_owned(),
            "all who serve 10.96.0.1:80/TCP are quarantined, and serve as if they were not: release \
             one, or see that there are others"
                .to_owned()
        )]
    );
    done(&fixture, TWO, false);
    assert_eq!((fixture.landing("10.96.0.1:80"), fixture.status().problems), (at(&[TWO]), vec![]));
}

/// Hints say who is near; who is not, and takes new connections, counts more than who is and does not.
#[test]
fn where_all_who_are_near_are_quarantined_others_serve() {
    let fixture = Fixture::new();
    let hinted = |nodes: [&str; 2]| {
        let mut slice = slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]);
        for (at, node) in nodes.into_iter().enumerate() {
            slice["endpoints"][at]["hints"] = json!({"forNodes": [{"name": node}]});
        }
        slice
    };
    fixture.tell(&[service("web", "10.96.0.1"), hinted(["here", "far"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
    done(&fixture, ONE, true);
    assert_eq!((fixture.landing("10.96.0.1:80"), fixture.status().problems), (at(&[TWO]), vec![]));
    done(&fixture, TWO, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]), "nobody is left");
    done(&fixture, TWO, false);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]), "no slot led there");
    done(&fixture, TWO, true);
    done(&fixture, ONE, false);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
    fixture.tell(&[hinted(["far", "here"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
}

#[test]
fn it_holds_over_restarts_and_can_be_asked_for_before_anybody_named_it() {
    let mut fixture = served();
    done(&fixture, ONE, true);
    let maps = fixture.maps();
    let writes = fixture.kernel.writes().len();
    fixture.restart();
    fixture.tell(&everything());
    assert_eq!((fixture.writes_since(writes), fixture.maps()), (vec![], maps));
    // The API server does not answer yet.
    fixture.restart();
    done(&fixture, ONE, false);
    done(&fixture, TWO, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
    assert_eq!(
        (state(&fixture, 1), state(&fixture, 2)),
        (BackendState::Active, BackendState::Quarantined)
    );
    fixture.restart();
    fixture.tell(&everything());
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
}

#[test]
fn who_is_not_listed_any_more_is_forgotten() {
    let fixture = served();
    done(&fixture, ONE, true);
    for condition in ["-ending", "-leaving", "-unready", ""] {
        let first = format!("10.0.0.1{condition}");
        fixture.tell(&[slice("web-a", "web", &[&first, "10.0.0.2"])]);
        assert_eq!(state(&fixture, 1), BackendState::Quarantined, "it is listed: {condition}");
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
    }
    fixture.tell(&[slice("web-a", "web", &["10.0.0.1-unready", "10.0.0.2-unready"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    let states =
        |fixture: &Fixture| fixture.maps().backends.values().map(|it| it.state).collect::<Vec<_>>();
    let rests = BackendState::Maintenance;
    assert_eq!(states(&fixture), [BackendState::Quarantined, rests], "what is remembered");
    done(&fixture, ONE, false);
    assert_eq!(states(&fixture), [rests, rests], "and is no longer");
    fixture.tell(&[slice("web-a", "web", &["10.0.0.1"])]);
    done(&fixture, ONE, true);
    fixture.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(fixture.status().quarantined, 0);
    assert_eq!(fixture.quarantine(ONE, true).now(), Some(Ok(Err(UnknownBackend(place(ONE))))));
    fixture.tell(&[slice("web-a", "web", &["10.0.0.1", "10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE, TWO]));
}

#[test]
fn the_answer_waits_until_the_kernel_has_it() {
    let fixture = served();
    fixture.fate.at(0, Turn::Half);
    let mut answer = fixture.quarantine(ONE, true);
    assert_eq!(answer.now(), None);
    fixture.wait(40);
    assert_eq!(answer.now(), Some(Ok(Ok(()))));
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
}

#[test]
fn backends_that_another_cluster_may_name_stay_quarantined() {
    let mut fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Mesh]);
    let [mut web, members] = everything();
    web["metadata"]["annotations"] = json!({"service.cilium.io/global": "true"});
    fixture.tell(&[web.clone(), members]);
    done(&fixture, ONE, true);
    fixture.restart();
    // The other cluster does not answer yet.
    fixture.tell(&[web, slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(state(&fixture, 1), BackendState::Quarantined);
    done(&fixture, ONE, false);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE, TWO]));
}
