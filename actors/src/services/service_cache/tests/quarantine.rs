//! Backends that are kept from new connections, as long as there are others.

use std::{cell::Cell, rc::Rc};

use serde_json::{Value, json};

use super::town::{Town, at, frontend, gone, place, service, slice};
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

fn served() -> Town {
    let town = Town::new();
    town.tell(&everything());
    town
}

fn done(town: &Town, at: &str, wanted: bool) {
    assert_eq!(town.quarantine(at, wanted).now(), Some(Ok(Ok(()))));
}

fn state(town: &Town, id: u32) -> BackendState {
    town.maps().backends[&(BackendId(id), true)].state
}

#[test]
fn who_is_quarantined_is_there_and_nobody_new_finds_it() {
    let town = served();
    let before = town.list();
    let seen = Rc::new(Cell::new(0));
    let steps = Rc::clone(&seen);
    town.kernel.watch(move |state, op| {
        let landing = state.services.landing(frontend("10.96.0.1:80"));
        assert!(matches!(landing, Landing::At(_)), "behind {op:?}: {landing:?}");
        steps.set(steps.get() + 1);
    });
    done(&town, ONE, true);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(
        (state(&town, 1), state(&town, 2)),
        (BackendState::Quarantined, BackendState::Active)
    );
    let slots = town.list().remove(0).backends;
    let [used, kept] = [(2, TWO, BackendState::Active), (1, ONE, BackendState::Quarantined)];
    let view = |(id, at, state)| (BackendId(id), Some(place(at)), state);
    assert_eq!(slots, [view(used), view(kept)]);
    assert_eq!(town.status().quarantined, 1);
    // What its sources say next, and asking twice, changes nothing of it.
    town.tell(&[slice("web-b", "web", &["10.0.1.1"])]);
    let writes = town.kernel.writes().len();
    done(&town, ONE, true);
    assert_eq!(town.writes_since(writes), []);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO, "10.0.1.1:8080"]));
    town.tell(&[gone(slice("web-b", "web", &[]))]);
    done(&town, ONE, false);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE, TWO]));
    assert!(seen.get() > 8, "{} steps were seen", seen.get());
    let (mut now, mut then) = (town.list(), before);
    [&mut now, &mut then].into_iter().for_each(|list| list[0].backends.sort());
    assert_eq!(now, then, "with the numbers that they had");
}

#[test]
fn all_services_that_it_serves_keep_clients_from_it() {
    let town = served();
    town.tell(&[service("db", "10.96.0.2"), slice("db-a", "db", &["10.0.0.1", "10.0.0.3"])]);
    done(&town, ONE, true);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(town.landing("10.96.0.2:80"), at(&["10.0.0.3:8080"]));
    town.tell(&[service("new", "10.96.0.3"), slice("new-a", "new", &["10.0.0.1", "10.0.0.2"])]);
    assert_eq!(town.landing("10.96.0.3:80"), at(&[TWO]));
}

#[test]
fn where_there_is_nobody_else_it_serves_and_that_is_named() {
    let town = served();
    done(&town, ONE, true);
    done(&town, TWO, true);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE, TWO]));
    let problems = town.status().problems;
    assert_eq!(
        problems,
        [(
            "shop/web".to_owned(),
            "all who serve 10.96.0.1:80/TCP are quarantined, and serve as if they were not: release \
             one, or see that there are others"
                .to_owned()
        )]
    );
    done(&town, TWO, false);
    assert_eq!((town.landing("10.96.0.1:80"), town.status().problems), (at(&[TWO]), vec![]));
}

/// Hints say who is near; who is not, and takes new connections, counts more than who is and does not.
#[test]
fn where_all_who_are_near_are_quarantined_others_serve() {
    let town = Town::new();
    let hinted = |nodes: [&str; 2]| {
        let mut slice = slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]);
        for (at, node) in nodes.into_iter().enumerate() {
            slice["endpoints"][at]["hints"] = json!({"forNodes": [{"name": node}]});
        }
        slice
    };
    town.tell(&[service("web", "10.96.0.1"), hinted(["here", "far"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]));
    done(&town, ONE, true);
    assert_eq!((town.landing("10.96.0.1:80"), town.status().problems), (at(&[TWO]), vec![]));
    done(&town, TWO, true);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]), "nobody is left");
    done(&town, TWO, false);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]), "no slot led there");
    done(&town, TWO, true);
    done(&town, ONE, false);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]));
    town.tell(&[hinted(["far", "here"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]));
}

#[test]
fn it_holds_over_restarts_and_can_be_asked_for_before_anybody_named_it() {
    let mut town = served();
    done(&town, ONE, true);
    let maps = town.maps();
    let writes = town.kernel.writes().len();
    town.restart();
    town.tell(&everything());
    assert_eq!((town.writes_since(writes), town.maps()), (vec![], maps));
    // The API server does not answer yet.
    town.restart();
    done(&town, ONE, false);
    done(&town, TWO, true);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]));
    assert_eq!(
        (state(&town, 1), state(&town, 2)),
        (BackendState::Active, BackendState::Quarantined)
    );
    town.restart();
    town.tell(&everything());
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE]));
}

#[test]
fn who_is_not_listed_any_more_is_forgotten() {
    let town = served();
    done(&town, ONE, true);
    for condition in ["-ending", "-leaving", "-unready", ""] {
        let first = format!("10.0.0.1{condition}");
        town.tell(&[slice("web-a", "web", &[&first, "10.0.0.2"])]);
        assert_eq!(state(&town, 1), BackendState::Quarantined, "it is listed: {condition}");
        assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]));
    }
    town.tell(&[slice("web-a", "web", &["10.0.0.1-unready", "10.0.0.2-unready"])]);
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoBackend);
    let states = |town: &Town| town.maps().backends.values().map(|it| it.state).collect::<Vec<_>>();
    let rests = BackendState::Maintenance;
    assert_eq!(states(&town), [BackendState::Quarantined, rests], "what is remembered");
    done(&town, ONE, false);
    assert_eq!(states(&town), [rests, rests], "and is no longer");
    town.tell(&[slice("web-a", "web", &["10.0.0.1"])]);
    done(&town, ONE, true);
    town.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(town.status().quarantined, 0);
    assert_eq!(town.quarantine(ONE, true).now(), Some(Ok(Err(UnknownBackend(place(ONE))))));
    town.tell(&[slice("web-a", "web", &["10.0.0.1", "10.0.0.2"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE, TWO]));
}

#[test]
fn the_answer_waits_until_the_kernel_has_it() {
    let town = served();
    town.fate.at(0, Turn::Half);
    let mut answer = town.quarantine(ONE, true);
    assert_eq!(answer.now(), None);
    town.wait(40);
    assert_eq!(answer.now(), Some(Ok(Ok(()))));
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]));
}

#[test]
fn backends_that_another_cluster_may_name_stay_quarantined() {
    let mut town = Town::told_by(&[ServiceSource::Cluster, ServiceSource::Mesh]);
    let [mut web, members] = everything();
    web["metadata"]["annotations"] = json!({"service.cilium.io/global": "true"});
    town.tell(&[web.clone(), members]);
    done(&town, ONE, true);
    town.restart();
    // The other cluster does not answer yet.
    town.tell(&[web, slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(state(&town, 1), BackendState::Quarantined);
    done(&town, ONE, false);
    assert_eq!(town.landing("10.96.0.1:80"), at(&[ONE, TWO]));
}
