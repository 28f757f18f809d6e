//! What load balancers are told that ask this node for a service.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::town::{Town, gone, service, slice};
use crate::{
    host::{Behaviour, Cx, NoAnswer, Universe},
    model::{Families, Feed, Manifest, drift::Watch},
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

fn answers(town: &Town) -> Vec<(u16, usize)> {
    let all = town.listeners.answers().into_iter();
    all.map(|(port, _, endpoints)| (port, endpoints)).collect()
}

#[test]
fn pods_of_this_node_count_that_take_new_connections() {
    let town = Town::new();
    town.tell(&[asked("web", 31000)]);
    assert_eq!(town.listeners.answers(), [(31000, "shop/web".to_owned(), 0)]);
    for (members, count) in [
        (&["10.0.0.1"][..], 0),
        (&["10.0.0.1@here"], 1),
        (&["10.0.0.1@here", "10.0.0.2@here", "10.0.0.3"], 2),
        (&["10.0.0.1@here-ending", "10.0.0.2@here"], 1),
        // Packets reach it still, but no more are to come.
        (&["10.0.0.1@here-ending"], 0),
        (&["10.0.0.1@here-leaving"], 0),
    ] {
        town.tell(&[slice("web-a", "web", members)]);
        assert_eq!(answers(&town), [(31000, count)], "{members:?}");
    }
    town.tell(&[slice("web-a", "web", &["10.0.0.1@here", "10.0.0.2@here"])]);
    for (backend, wanted, count) in
        [(1, true, 1), (2, true, 2), (1, false, 1), (1, true, 2), (2, false, 1)]
    {
        let asked = town.quarantine(&format!("10.0.0.{backend}:8080"), wanted).now();
        assert_eq!(asked, Some(Ok(Ok(()))));
        assert_eq!(answers(&town), [(31000, count)], "{backend} {wanted}");
    }
    // Somebody elsewhere serves.
    assert_eq!(town.quarantine("10.0.0.2:8080", true).now(), Some(Ok(Ok(()))));
    town.tell(&[slice("web-b", "web", &["10.0.0.3"])]);
    assert_eq!(answers(&town), [(31000, 0)]);
}

#[test]
fn a_service_for_which_there_is_no_room_has_no_pods_here() {
    let mut town = Town::new();
    town.kernel.tamper(|state| state.services.room = 8);
    town.restart();
    let mut wide = asked_at("10.96.0.2", "wide", 31001);
    let ports: Vec<_> = (1..20).map(|at| json!({"name": format!("p{at}"), "port": at})).collect();
    wide["spec"]["ports"] = json!(ports);
    let mut many = slice("wide-a", "wide", &["10.0.0.9@here"]);
    many["ports"] = wide["spec"]["ports"].clone();
    let slice = slice("web-a", "web", &["10.0.0.1@here"]);
    town.tell(&[asked("web", 31000), slice, wide, many]);
    assert_eq!(answers(&town), [(31000, 1), (31001, 0)]);
}

#[test]
fn a_pod_counts_once_whatever_it_serves_and_by_whatever_family() {
    let town = Town::new();
    let mut web = asked("web", 31000);
    web["spec"]["ports"] = json!([{"name": "", "port": 80}, {"name": "tls", "port": 443}]);
    let mut four = slice("web-a", "web", &["10.0.0.1@here", "10.0.0.2@here"]);
    four["ports"] = json!([{"name": "", "port": 8080}, {"name": "tls", "port": 8443}]);
    town.tell(&[web, four, slice("web-b", "web", &["fd00::1@here"])]);
    assert_eq!(answers(&town), [(31000, 2)]);
    // Somebody whom no port of the service means is nobody's.
    let mut other = slice("web-a", "web", &["10.0.0.1@here"]);
    other["ports"] = json!([{"name": "metrics", "port": 9090}]);
    town.tell(&[other, gone(slice("web-b", "web", &[]))]);
    assert_eq!(answers(&town), [(31000, 0)]);
}

#[test]
fn only_a_load_balancer_that_wants_pods_of_the_node_asks() {
    let town = Town::new();
    let members = slice("web-a", "web", &["10.0.0.1@here"]);
    town.tell(&[asked("web", 31000), members]);
    for (field, other) in [
        ("type", json!("NodePort")),
        ("externalTrafficPolicy", json!("Cluster")),
        ("healthCheckNodePort", json!(0)),
        ("healthCheckNodePort", Value::Null),
    ] {
        let mut web = asked("web", 31000);
        web["spec"][field] = other;
        town.tell(&[web]);
        assert_eq!(answers(&town), [], "{field}");
        town.tell(&[asked("web", 31000)]);
        assert_eq!(answers(&town), [(31000, 1)]);
    }
    town.tell(&[asked("web", 31001)]);
    assert_eq!(answers(&town), [(31001, 1)]);
    town.tell(&[gone(asked("web", 31001))]);
    assert_eq!(answers(&town), []);
}

#[test]
fn a_port_that_is_none_is_refused_by_name() {
    let town = Town::new();
    town.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    for rubbish in [json!(65_536), json!(-1), json!("31001"), json!(1.5)] {
        let mut web = asked("web", 0);
        web["spec"]["healthCheckNodePort"] = rubbish.clone();
        town.tell(&[web.clone()]);
        let refused = town.status().refused;
        assert_eq!(refused.len(), 1, "{rubbish}");
        let (_, it) = &refused[0];
        assert_eq!((&*it.object, &*it.path), ("Service shop/web", "spec.healthCheckNodePort"));
        assert_eq!(it.remedy, "write a number from 1 to 65535");
        assert_eq!(answers(&town), [(31000, 1)], "what was before stays");
        // Where nobody asks nobody minds.
        web["spec"]["type"] = json!("ClusterIP");
        town.tell(&[web, asked("web", 31000)]);
        assert_eq!(town.status().refused, []);
    }
}

#[test]
fn only_what_changes_is_told() {
    let town = Town::new();
    let service_of = |number: u16| {
        asked_at(&format!("10.96.2.{number}"), &format!("s{number}"), 31_000 + number)
    };
    let all: Vec<_> = (1..=9).map(service_of).collect();
    town.tell(&all);
    let before = town.listeners.done();
    assert_eq!(before, 9);
    town.tell(&[slice("s3-a", "s3", &["10.0.0.1@here"]), service("other", "10.96.0.9")]);
    town.tell(&[slice("s3-b", "s3", &["10.0.0.2"])]);
    town.host_addresses(&["192.0.2.7"]);
    assert_eq!(town.listeners.done(), before + 1);
    assert_eq!(answers(&town)[2], (31_003, 1));
}

#[test]
fn nobody_is_answered_before_all_is_known() {
    let mut town = Town::new();
    town.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    town.restart();
    assert_eq!(answers(&town), [], "an answer would be a guess");
    // More than is read at once, and the pods come last.
    let many =
        (0..2000).map(|n| service(&format!("n{n}"), &format!("10.97.{}.{}", n / 250, n % 250)));
    let members = slice("web-a", "web", &["10.0.0.1@here"]);
    town.announce(
        &[asked("web", 31000)].into_iter().chain(many).chain([members]).collect::<Vec<_>>(),
    );
    while answers(&town).is_empty() {
        let ran = town.universe.step(0) | town.listeners.step() | town.kernel.step(0);
        assert!(ran, "nobody is ever answered");
    }
    assert_eq!(answers(&town), [(31000, 1)], "its first answer is right");
}

#[test]
fn files_are_asked_for_as_objects_are() {
    let town = Town::told_by(&[ServiceSource::Manifests]);
    let file = |objects: Vec<Value>| {
        let manifest = Manifest { source: "web.yaml".to_owned(), objects: Ok(objects) };
        town.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        town.settle();
    };
    file(vec![asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    assert_eq!(answers(&town), [(31000, 1)]);
    file(vec![]);
    assert_eq!(answers(&town), []);
}

#[test]
fn a_crash_closes_no_port_and_leaves_none() {
    let town = Town::new();
    town.tell(&[asked("web", 31000), slice("web-a", "web", &["10.0.0.1@here"])]);
    let before = town.listeners.done();
    town.services.tell(ServicesMsg::Show(crash())).unwrap();
    town.settle();
    assert_eq!((answers(&town), town.listeners.done()), (vec![(31000, 1)], before));
    // It goes with something that is being told.
    town.announce(&[asked("db", 31001), gone(asked("web", 0))]);
    town.universe.step(0);
    town.services.tell(ServicesMsg::Show(crash())).unwrap();
    town.settle();
    assert_eq!(answers(&town), [(31001, 0)]);
}

/// Stands for who answers; crashes over the first thing that it hears once it is told to.
struct Answerer(Rc<RefCell<(bool, Vec<HealthChange>)>>);

impl Behaviour for Answerer {
    type Msg = HealthChecksMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: HealthChecksMsg, _: &mut Cx<'_, Self>) {
        let HealthChecksMsg::Set { all, changes, reply } = msg else { return };
        let mut kept = self.0.borrow_mut();
        if std::mem::take(&mut kept.0) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        if all {
            kept.1.clear();
        }
        kept.1.extend(changes);
        reply.send(());
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

#[test]
fn what_who_answers_crashes_over_is_told_again() {
    let kept = Rc::new(RefCell::new((false, Vec::new())));
    let theirs = Rc::clone(&kept);
    let universe = Universe::default();
    let answerer = universe.spawn("health-checks", move || Answerer(Rc::clone(&theirs)));
    let kernel = MemoryKernel::new(&Fate::default());
    let settings = ServicesSettings {
        node: "here".to_owned(),
        families: Families::DUAL,
        balancing: Balancing::default(),
        sources: [ServiceSource::Cluster].into(),
    };
    let found = ServiceTables::default();
    let services =
        Services::factory(Rc::new(kernel), settings, found, None, Some(answerer), Watch::default());
    let services = universe.spawn("services", services);
    let tell = |name: &str, port: u16| {
        let key = ObjectKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let objects = vec![("services", key, Some(asked(name, port)))];
        services.tell(ServicesMsg::Objects { feed: Feed::Services, objects }).unwrap();
        universe.advance(Duration::from_secs(60));
    };
    tell("web", 31000);
    kept.borrow_mut().0 = true;
    tell("db", 31001);
    let check = |port| Some(HealthCheck { port, local_endpoints: 0 });
    let wanted = [("shop/db".into(), check(31001)), ("shop/web".into(), check(31000))];
    assert_eq!(kept.borrow().1, wanted);
}
