//! Ingresses that name nothing but a service: frontends at the node's own addresses.

use serde_json::{Value, json};

use super::town::{Town, at, frontend, gone, service, slice};
use crate::{
    model::{Manifest, ServiceId},
    ports::service_flags,
    services::service_cache::{ServiceSource, ServicesMsg},
    testing::Landing,
};

const NODE: [&str; 2] = ["192.0.2.7", "2001:db8::7"];

/// A node of both families that hears of a service of both, `web`.
fn town() -> Town {
    let town =
        Town::told_by(&[ServiceSource::Cluster, ServiceSource::Ingresses, ServiceSource::Node]);
    town.host_addresses(&NODE);
    town.tell(&everything());
    town
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

fn landings(town: &Town, port: u16) -> [Landing; 2] {
    [town.landing(&format!("{}:{port}", NODE[0])), town.landing(&format!("[{}]:{port}", NODE[1]))]
}

const NOTHING: [Landing; 2] = [Landing::NoService, Landing::NoService];

#[test]
fn it_is_reached_at_every_address_of_the_node_at_the_service_s_port() {
    let town = town();
    assert_eq!(landings(&town, 80), NOTHING);
    let before = town.list().len();
    town.tell_ingresses(&[front()]);
    assert_eq!(landings(&town, 80), both());
    assert_eq!(landings(&town, 81), NOTHING);
    let list = town.list();
    assert_eq!(list.len(), before + 2, "TCP only");
    let own = list.iter().find(|it| it.frontend == frontend("192.0.2.7:80")).unwrap();
    assert_eq!(own.flags, service_flags::EXTERNAL_IP | service_flags::ROUTABLE);
    assert_eq!(own.service.as_deref(), Some("shop/web"));
    // An address comes and one goes, and who serves changes.
    town.host_addresses(&["192.0.2.8", NODE[1]]);
    assert_eq!(landings(&town, 80), [Landing::NoService, both()[1].clone()]);
    assert_eq!(town.landing("192.0.2.8:80"), both()[0]);
    town.host_addresses(&NODE);
    town.tell(&[gone(everything()[1].clone())]);
    assert_eq!(landings(&town, 80), [Landing::NoBackend, both()[1].clone()]);
    town.tell(&everything());
    // It names another port, by its name; then it goes.
    town.tell_ingresses(&[ingress("front", "web", json!({ "name": "more" }))]);
    assert_eq!(landings(&town, 80), NOTHING);
    assert_eq!(
        landings(&town, 81),
        [at(&["10.0.0.1:8081", "10.0.0.2:8081"]), at(&["[fd00::1]:8081"])]
    );
    town.tell_ingresses(&[gone(front())]);
    assert_eq!(landings(&town, 81), NOTHING);
    assert_eq!((town.list().len(), town.status().problems), (before, vec![]));
}

#[test]
fn older_versions_say_the_same() {
    for version in ["networking.k8s.io/v1beta1", "extensions/v1beta1"] {
        for port in [json!(80), json!("http")] {
            let town = town();
            let mut old = front();
            old["apiVersion"] = json!(version);
            old["spec"] = json!({ "backend": { "serviceName": "web", "servicePort": port } });
            town.tell_ingresses(&[old.clone()]);
            assert_eq!(landings(&town, 80), both(), "{old}");
            town.tell_ingresses(&[gone(old)]);
            assert_eq!(landings(&town, 80), NOTHING);
        }
    }
}

#[test]
fn what_needs_a_proxy_or_is_somebody_elses_is_passed_over() {
    let town = town();
    let changes: [(&str, Value); 6] = [
        ("/spec/rules", json!([{ "host": "shop.example" }])),
        ("/spec/tls", json!([{ "hosts": ["shop.example"] }])),
        ("/spec/ingressClassName", json!("other")),
        ("/metadata/annotations", json!({ "kubernetes.io/ingress.class": "other" })),
        ("/spec/defaultBackend", json!({ "resource": { "kind": "Bucket", "name": "x" } })),
        ("/spec/defaultBackend", Value::Null),
    ];
    for (pointer, value) in changes {
        town.tell_ingresses(&[front()]);
        assert_eq!(landings(&town, 80), both());
        let mut other = front();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[key] = value;
        town.tell_ingresses(&[other]);
        assert_eq!(landings(&town, 80), NOTHING, "{pointer}");
        let status = town.status();
        assert_eq!((status.problems, status.refused), (vec![], vec![]), "{pointer}");
    }
}

#[test]
fn one_that_breaks_its_schema_keeps_what_it_was() {
    let town = town();
    let changes: [(&str, Value, &str); 4] = [
        ("/port", json!({ "number": 70_000 }), "spec.defaultBackend.service.port.number"),
        ("/port", json!({}), "spec.defaultBackend.service.port"),
        ("/name", json!(7), "spec.defaultBackend.service.name"),
        ("/port", json!("http"), "spec.defaultBackend.service.port"),
    ];
    for (pointer, value, path) in changes {
        town.tell_ingresses(&[front()]);
        let mut broken = front();
        let place = format!("/spec/defaultBackend/service{pointer}");
        *broken.pointer_mut(&place).unwrap() = value;
        town.tell_ingresses(&[broken]);
        assert_eq!(landings(&town, 80), both());
        let refused = town.status().refused;
        assert_eq!(refused.len(), 1, "{refused:?}");
        let (object, at) = (refused[0].1.object.as_str(), refused[0].1.path.as_str());
        assert_eq!((object, at), ("Ingress shop/front", path));
    }
    town.tell_ingresses(&[front()]);
    assert_eq!(town.status().refused, []);
}

#[test]
fn what_leads_nowhere_is_named_until_it_does() {
    let town =
        Town::told_by(&[ServiceSource::Cluster, ServiceSource::Ingresses, ServiceSource::Node]);
    town.host_addresses(&NODE);
    let absent = ingress("absent", "nothing", json!({ "number": 80 }));
    town.tell_ingresses(&[front(), absent.clone()]);
    assert_eq!(town.status().problems, [], "services were not heard of");
    town.tell(&everything());
    let problems = town.status().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].0, "shop/nothing");
    assert!(problems[0].1.contains("Ingress shop/absent leads to it"), "{problems:?}");
    town.tell_ingresses(&[gone(absent), ingress("front", "web", json!({ "name": "h3" }))]);
    let problems = town.status().problems;
    let wanted = r#"Ingress shop/front leads to its port "h3", and it has no such port of TCP"#;
    assert!(problems.len() == 1 && problems[0].1.contains(wanted), "{problems:?}");
    assert_eq!(landings(&town, 80), NOTHING);
    town.tell_ingresses(&[front()]);
    assert_eq!((landings(&town, 80), town.status().problems), (both(), vec![]));
}

#[test]
fn who_came_first_has_the_port() {
    let town = town();
    town.tell_ingresses(&[front(), ingress("same", "web", json!({ "name": "http" }))]);
    assert_eq!((landings(&town, 80), town.status().problems), (both(), vec![]), "they agree");
    let mut other = service("other", "10.96.0.2");
    other["spec"]["type"] = json!("NodePort");
    other["spec"]["ports"][0]["nodePort"] = json!(81);
    town.tell(&[other, slice("other-1", "other", &["10.0.0.9"])]);
    town.tell_ingresses(&[
        ingress("again", "other", json!({ "number": 80 })),
        ingress("more", "web", json!({ "number": 81 })),
    ]);
    assert_eq!(landings(&town, 80), both());
    assert_eq!(town.landing("192.0.2.7:81"), at(&["10.0.0.9:8080"]));
    let problems = town.status().problems;
    for (service, said) in [
        ("shop/other", "192.0.2.7:80/TCP, which Ingress shop/again wants, is shop/web's"),
        ("shop/web", "192.0.2.7:81/TCP, which Ingress shop/more wants, is shop/other's"),
    ] {
        let is_it = |(of, it): &(String, String)| of == service && it.contains(said);
        assert!(problems.iter().any(is_it), "{said}: {problems:?}");
    }
    // The first one goes, both who agree.
    let id = |town: &Town| {
        town.list().iter().find(|it| it.frontend == frontend("192.0.2.7:80")).unwrap().id
    };
    let before = id(&town);
    town.tell_ingresses(&[gone(front())]);
    assert_eq!(landings(&town, 80), both());
    town.tell_ingresses(&[gone(ingress("same", "", json!({})))]);
    assert_eq!(town.landing("192.0.2.7:80"), at(&["10.0.0.9:8080"]));
    assert_eq!(id(&town), before);
}

/// An agent that was restarted: which numbers frontends have.
fn numbers(town: &Town) -> Vec<(crate::model::Frontend, ServiceId)> {
    town.list().iter().map(|it| (it.frontend, it.id)).collect()
}

#[test]
fn a_restart_keeps_it_until_the_cluster_has_said_that_it_is_gone() {
    let mut town = town();
    town.tell_ingresses(&[front(), ingress("more", "web", json!({ "number": 81 }))]);
    let before = numbers(&town);
    let (maps, written) = (town.maps(), town.kernel.writes().len());
    town.restart();
    town.host_addresses(&NODE);
    town.tell(&everything());
    assert_eq!((landings(&town, 80), numbers(&town)), (both(), before.clone()));
    town.tell_ingresses(&[front(), ingress("more", "web", json!({ "number": 81 }))]);
    assert_eq!((numbers(&town), town.maps()), (before.clone(), maps));
    assert_eq!(town.writes_since(written), [], "nothing changed");
    town.restart();
    town.host_addresses(&NODE);
    town.tell(&everything());
    town.tell_ingresses(&[front()]);
    assert_eq!((landings(&town, 80), landings(&town, 81)), (both(), NOTHING));
    assert!(numbers(&town).iter().all(|it| before.contains(it)));
}

/// The agent's account may not list Ingresses: only what may be theirs waits.
#[test]
fn without_a_list_of_ingresses_all_else_is_pruned() {
    let mut town = town();
    town.tell(&[service("gone", "10.96.0.9"), slice("gone-1", "gone", &["10.0.0.9"])]);
    let mut outside = service("outside", "10.96.0.8");
    outside["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    town.tell(&[outside, slice("outside-1", "outside", &["10.0.0.8"])]);
    town.tell_ingresses(&[front()]);
    town.restart();
    town.host_addresses(&NODE);
    let all = everything();
    town.tell(&all[..1]);
    for at in ["10.96.0.9:80", "198.51.100.1:80"] {
        assert_eq!(town.landing(at), Landing::NoService, "{at}");
    }
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoBackend);
    assert_eq!(landings(&town, 80), both(), "it may still be");
    assert_eq!(town.status().awaited, [ServiceSource::Ingresses].into());
    assert_eq!(town.maps().backends.len(), 3, "those behind it stay");
    town.tell(&all);
    town.tell_ingresses(&[]);
    assert_eq!(landings(&town, 80), NOTHING);
    assert_eq!(town.status().awaited, [].into());
}

#[test]
fn files_may_have_them() {
    let town = Town::told_by(&[ServiceSource::Manifests, ServiceSource::Node]);
    town.host_addresses(&NODE);
    let file = |objects: Vec<Value>| {
        let manifest = Manifest { source: "web.yaml".to_owned(), objects: Ok(objects) };
        town.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        town.settle();
    };
    file([&everything()[..], &[front()]].concat());
    assert_eq!(landings(&town, 80), both());
    file(everything().to_vec());
    assert_eq!(landings(&town, 80), NOTHING);
}

#[test]
fn to_whom_an_ingress_of_an_earlier_life_leads_stays_whoever_else_lets_go_of_him() {
    let mut town = town();
    town.tell_ingresses(&[front()]);
    town.restart();
    town.host_addresses(&NODE);
    // Ingresses are not heard, and one of those behind it serves somebody else in this life.
    let [web, _, six] = everything();
    let [mut fewer, mut of_db] = ["web-4", "db-a"].map(|name| slice(name, "web", &["10.0.0.1"]));
    fewer["ports"] = json!([{ "name": "http", "port": 8080 }]);
    of_db["metadata"]["labels"] = json!({ "kubernetes.io/service-name": "db" });
    of_db["endpoints"][0]["addresses"] = json!(["10.0.0.2"]);
    town.tell(&[web, fewer, six, service("db", "10.96.0.2"), of_db.clone()]);
    assert_eq!(town.landing("10.96.0.2:80"), at(&["10.0.0.2:8080"]));
    assert_eq!(landings(&town, 80), both());
    town.tell(&[gone(of_db)]);
    assert_eq!(landings(&town, 80), both());
    town.tell_ingresses(&[front()]);
    assert_eq!(landings(&town, 80)[0], at(&["10.0.0.1:8080"]));
    assert!(!town.maps().alive().contains(&super::town::place("10.0.0.2:8080")));
}
