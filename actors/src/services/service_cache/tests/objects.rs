//! What is wrong with objects: it is named, and others are unaffected.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, gone, service, slice};
use crate::{model::Manifest, services::service_cache::ServicesMsg, testing::Landing};

#[test]
fn what_serves_nobody_here_is_passed_over() {
    let fixture = Fixture::new();
    let mut external = service("name", "10.96.0.1");
    external["spec"]["type"] = json!("ExternalName");
    let mut other = service("proxied", "10.96.0.2");
    other["metadata"]["labels"] = json!({"service.kubernetes.io/service-proxy-name": "x"});
    fixture.tell(&[service("headless", "None"), external, other]);
    fixture.tell(&[slice("headless-1", "headless", &["10.0.0.2"])]);
    assert_eq!(fixture.list(), []);
    assert_eq!(fixture.maps().backends.len(), 0, "nobody is led to them");
    assert_eq!((fixture.status().refused, fixture.status().problems), (vec![], vec![]));
}

#[test]
fn what_cannot_serve_anybody_is_named() {
    let fixture = Fixture::new();
    let mut bare = service("bare", "10.96.0.3");
    bare["spec"].as_object_mut().unwrap().remove("ports");
    let mut nobodys = slice("nobodys", "x", &["10.0.0.1"]);
    nobodys["metadata"].as_object_mut().unwrap().remove("labels");
    let mut another_s = slice("web-a", "web", &["10.0.0.2"]);
    another_s["metadata"]["ownerReferences"] =
        json!([{"kind": "Deployment", "name": "x"}, {"kind": "Service", "name": "db"}]);
    let mut own = slice("web-b", "web", &["10.0.0.3"]);
    own["metadata"]["ownerReferences"] = json!([{"kind": "Service", "name": "web"}]);
    fixture.tell(&[bare.clone(), nobodys.clone(), service("web", "10.96.0.1"), another_s, own]);
    let (refused, problems) = (fixture.status().refused, fixture.status().problems);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].1.object, "EndpointSlice shop/nobodys");
    let named: Vec<_> = problems.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["shop/bare", "shop/web"], "{problems:?}");
    assert!(problems[0].1.contains("no ports") && problems[1].1.contains("Service db"));
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080", "10.0.0.3:8080"]));
    fixture.tell(&[gone(bare), gone(nobodys), slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!((fixture.status().refused, fixture.status().problems), (vec![], vec![]));
}

#[test]
fn a_service_that_breaks_its_schema_keeps_what_it_was() {
    let fixture = Fixture::new();
    let whole = service("web", "10.96.0.1");
    fixture.tell(&[
        whole.clone(),
        slice("web-a", "web", &["10.0.0.1"]),
        service("other", "10.96.0.9"),
    ]);
    let many: Vec<Value> = (0..70_000).map(|n| json!({"port": n % 65_535 + 1})).collect();
    let cases: [(&str, Value, &str); 9] = [
        ("/spec/ports/0/port", json!(70_000), "spec.ports[0].port"),
        ("/spec/ports/0/port", json!("http"), "spec.ports[0].port"),
        ("/spec/ports", json!([{"port": 1}, {"port": 1}]), "spec.ports[1]"),
        ("/spec/ports", json!(many), "spec.ports"),
        ("/spec/clusterIPs/0", json!("10.96.0"), "spec.clusterIPs[0]"),
        ("/spec/ports/0", json!({"port": 80, "protocol": "ICMP"}), "spec.ports[0].protocol"),
        ("/spec", json!({"sessionAffinity": "Cookie"}), "spec.sessionAffinity"),
        ("/spec", json!({"internalTrafficPolicy": "Near"}), "spec.internalTrafficPolicy"),
        ("/apiVersion", json!("v2"), "apiVersion"),
    ];
    for (pointer, wrong, path) in cases {
        let mut broken = whole.clone();
        *broken.pointer_mut(pointer).unwrap() = wrong;
        fixture.tell(&[broken]);
        let refused = fixture.status().refused;
        assert_eq!(refused.len(), 1, "{pointer}");
        assert_eq!(
            (refused[0].1.object.as_str(), refused[0].1.path.as_str()),
            ("Service shop/web", path)
        );
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]), "{pointer}");
    }
    let mut broken = slice("web-a", "web", &["10.0.0.1"]);
    broken["endpoints"][0]["addresses"] = json!(["fd00::1"]);
    fixture.tell(&[broken]);
    assert_eq!(fixture.status().refused.len(), 2);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    fixture.tell(&[whole.clone(), slice("web-a", "web", &["10.0.0.3"])]);
    assert_eq!(fixture.status().refused, []);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.3:8080"]));
    fixture.tell(&[gone(whole)]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
}

#[test]
fn two_services_of_one_address_are_told_apart_by_who_came_first() {
    let fixture = Fixture::new();
    fixture.tell(&[service("first", "10.96.0.1"), slice("first-1", "first", &["10.0.0.1"])]);
    fixture.tell(&[service("again", "10.96.0.1"), slice("again-1", "again", &["10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    let id = fixture.list()[0].id;
    let problems = fixture.status().problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, "shop/again");
    assert!(problems[0].1.contains("10.96.0.1:80/TCP is shop/first's"), "{}", problems[0].1);
    fixture.tell(&[gone(service("first", ""))]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    assert_eq!((fixture.list()[0].id, fixture.status().problems), (id, vec![]));
}

#[test]
fn an_address_that_two_services_want_stays_with_who_had_it() {
    let mut fixture = Fixture::new();
    let all = [
        service("web", "10.96.0.1"),
        slice("web-1", "web", &["10.0.0.1"]),
        service("again", "10.96.0.1"),
        slice("again-1", "again", &["10.0.0.2"]),
    ];
    fixture.tell(&all[..2]);
    fixture.tell(&all[2..]);
    let before = fixture.list();
    fixture.restart();
    fixture.tell(&all);
    assert_eq!(fixture.list(), before);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    // Unless that one went meanwhile.
    fixture.restart();
    fixture.tell(&all[2..]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    assert_eq!((fixture.list()[0].id, fixture.status().problems), (before[0].id, vec![]));
}

#[test]
fn an_address_of_the_node_is_no_service_s() {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "192.0.2.7"), service("other", "10.96.0.2")]);
    fixture.host_addresses(&["192.0.2.7"]);
    assert_eq!(fixture.landing("192.0.2.7:80"), Landing::NoService);
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoBackend);
    assert!(fixture.status().problems[0].1.contains("192.0.2.7 is an address of this node"));
}

#[test]
fn a_map_that_is_full_keeps_what_it_has() {
    let mut fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), slice("web-a", "web", &["10.0.0.1", "10.0.0.2"])]);
    fixture.kernel.tamper(|state| state.services.room = 8);
    fixture.restart();
    let members = [
        "10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8",
        "10.0.0.9",
    ];
    fixture.tell(&[
        service("web", "10.96.0.1"),
        slice("web-a", "web", &members),
        service("small", "10.96.0.2"),
    ]);
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoBackend, "others are served");
    let problems = fixture.status().problems;
    assert!(problems[0].1.contains("raise --bpf-lb-map-max"), "{problems:?}");
    assert_eq!(
        fixture.landing("10.96.0.1:80"),
        at(&["10.0.0.1:8080", "10.0.0.2:8080"]),
        "the old one serves"
    );
    fixture.tell(&[slice("web-a", "web", &["10.0.0.1", "10.0.0.3"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080", "10.0.0.3:8080"]));
    assert_eq!(fixture.status().problems, []);
}

#[test]
fn who_finds_no_room_is_served_when_there_is_some() {
    let mut fixture = Fixture::new();
    fixture.kernel.tamper(|state| state.services.room = 8);
    fixture.restart();
    let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    let first = [service("first", "10.96.0.1"), slice("first-a", "first", &members)];
    fixture.tell(&first);
    fixture.tell(&[service("next", "10.96.0.2"), slice("next-a", "next", &members)]);
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoService);
    let fewer = slice("first-a", "first", &members[..1]);
    fixture.tell(&[fewer]);
    assert_eq!(
        fixture.landing("10.96.0.2:80"),
        at(&members.map(|it| format!("{it}:8080")).each_ref().map(String::as_str))
    );
    assert_eq!(fixture.status().problems, []);
}

#[test]
fn files_say_the_same_as_objects() {
    let fixture = Fixture::told_by(&[crate::services::service_cache::ServiceSource::Manifests]);
    let file = |objects: Vec<Value>| {
        let manifest = Manifest {
            source: "web.yaml".to_owned(),
            objects: Ok(objects.into_iter().map(Into::into).collect()),
        };
        fixture.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        fixture.settle();
    };
    let (web, members) = (service("web", "10.96.0.1"), slice("web-a", "web", &["10.0.0.1"]));
    file(vec![web.clone(), members.clone()]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    file(vec![web.clone(), web.clone(), json!({"kind": "EndpointSlice", "metadata": {}})]);
    // What cannot be read may be the slice.
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    assert_eq!(fixture.status().refused.len(), 2);
    file(vec![web]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    file(vec![]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
}
