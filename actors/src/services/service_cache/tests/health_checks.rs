//! What load balancers are told that ask this node for a service.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::fixture::{Fixture, gone, service, slice};
use crate::{
    host::{Behaviour, Cx, NoAnswer, Universe},
    model::{Families, Feed, Manifest, drift::DriftWatch},
    ports::{ObjectKey, ServiceTables},
    services::{
        health_checks::{HealthChange, HealthCheck, HealthChecksMsg},
        service_cache::{Balancing, ServiceSource, Services, ServicesMsg, ServicesSettings},
    },
    testing::{Fate, MemoryKernel, crash},
};

/// A service that load balancers ask for at that port.
fn asked(name: &str, port: u16) -> Value {
    asked_at("10.96.0.1", name, port)
}

/// The same at another address.
fn asked_at(address: &str, name: &str, port: u16) -> Value {
    let mut service = service(name, address);
    let spec = &mut service["spec"];
    spec["type"] = json!("LoadBalancer");
    spec["externalTrafficPolicy"] = json!("Local");
    spec["healthCheckNodePort"] = json!(port);
    service
}

fn answers(fixture: &Fixture) -> Vec<(u16, usize)> {
    let all = fixture.listeners.answers().into_iter();
    all.map(|(port, _, endpoints)| (port, endpoints)).collect()
}

#[test]
fn pods_of_this_node_count_that_take_new_connections() {
    let fixture = Fixture::new();
    fixture.tell(&[asked("web", 31000)]);
    assert_eq!(fixture.listeners.answers(), [(31000, "shop/web".to_owned(), 0)]);
    for (members, count) in [
        (&["10.0.0.1"][..], 0),
        (&["10.0.0.1@here"], 1),
        (&["10.0.0.1@here", "10.0.0.2@here", "10.0.0.3"], 2),
        (&["10.0.0.1@here-ending", "10.0.0.2@here"], 1),
        // Packets reach it still, but no more are to come.
        (&["10.0.0.1@here-ending"], 0),
        (&["10.0.0.1@here-leaving"], 0),
    ] {
        fixture.tell(&[slice("web-a", "web", members)]);
        assert_eq!(answers(&fixture), [(31000, count)], "{members:?}");
    }
    fixture.tell(&[slice("web-a", "web", &["10.0.0.1@here", "10.0.0.2@here"])]);
    for (backend, expected, count) in
        [(1, true, 1), (2, true, 2), (1, false, 1), (1, true, 2), (2, false, 1)]
    {
        let asked = fixture.quarantine(&format!("10.0.0.{backend}:8080"), expected).now();
        assert_eq!(asked, Some(Ok(Ok(()))));
        assert_eq!(answers(&fixture), [(31000, count)], "{backend} {expected}");
    }
    // Somebody elsewhere serves.
    assert_eq!(fixture.quarantine("10.0.0.2:8080", true).now(), Some(Ok(Ok(()))));
    fixture.tell(&[slice("web-b", "web", &["10.0.0.3"])]);
    assert_eq!(answers(&fixture), [(31000, 0)]);
}

#[test]
fn a_service_for_which_there_is_no_room_has_no_pods_here() {
    let mut fixture = Fixture::new();
    fixture.kernel.tamper(|state| state.services.room = 8);
    fixture.restart();
    let mut wide = asked_at("10.96.0.2", "wide", 31001);
    let ports: Vec<_> = (1..20).map(|at| json!({"name": format!("p{at}"), "port": at})).collect();
    wide["spec"]["ports"] = json!(ports);
    let mut many = slice("wide-a", "wide", &["10.0.0.9@here"]);
    many["ports"] = wide["spec"]["ports"].clone();
    let slice = slice("web-a", "web", &["10.0.0.1@here"]);
    fixture.tell(&[asked("web", 31000), slice, wide, many]);
    assert_eq!(answers(&fixture), [(31000, 1), (31001, 0)]);
}

#[test]
fn a_pod_counts_once_whatever_it_serves_and_by_whatever_family() {
    let fixture = Fixture::new();
    let mut web = asked("web", 31000);
    web["spec"]["ports"] = json!([{"name": "", "port": 80}, {"name": "tls", "port": 443}]);
    let mut four = slice("web-a", "web", &["10.0.0.1@here", "10.0.0.2@here"]);
    four["ports"] = json!([{"name": "", "port": 8080}, {"name": "tls", "port": 8443}]);
    fixture.tell(&[web, four, slice("web-b", "web", &["fd00::1@here"])]);
    assert_eq!(answers(&fixture), [(31000, 2)]);
    // Somebody whom no port of the service means is nobody's.
    let mut other = slice("web-a", "web", &["10.0.0.1@here"]);
    other["ports"] = json!([{"name": "metrics", "port": 9090}]);
    fixture.tell(&[other, gone(slice("web-b", "web", &[]))]);
    assert_eq!(answers(&fixture), [(31000, 0)]);
}

#[test]
fn only_a_load_balancer_that_wants_pods_of_the_node_asks() {
    let fixture = Fixture::new();
    let members = slice("web-a", "web", &["10.0.0.1@here"]);
    fixture.tell(&[asked("web", 31000), members]);
    for (field, other) in [
        ("type", json!("NodePort")),
        ("externalTrafficPolicy", json!("Cluster")),
        ("healthCheckNodePort", json!(0)),
        ("healthCheckNodePort", Value::Null),
    ] {
        let mut web = asked("web", 31000);
        web["spec"][field] = other;
        fixture.tell(&[web]);
        assert_eq!(answers(&fixture), [], "{field}");
        fixture.tell(&[asked("web", 31000)]);
        assert_eq!(answers(&fixture), [(31000, 1)]);
    }
    fixture.tell(&[asked("web", 31001)]);
    assert_eq!(answers(&fixture), [(31001, 1)]);
    fixture.tell(&[gone(asked("web", 31001))]);
    assert_eq!(answers(&fixture), []);
}

#[test]
fn a_port_that_is_none_is_refused_by_name() {
    let fixture = Fixture::new();
    fixture.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    for rubbish in [json!(65_536), json!(-1)] {
        let mut web = asked("web", 0);
        web["spec"]["healthCheckNodePort"] = rubbish.clone();
        fixture.tell(&[web.clone()]);
        let refused = fixture.status().refused;
        assert_eq!(refused.len(), 1, "{rubbish}");
        let (_, it) = &refused[0];
        assert_eq!((&*it.object, &*it.path), ("Service shop/web", "spec.healthCheckNodePort"));
        assert_eq!(it.remedy, "write a number from 1 to 65535");
        assert_eq!(answers(&fixture), [(31000, 1)], "what was before stays");
        // Where nobody asks nobody minds.
        web["spec"]["type"] = json!("ClusterIP");
        fixture.tell(&[web, asked("web", 31000)]);
        assert_eq!(fixture.status().refused, []);
    }
    // What no number is, no server has.
    for (rubbish, remedy) in [
        (json!("31001"), "remove the quotes: 31001"),
        (json!(1.5), "write a whole number, as in 80"),
    ] {
        let mut web = asked("web", 0);
        web["spec"]["healthCheckNodePort"] = rubbish;
        fixture.tell(&[web]);
        let refused = fixture.status().refused;
        let [(_, it)] = refused.as_slice() else { panic!("{refused:?}") };
        assert_eq!((&*it.object, &*it.path), ("Service shop/web", "spec.healthCheckNodePort"));
        assert_eq!(it.remedy, remedy);
        assert_eq!(answers(&fixture), [(31000, 1)], "what was before stays");
        fixture.tell(&[asked("web", 31000)]);
        assert_eq!(fixture.status().refused, []);
    }
}

#[test]
fn only_what_changes_is_told() {
    let fixture = Fixture::new();
    let service_of = |number: u16| {
        asked_at(&format!("10.96.2.{number}"), &format!("s{number}"), 31_000 + number)
    };
    let all: Vec<_> = (1..=9).map(service_of).collect();
    fixture.tell(&all);
    let before = fixture.listeners.done();
    assert_eq!(before, 9);
    fixture.tell(&[slice("s3-a", "s3", &["10.0.0.1@here"]), service("other", "10.96.0.9")]);
    fixture.tell(&[slice("s3-b", "s3", &["10.0.0.2"])]);
    fixture.host_addresses(&["192.0.2.7"]);
    assert_eq!(fixture.listeners.done(), before + 1);
    assert_eq!(answers(&fixture)[2], (31_003, 1));
}

#[test]
fn nobody_is_answered_before_all_is_known() {
    let mut fixture = Fixture::new();
    fixture.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    fixture.restart();
    assert_eq!(answers(&fixture), [], "an answer would be a guess");
    // More than is read at once, and the pods come last.
    let many =
        (0..2000).map(|n| service(&format!("n{n}"), &format!("10.97.{}.{}", n / 250, n % 250)));
    let members = slice("web-a", "web", &["10.0.0.1@here"]);
    fixture.announce(
        &[asked("web", 31000)].into_iter().chain(many).chain([members]).collect::<Vec<_>>(),
    );
    while answers(&fixture).is_empty() {
        let ran = fixture.universe.step(0) | fixture.listeners.step() | fixture.kernel.step(0);
        assert!(ran, "nobody is ever answered");
    }
    assert_eq!(answers(&fixture), [(31000, 1)], "its first answer is right");
}

#[test]
fn files_are_asked_for_as_objects_are() {
    let fixture = Fixture::told_by(&[ServiceSource::Manifests]);
    let file = |objects: Vec<Value>| {
        let manifest = Manifest {
            source: "web.yaml".to_owned(),
            objects: Ok(objects.into_iter().map(Into::into).collect()),
        };
        fixture.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        fixture.settle();
    };
    file(vec![asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    assert_eq!(answers(&fixture), [(31000, 1)]);
    file(vec![]);
    assert_eq!(answers(&fixture), []);
}

#[test]
fn a_crash_closes_no_port_and_leaves_none() {
    let fixture = Fixture::new();
    fixture.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    let before = fixture.listeners.done();
    fixture.services.tell(ServicesMsg::Show(crash())).unwrap();
    fixture.settle();
    assert_eq!((answers(&fixture), fixture.listeners.done()), (vec![(31000, 1)], before));
    // It goes with something that is being told.
    fixture.announce(&[asked("db", 31001), gone(asked("web", 0))]);
    fixture.universe.step(0);
    fixture.services.tell(ServicesMsg::Show(crash())).unwrap();
    fixture.settle();
    assert_eq!(answers(&fixture), [(31001, 0)]);
}

/// Stands for who answers; crashes over the first thing that it hears once it is told to.
struct Answerer(Rc<RefCell<(bool, Vec<HealthChange>)>>);

impl Behaviour for Answerer {
    type Msg = HealthChecksMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: HealthChecksMsg, _: &mut Cx<'_, Self>) {
        let HealthChecksMsg::Set { all, changes, reply } = msg else { return };
        let mut retained = self.0.borrow_mut();
        if std::mem::take(&mut retained.0) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        if all {
            retained.1.clear();
        }
        retained.1.extend(changes);
        reply.send(());
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

#[test]
fn what_who_answers_crashes_over_is_told_again() {
    let retained = Rc::new(RefCell::new((false, Vec::new())));
    let theirs = Rc::clone(&retained);
    let universe = Universe::default();
    let answerer = universe.spawn("health-checks", move || Answerer(Rc::clone(&theirs)));
    let kernel = MemoryKernel::new(&Fate::default());
    let settings = ServicesSettings {
        node: "here".to_owned(),
        families: Families::DUAL,
        balancing: Balancing::default(),
        ends_tcp: false,
        sources: [ServiceSource::Cluster].into(),
    };
    let found = ServiceTables::default();
    let services = Services::factory(
        Rc::new(kernel),
        settings,
        found,
        None,
        Some(answerer),
        DriftWatch::default(),
    );
    let services = universe.spawn("services", services);
    let tell = |name: &str, port: u16| {
        let key = ObjectKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let objects = vec![("services", key, Some(asked(name, port).into()))];
        services.tell(ServicesMsg::Objects { feed: Feed::Services, objects }).unwrap();
        universe.advance(Duration::from_secs(60));
    };
    tell("web", 31000);
    retained.borrow_mut().0 = true;
    tell("db", 31001);
    let check = |port| Some(HealthCheck { port, local_endpoints: 0 });
    let expected = [("shop/db".into(), check(31001)), ("shop/web".into(), check(31000))];
    assert_eq!(retained.borrow().1, expected);
}
