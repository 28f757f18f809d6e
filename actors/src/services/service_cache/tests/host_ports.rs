//! Ports of the node that pods want for themselves.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, frontend, gone, service, slice};
use crate::{ports::service_flags, services::service_cache::ServiceSource, testing::Landing};

const NODE: [&str; 2] = ["192.0.2.7", "2001:db8::7"];
const SOURCES: [ServiceSource; 3] =
    [ServiceSource::Cluster, ServiceSource::Pods, ServiceSource::Node];

/// A node of both families, whose cluster has no service.
fn fixture() -> Fixture {
    let fixture = Fixture::told_by(&SOURCES);
    fixture.host_addresses(&NODE);
    fixture.tell(&[]);
    fixture
}

/// A pod with one container; its ports and addresses.
fn pod(name: &str, ports: Value, ips: &[&str]) -> Value {
    let ips: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "nodeName": "here", "containers": [{ "name": "one", "ports": ports }] },
        "status": { "phase": "Running", "podIPs": ips },
    })
}

fn till() -> Value {
    let ports = json!([
        { "containerPort": 8080, "hostPort": 80 },
        { "containerPort": 53, "hostPort": 53, "protocol": "UDP" },
        { "containerPort": 9090 },
    ]);
    pod("till", ports, &["10.0.0.1", "fd00::1"])
}

fn landings(fixture: &Fixture, port: &str) -> [Landing; 2] {
    [
        fixture.landing(&format!("{}:{port}", NODE[0])),
        fixture.landing(&format!("[{}]:{port}", NODE[1])),
    ]
}

const NOTHING: [Landing; 2] = [Landing::NoService, Landing::NoService];

fn both() -> [Landing; 2] {
    [at(&["10.0.0.1:8080"]), at(&["[fd00::1]:8080"])]
}

#[test]
fn it_is_reached_at_every_address_of_the_node() {
    let fixture = fixture();
    assert_eq!(fixture.status().awaited, [ServiceSource::Pods].into());
    fixture.tell_pods(&[till()]);
    assert_eq!(landings(&fixture, "80"), both());
    assert_eq!(landings(&fixture, "9090"), NOTHING);
    assert_eq!(fixture.landing("0.0.0.0:80"), both()[0], "nobody else may bind it");
    let list = fixture.list();
    assert_eq!(list.len(), 2 * 4, "two ports at two addresses and at those that stand for all");
    let own = list.iter().find(|it| it.frontend == frontend("192.0.2.7:80")).unwrap();
    assert_eq!(own.flags, service_flags::HOST_PORT | service_flags::ROUTABLE);
    assert_eq!(own.service.as_deref(), Some("shop/till/host-port"));
    fixture.host_addresses(&["192.0.2.8", NODE[1]]);
    assert_eq!(landings(&fixture, "80"), [Landing::NoService, both()[1].clone()]);
    assert_eq!(fixture.landing("192.0.2.8:80"), both()[0]);
    fixture.tell_pods(&[gone(till())]);
    assert_eq!((fixture.list(), fixture.status().problems), (vec![], vec![]));
}

#[test]
fn one_address_of_the_node_will_do_and_another_s_will_not() {
    let fixture = fixture();
    let at_host = |ip: &str| {
        pod("till", json!([{ "containerPort": 8080, "hostPort": 80, "hostIP": ip }]), &["10.0.0.1"])
    };
    fixture.host_addresses(&["192.0.2.7", "192.0.2.8"]);
    fixture.tell_pods(&[at_host("192.0.2.8")]);
    assert_eq!(fixture.landing("192.0.2.7:80"), Landing::NoService);
    assert_eq!(fixture.landing("192.0.2.8:80"), both()[0]);
    for all in ["0.0.0.0", ""] {
        fixture.tell_pods(&[at_host(all)]);
        assert_eq!(fixture.landing("192.0.2.7:80"), both()[0]);
    }
    fixture.tell_pods(&[at_host("198.51.100.1")]);
    let problems = fixture.status().problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, "shop/till/host-port");
    assert!(problems[0].1.contains("198.51.100.1, where its port 80 is expected"), "{problems:?}");
    assert!(fixture.list().is_empty());
    // What cannot be read leaves it as it was.
    fixture.tell_pods(&[at_host("192.0.2.7")]);
    for wrong in ["127.0.0.1", "::1", "here"] {
        fixture.tell_pods(&[at_host(wrong)]);
        assert_eq!(fixture.landing("192.0.2.7:80"), both()[0]);
        let refused = fixture.status().refused;
        assert_eq!(refused[0].1.path, "spec.containers[0].ports[0].hostIP", "{refused:?}");
    }
}

#[test]
fn a_pod_that_cannot_be_led_to_has_no_port() {
    let fixture = fixture();
    let changes: [(&str, Value); 6] = [
        ("/status/phase", json!("Succeeded")),
        ("/status/phase", json!("Failed")),
        ("/status/podIPs", json!([])),
        ("/spec/nodeName", json!("there")),
        ("/spec/hostNetwork", json!(true)),
        ("/spec/containers/0/ports", json!([{ "containerPort": 8080, "hostPort": 0 }])),
    ];
    for (path, value) in changes {
        let mut other = till();
        let (parent, name) = path.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[name] = value;
        fixture.tell_pods(&[till()]);
        assert_eq!(landings(&fixture, "80"), both());
        fixture.tell_pods(&[other.clone()]);
        assert_eq!(landings(&fixture, "80"), NOTHING, "{other}");
        assert!(fixture.list().is_empty());
    }
    // Older servers tell one address.
    let mut old = till();
    old["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    fixture.tell_pods(&[old]);
    assert_eq!(landings(&fixture, "80"), [both()[0].clone(), Landing::NoService]);
}

#[test]
fn a_service_of_the_same_name_is_another() {
    let fixture = fixture();
    let objects = [service("till", "10.96.0.1"), slice("till-1", "till", &["10.0.0.9"])];
    fixture.tell(&objects);
    let before = fixture.list();
    fixture.tell_pods(&[till()]);
    assert_eq!(fixture.list().len(), before.len() + 8);
    fixture.tell_pods(&[gone(till())]);
    assert_eq!(fixture.list(), before);
    fixture.tell_pods(&[till()]);
    fixture.tell(&objects.map(gone));
    assert_eq!(landings(&fixture, "80"), both());
}

#[test]
fn after_a_restart_ports_wait_for_the_pods_and_nothing_else_does() {
    let mut fixture = fixture();
    fixture.tell(&[service("web", "10.96.0.1"), slice("web-1", "web", &["10.0.0.9"])]);
    fixture.tell_pods(&[
        till(),
        pod("gone", json!([{ "containerPort": 1, "hostPort": 81 }]), &["10.0.0.2"]),
    ]);
    let ids = |fixture: &Fixture| -> Vec<_> {
        fixture.list().iter().map(|it| (it.frontend, it.id)).collect()
    };
    let before = ids(&fixture);
    fixture.restart();
    fixture.host_addresses(&NODE);
    // The service is gone, and the cluster says so before it tells of pods.
    fixture.tell(&[]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
    assert_eq!(landings(&fixture, "80"), both());
    assert_eq!(landings(&fixture, "81")[0], at(&["10.0.0.2:1"]));
    let writes = fixture.kernel.writes().len();
    fixture.tell_pods(&[till()]);
    assert_eq!(landings(&fixture, "81"), NOTHING);
    assert!(!fixture.writes_since(writes).is_empty());
    let after = ids(&fixture);
    assert!(after.len() == 8 && after.iter().all(|it| before.contains(it)), "{after:?}");
}
