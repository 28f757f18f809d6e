//! What Kubernetes and Cilium say of services beyond where they are.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::{Fixture, at, frontend, gone, service, slice};
use crate::{
    model::{L4Address, Transport},
    ports::service_flags,
    services::service_cache::{Balancing, Choice, ServiceSource},
    testing::Landing,
};

const ONE: &str = "10.0.0.1:8080";

fn fixture() -> Fixture {
    let fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Node]);
    fixture.host_addresses(&["192.0.2.7"]);
    fixture
}

/// A service of each kind of address.
fn open(name: &str) -> Value {
    let mut web = service(name, "10.96.0.1");
    web["spec"]["type"] = json!("LoadBalancer");
    web["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    web["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}]}});
    web
}

fn annotated(name: &str, value: &str) -> Value {
    let mut web = open("web");
    web["metadata"]["annotations"] = json!({ format!("service.cilium.io/{name}"): value });
    web
}

/// Where it is served of all those.
fn served(fixture: &Fixture) -> Vec<&'static str> {
    let all = ["10.96.0.1:80", "192.0.2.7:30080", "198.51.100.1:80", "198.51.100.2:80"];
    all.into_iter().filter(|it| fixture.landing(it) != Landing::NoService).collect()
}

/// Addresses at which ports that are not served are refused.
fn wildcards(fixture: &Fixture) -> BTreeSet<String> {
    let maps = fixture.maps();
    let is_one = |at: &L4Address| (at.port, at.transport) == (0, Transport::ANY);
    let all = maps.slots.keys().filter(|(frontend, _)| is_one(&frontend.at));
    all.map(|(frontend, _)| frontend.at.address.to_string()).collect()
}

fn set(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn a_service_without_a_head_by_its_label_has_no_frontend() {
    let fixture = fixture();
    let mut web = open("web");
    fixture.tell(&[web.clone(), slice("web-a", "web", &["10.0.0.1"])]);
    assert_eq!(served(&fixture).len(), 4);
    web["metadata"]["labels"] = json!({"service.kubernetes.io/headless": ""});
    fixture.tell(&[web]);
    assert_eq!(served(&fixture), [""; 0]);
    assert!(fixture.maps().backends.is_empty() && fixture.maps().slots.is_empty());
}

#[test]
fn source_ranges_hold_for_external_addresses_and_may_be_turned_round() {
    let fixture = fixture();
    for (policy, denies) in [("allow", false), ("deny", true)] {
        let mut web = annotated("src-ranges-policy", policy);
        web["spec"]["loadBalancerSourceRanges"] = json!(["203.0.113.0/24"]);
        fixture.tell(&[web, slice("web-a", "web", &["10.0.0.1"])]);
        let maps = fixture.maps();
        for (place, is_ranged) in [
            ("198.51.100.1:80", true),
            ("198.51.100.2:80", true),
            ("192.0.2.7:30080", false),
            ("10.96.0.1:80", false),
        ] {
            let row = maps.slots[&(frontend(place), 0)];
            let has = |flag| row.flags & flag != 0;
            assert_eq!(has(service_flags::SOURCE_RANGE), is_ranged, "{place}");
            assert_eq!(has(service_flags::DENY_RANGE), is_ranged && denies, "{place}");
            let ranges = maps.ranges.iter().filter(|(id, _)| *id == row.id).count();
            assert_eq!(ranges, usize::from(is_ranged), "{place}");
        }
    }
}

#[test]
fn a_type_narrows_where_a_service_is_exposed() {
    let fixture = fixture();
    let members = slice("web-a", "web", &["10.0.0.1"]);
    for (kind, where_to) in [
        ("ClusterIP", ["10.96.0.1:80", "198.51.100.1:80"]),
        ("NodePort", ["192.0.2.7:30080", "198.51.100.1:80"]),
        ("LoadBalancer", ["198.51.100.1:80", "198.51.100.2:80"]),
    ] {
        fixture.tell(&[annotated("type", kind), members.clone()]);
        assert_eq!(served(&fixture), where_to, "{kind}");
    }
    fixture.tell(&[annotated("type", "Everything")]);
    assert!(fixture.status().refused[0].1.problem.contains("Everything"));
    assert_eq!(served(&fixture), ["198.51.100.1:80", "198.51.100.2:80"], "what was before stays");
}

#[test]
fn only_nodes_that_are_meant_serve_also_before_their_labels_are_known() {
    let mut fixture = fixture();
    let node = |label: &str| {
        let labels = json!({"service.cilium.io/node": label});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"namespace": "", "name": "here", "labels": labels},
        })
    };
    let reported = [annotated("node", "beefy"), slice("web-a", "web", &["10.0.0.1"])];
    fixture.tell(&reported);
    assert_eq!(served(&fixture), [""; 0]);
    assert!(fixture.status().problems[0].1.contains("labelled"));
    fixture.tell(&[node("slow")]);
    assert_eq!((served(&fixture).len(), fixture.status().problems), (0, vec![]));
    fixture.tell(&[node("beefy")]);
    assert_eq!(served(&fixture).len(), 4);
    // What was served before a restart is, until the labels say otherwise.
    fixture.restart();
    fixture.host_addresses(&["192.0.2.7"]);
    fixture.tell(&reported);
    fixture.wait(60);
    assert_eq!(served(&fixture).len(), 4);
    fixture.tell(&[node("slow")]);
    assert_eq!(served(&fixture), [""; 0]);
    assert!(fixture.maps().slots.is_empty());
}

#[test]
fn a_service_says_whom_its_backends_answer_where_the_node_lets_it() {
    let mut fixture = fixture();
    let members = slice("web-a", "web", &["10.0.0.1"]);
    let outside = ["192.0.2.7:30080", "198.51.100.1:80", "198.51.100.2:80"];
    let is_direct = |fixture: &Fixture, place| {
        fixture.maps().slots[&(frontend(place), 0)].flags & service_flags::DSR != 0
    };
    for (direct, direct_annotation) in [(false, false), (true, false), (false, true), (true, true)]
    {
        let choice = Choice { usual: direct, by_annotation: direct_annotation };
        fixture.balancing = Balancing { direct: choice, ..Balancing::default() };
        fixture.restart();
        fixture.host_addresses(&["192.0.2.7"]);
        for (mode, asked) in [("dsr", Some(true)), ("SNAT", Some(false)), ("", None)] {
            let web =
                if mode.is_empty() { open("web") } else { annotated("forwarding-mode", mode) };
            fixture.tell(&[web, members.clone()]);
            // Where services do not say it, programs do not ask.
            let expected = direct_annotation && asked.unwrap_or(direct);
            for place in outside {
                assert_eq!(
                    is_direct(&fixture, place),
                    expected,
                    "{mode} {direct} {direct_annotation}"
                );
            }
            assert!(!is_direct(&fixture, "10.96.0.1:80"));
            let problems = fixture.status().problems;
            let is_named = problems.iter().any(|it| it.1.contains("--bpf-lb-mode-annotation"));
            assert_eq!(is_named, asked.is_some() && !direct_annotation, "{problems:?}");
        }
    }
    fixture.tell(&[annotated("forwarding-mode", "tunnel")]);
    assert!(fixture.status().refused[0].1.problem.contains("tunnel"));
}

#[test]
fn annotations_that_do_nothing_are_named() {
    let fixture = fixture();
    fixture.tell(&[annotated("lb-l7", "enabled"), slice("web-a", "web", &["10.0.0.1"])]);
    let problems = fixture.status().problems;
    assert!(problems[0].1.contains("service.cilium.io/lb-l7"), "{problems:?}");
    fixture.tell(&[annotated("lb-algorithm", "random")]);
    let problems = fixture.status().problems;
    assert!(problems[0].1.contains("--bpf-lb-algorithm-annotation"), "{problems:?}");
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]), "it serves all the same");
    fixture.tell(&[open("web")]);
    assert_eq!(fixture.status().problems, []);
}

#[test]
fn ports_that_a_service_does_not_serve_are_refused_where_it_is() {
    let mut fixture = fixture();
    let reported = [open("web"), slice("web-a", "web", &["10.0.0.1"])];
    fixture.tell(&reported);
    let of_web = set(&["10.96.0.1", "198.51.100.1", "198.51.100.2"]);
    assert_eq!(wildcards(&fixture), of_web, "not at the node's own address");
    // Another service has one of the addresses, too, at another port.
    let mut other = service("other", "10.96.0.2");
    other["spec"]["externalIPs"] = json!(["198.51.100.1", "192.0.2.7"]);
    other["spec"]["ports"][0]["port"] = json!(81);
    fixture.tell(&[other.clone()]);
    fixture.tell(&[gone(open("web"))]);
    assert_eq!(wildcards(&fixture), set(&["10.96.0.2", "198.51.100.1"]));
    // An address of the node is no service's alone, and may be again.
    fixture.host_addresses(&["192.0.2.7", "198.51.100.1"]);
    assert_eq!(wildcards(&fixture), set(&["10.96.0.2"]));
    fixture.host_addresses(&["192.0.2.8"]);
    assert_eq!(wildcards(&fixture), set(&["10.96.0.2", "198.51.100.1", "192.0.2.7"]));
    // A restart writes nothing.
    let before = fixture.kernel.writes().len();
    fixture.restart();
    fixture.host_addresses(&["192.0.2.8"]);
    fixture.tell(&[other.clone()]);
    assert_eq!(fixture.writes_since(before), []);
    fixture.tell(&[gone(other)]);
    assert!(fixture.maps().slots.is_empty());
}

#[test]
fn services_come_before_ports_that_they_do_not_serve_where_room_is_short() {
    let mut fixture = fixture();
    fixture.kernel.tamper(|state| state.services.room = 4);
    fixture.restart();
    fixture.host_addresses(&["192.0.2.7"]);
    fixture.tell(&[
        service("a", "10.96.0.1"),
        service("b", "10.96.0.2"),
        service("c", "10.96.0.3"),
    ]);
    assert_eq!(wildcards(&fixture).len(), 1);
    assert!(
        fixture.status().problems[0].1.contains("at 2 addresses"),
        "{:?}",
        fixture.status().problems
    );
    fixture.tell(&[service("d", "10.96.0.4")]);
    assert_ne!(fixture.landing("10.96.0.4:80"), Landing::NoService);
    assert_eq!((wildcards(&fixture).len(), fixture.maps().slots.len()), (0, 4));
    fixture.tell(&[gone(service("d", "")), gone(service("c", ""))]);
    assert_eq!(wildcards(&fixture).len(), 2);
    assert_eq!(fixture.status().problems, []);
}
