//! Ingresses that name nothing but a service: frontends at the node's own addresses.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, frontend, gone, service, slice};
use crate::{
    model::{Manifest, ServiceId},
    ports::service_flags,
    services::service_cache::{ServiceSource, ServicesMsg},
    testing::Landing,
};

const NODE: [&str; 2] = ["192.0.2.7", "2001:db8::7"];

/// A node of both families that hears of a service of both, `web`.
fn fixture() -> Fixture {
    let fixture =
        Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Ingresses, ServiceSource::Node]);
    fixture.host_addresses(&NODE);
    fixture.tell(&everything());
    fixture
}

fn everything() -> [Value; 3] {
    let mut web = service("web", "10.96.0.1");
    web["spec"]["clusterIPs"] = json!(["10.96.0.1", "fd96::1"]);
    let port = |name: &str, port: u16, protocol: &str| json!({ "name": name, "port": port, "protocol": protocol });
    web["spec"]["ports"] =
        json!([port("http", 80, "TCP"), port("h3", 80, "UDP"), port("more", 81, "TCP")]);
    let slice = |name: &str, members: &[&str]| {
        let mut slice = slice(name, "web", members);
        slice["ports"] = json!([
            { "name": "http", "port": 8080 }, { "name": "h3", "port": 8080, "protocol": "UDP" },
            { "name": "more", "port": 8081 },
        ]);
        slice
    };
    [web, slice("web-4", &["10.0.0.1", "10.0.0.2"]), slice("web-6", &["fd00::1"])]
}

fn ingress(name: &str, service: &str, port: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "defaultBackend": { "service": { "name": service, "port": port } } },
    })
}

fn front() -> Value {
    ingress("front", "web", json!({ "number": 80 }))
}

fn both() -> [Landing; 2] {
    [at(&["10.0.0.1:8080", "10.0.0.2:8080"]), at(&["[fd00::1]:8080"])]
}

fn landings(fixture: &Fixture, port: u16) -> [Landing; 2] {
    [
        fixture.landing(&format!("{}:{port}", NODE[0])),
        fixture.landing(&format!("[{}]:{port}", NODE[1])),
    ]
}

const NOTHING: [Landing; 2] = [Landing::NoService, Landing::NoService];

#[test]
fn it_is_reached_at_every_address_of_the_node_at_the_service_s_port() {
    let fixture = fixture();
    assert_eq!(landings(&fixture, 80), NOTHING);
    let before = fixture.list().len();
    fixture.tell_ingresses(&[front()]);
    assert_eq!(landings(&fixture, 80), both());
    assert_eq!(landings(&fixture, 81), NOTHING);
    let list = fixture.list();
    assert_eq!(list.len(), before + 2, "TCP only");
    let own = list.iter().find(|it| it.frontend == frontend("192.0.2.7:80")).unwrap();
    assert_eq!(own.flags, service_flags::EXTERNAL_IP | service_flags::ROUTABLE);
    assert_eq!(own.service.as_deref(), Some("shop/web"));
    // An address comes and one goes, and who serves changes.
    fixture.host_addresses(&["192.0.2.8", NODE[1]]);
    assert_eq!(landings(&fixture, 80), [Landing::NoService, both()[1].clone()]);
    assert_eq!(fixture.landing("192.0.2.8:80"), both()[0]);
    fixture.host_addresses(&NODE);
    fixture.tell(&[gone(everything()[1].clone())]);
    assert_eq!(landings(&fixture, 80), [Landing::NoBackend, both()[1].clone()]);
    fixture.tell(&everything());
    // It names another port, by its name; then it goes.
    fixture.tell_ingresses(&[ingress("front", "web", json!({ "name": "more" }))]);
    assert_eq!(landings(&fixture, 80), NOTHING);
    assert_eq!(
        landings(&fixture, 81),
        [at(&["10.0.0.1:8081", "10.0.0.2:8081"]), at(&["[fd00::1]:8081"])]
    );
    fixture.tell_ingresses(&[gone(front())]);
    assert_eq!(landings(&fixture, 81), NOTHING);
    assert_eq!((fixture.list().len(), fixture.status().problems), (before, vec![]));
}

#[test]
fn older_versions_say_the_same() {
    for version in ["networking.k8s.io/v1beta1", "extensions/v1beta1"] {
        for port in [json!(80), json!("http")] {
            let fixture = fixture();
            let mut old = front();
            old["apiVersion"] = json!(version);
            old["spec"] = json!({ "backend": { "serviceName": "web", "servicePort": port } });
            fixture.tell_ingresses(&[old.clone()]);
            assert_eq!(landings(&fixture, 80), both(), "{old}");
            fixture.tell_ingresses(&[gone(old)]);
            assert_eq!(landings(&fixture, 80), NOTHING);
        }
    }
}

#[test]
fn what_needs_a_proxy_or_is_somebody_elses_is_passed_over() {
    let fixture = fixture();
    let changes: [(&str, Value); 6] = [
        ("/spec/rules", json!([{ "host": "shop.example" }])),
        ("/spec/tls", json!([{ "hosts": ["shop.example"] }])),
        ("/spec/ingressClassName", json!("other")),
        ("/metadata/annotations", json!({ "kubernetes.io/ingress.class": "other" })),
        ("/spec/defaultBackend", json!({ "resource": { "kind": "Bucket", "name": "x" } })),
        ("/spec/defaultBackend", Value::Null),
    ];
    for (pointer, value) in changes {
        fixture.tell_ingresses(&[front()]);
        assert_eq!(landings(&fixture, 80), both());
        let mut other = front();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[key] = value;
        fixture.tell_ingresses(&[other]);
        assert_eq!(landings(&fixture, 80), NOTHING, "{pointer}");
        let status = fixture.status();
        assert_eq!((status.problems, status.refused), (vec![], vec![]), "{pointer}");
    }
}

#[test]
fn one_that_breaks_its_schema_keeps_what_it_was() {
    let fixture = fixture();
    let changes: [(&str, Value, &str); 4] = [
        ("/port", json!({ "number": 70_000 }), "spec.defaultBackend.service.port.number"),
        ("/port", json!({}), "spec.defaultBackend.service.port"),
        ("/name", json!(7), "spec.defaultBackend.service.name"),
        ("/port", json!("http"), "spec.defaultBackend.service.port"),
    ];
    for (pointer, value, path) in changes {
        fixture.tell_ingresses(&[front()]);
        let mut broken = front();
        let place = format!("/spec/defaultBackend/service{pointer}");
        *broken.pointer_mut(&place).unwrap() = value;
        fixture.tell_ingresses(&[broken]);
        assert_eq!(landings(&fixture, 80), both());
        let refused = fixture.status().refused;
        assert_eq!(refused.len(), 1, "{refused:?}");
        let (object, at) = (refused[0].1.object.as_str(), refused[0].1.path.as_str());
        assert_eq!((object, at), ("Ingress shop/front", path));
    }
    fixture.tell_ingresses(&[front()]);
    assert_eq!(fixture.status().refused, []);
}

#[test]
fn what_leads_nowhere_is_named_until_it_does() {
    let fixture =
        Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Ingresses, ServiceSource::Node]);
    fixture.host_addresses(&NODE);
    let absent = ingress("absent", "nothing", json!({ "number": 80 }));
    fixture.tell_ingresses(&[front(), absent.clone()]);
    assert_eq!(fixture.status().problems, [], "services were not heard of");
    fixture.tell(&everything());
    let problems = fixture.status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].0, "shop/nothing");
    assert!(problems[0].1.contains("Ingress shop/absent leads to it"), "{problems:?}");
    fixture.tell_ingresses(&[gone(absent), ingress("front", "web", json!({ "name": "h3" }))]);
    let problems = fixture.status().problems;
    let expected = r#"Ingress shop/front leads to its port "h3", and it has no such port of TCP"#;
    assert!(problems.len() == 1 && problems[0].1.contains(expected), "{problems:?}");
    assert_eq!(landings(&fixture, 80), NOTHING);
    fixture.tell_ingresses(&[front()]);
    assert_eq!((landings(&fixture, 80), fixture.status().problems), (both(), vec![]));
}

#[test]
fn who_came_first_has_the_port() {
    let fixture = fixture();
    fixture.tell_ingresses(&[front(), ingress("same", "web", json!({ "name": "http" }))]);
    assert_eq!((landings(&fixture, 80), fixture.status().problems), (both(), vec![]), "they agree");
    let mut other = service("other", "10.96.0.2");
    other["spec"]["type"] = json!("NodePort");
    other["spec"]["ports"][0]["nodePort"] = json!(81);
    fixture.tell(&[other, slice("other-1", "other", &["10.0.0.9"])]);
    fixture.tell_ingresses(&[
        ingress("again", "other", json!({ "number": 80 })),
        ingress("more", "web", json!({ "number": 81 })),
    ]);
    assert_eq!(landings(&fixture, 80), both());
    assert_eq!(fixture.landing("192.0.2.7:81"), at(&["10.0.0.9:8080"]));
    let problems = fixture.status().problems;
    for (service, said) in [
        ("shop/other", "192.0.2.7:80/TCP, which Ingress shop/again wants, is shop/web's"),
        ("shop/web", "192.0.2.7:81/TCP, which Ingress shop/more wants, is shop/other's"),
    ] {
        let is_it = |(of, it): &(String, String)| of == service && it.contains(said);
        assert!(problems.iter().any(is_it), "{said}: {problems:?}");
    }
    // The first one goes, both who agree.
    let id = |fixture: &Fixture| {
        fixture.list().iter().find(|it| it.frontend == frontend("192.0.2.7:80")).unwrap().id
    };
    let before = id(&fixture);
    fixture.tell_ingresses(&[gone(front())]);
    assert_eq!(landings(&fixture, 80), both());
    fixture.tell_ingresses(&[gone(ingress("same", "", json!({})))]);
    assert_eq!(fixture.landing("192.0.2.7:80"), at(&["10.0.0.9:8080"]));
    assert_eq!(id(&fixture), before);
}

/// An agent that was restarted: which numbers frontends have.
fn numbers(fixture: &Fixture) -> Vec<(crate::model::Frontend, ServiceId)> {
    fixture.list().iter().map(|it| (it.frontend, it.id)).collect()
}

#[test]
fn a_restart_keeps_it_until_the_cluster_has_said_that_it_is_gone() {
    let mut fixture = fixture();
    fixture.tell_ingresses(&[front(), ingress("more", "web", json!({ "number": 81 }))]);
    let before = numbers(&fixture);
    let (maps, written) = (fixture.maps(), fixture.kernel.writes().len());
    fixture.restart();
    fixture.host_addresses(&NODE);
    fixture.tell(&everything());
    assert_eq!((landings(&fixture, 80), numbers(&fixture)), (both(), before.clone()));
    fixture.tell_ingresses(&[front(), ingress("more", "web", json!({ "number": 81 }))]);
    assert_eq!((numbers(&fixture), fixture.maps()), (before.clone(), maps));
    assert_eq!(fixture.writes_since(written), [], "nothing changed");
    fixture.restart();
    fixture.host_addresses(&NODE);
    fixture.tell(&everything());
    fixture.tell_ingresses(&[front()]);
    assert_eq!((landings(&fixture, 80), landings(&fixture, 81)), (both(), NOTHING));
    assert!(numbers(&fixture).iter().all(|it| before.contains(it)));
}

/// The agent's account may not list Ingresses: only what may be theirs waits.
#[test]
fn without_a_list_of_ingresses_all_else_is_pruned() {
    let mut fixture = fixture();
    fixture.tell(&[service("gone", "10.96.0.9"), slice("gone-1", "gone", &["10.0.0.9"])]);
    let mut outside = service("outside", "10.96.0.8");
    outside["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    fixture.tell(&[outside, slice("outside-1", "outside", &["10.0.0.8"])]);
    fixture.tell_ingresses(&[front()]);
    fixture.restart();
    fixture.host_addresses(&NODE);
    let all = everything();
    fixture.tell(&all[..1]);
    for at in ["10.96.0.9:80", "198.51.100.1:80"] {
        assert_eq!(fixture.landing(at), Landing::NoService, "{at}");
    }
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    assert_eq!(landings(&fixture, 80), both(), "it may still be");
    assert_eq!(fixture.status().awaited, [ServiceSource::Ingresses].into());
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 3, "those behind it stay");
    fixture.tell(&all);
    fixture.tell_ingresses(&[]);
    assert_eq!(landings(&fixture, 80), NOTHING);
    assert_eq!(fixture.status().awaited, [].into());
}

#[test]
fn files_may_have_them() {
    let fixture = Fixture::told_by(&[ServiceSource::Manifests, ServiceSource::Node]);
    fixture.host_addresses(&NODE);
    let file = |objects: Vec<Value>| {
        let manifest = Manifest {
            source: "web.yaml".to_owned(),
            objects: Ok(objects.into_iter().map(Into::into).collect()),
        };
        fixture.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        fixture.settle();
    };
    file([&everything()[..], &[front()]].concat());
    assert_eq!(landings(&fixture, 80), both());
    file(everything().to_vec());
    assert_eq!(landings(&fixture, 80), NOTHING);
}

#[test]
fn to_whom_an_ingress_of_an_earlier_life_leads_stays_whoever_else_lets_go_of_him() {
    let mut fixture = fixture();
    fixture.tell_ingresses(&[front()]);
    fixture.restart();
    fixture.host_addresses(&NODE);
    // Ingresses are not heard, and one of those behind it serves somebody else in this life.
    let [web, _, six] = everything();
    let [mut fewer, mut of_db] = ["web-4", "db-a"].map(|name| slice(name, "web", &["10.0.0.1"]));
    fewer["ports"] = json!([{ "name": "http", "port": 8080 }]);
    of_db["metadata"]["labels"] = json!({ "kubernetes.io/service-name": "db" });
    of_db["endpoints"][0]["addresses"] = json!(["10.0.0.2"]);
    fixture.tell(&[web, fewer, six, service("db", "10.96.0.2"), of_db.clone()]);
    assert_eq!(fixture.landing("10.96.0.2:80"), at(&["10.0.0.2:8080"]));
    assert_eq!(landings(&fixture, 80), both());
    fixture.tell(&[gone(of_db)]);
    assert_eq!(landings(&fixture, 80), both());
    fixture.tell_ingresses(&[front()]);
    assert_eq!(landings(&fixture, 80)[0], at(&["10.0.0.1:8080"]));
    fixture.swept();
    assert!(!fixture.maps().alive().contains(&super::fixture::place("10.0.0.2:8080")));
}
