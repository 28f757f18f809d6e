//! Beside a kube-proxy only addresses inside the cluster are served, whichever of the two a restart is to.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, service, slice};
use crate::{
    services::service_cache::{Balancing, ServiceSource},
    testing::Landing,
};

const ONE: &str = "10.0.0.1:8080";
const INSIDE: &str = "10.96.0.1:80";
const OUTSIDE: [&str; 3] = ["192.0.2.7:30080", "198.51.100.1:80", "198.51.100.2:80"];

/// A service that is reached in every way, and a pod with a port of the node.
fn reported() -> [Value; 2] {
    let mut web = service("web", "10.96.0.1");
    web["spec"]["type"] = json!("LoadBalancer");
    web["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    web["spec"]["externalTrafficPolicy"] = json!("Local");
    web["spec"]["healthCheckNodePort"] = json!(32000);
    web["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}]}});
    [web, slice("web-a", "web", &["10.0.0.1@here"])]
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "till"},
        "spec": {"nodeName": "here", "containers": [
            {"name": "one", "ports": [{"containerPort": 8080, "hostPort": 81}]},
        ]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.2"}]},
    })
}

fn fixture(inside_only: bool) -> Fixture {
    let mut fixture =
        Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Pods, ServiceSource::Node]);
    fixture.balancing = Balancing { inside_only, ..Balancing::default() };
    fixture.restart();
    fixture
}

fn restart(fixture: &mut Fixture, inside_only: bool) {
    fixture.balancing = Balancing { inside_only, ..Balancing::default() };
    fixture.restart();
}

fn tell(fixture: &Fixture) {
    fixture.host_addresses(&["192.0.2.7"]);
    fixture.tell(&reported());
    fixture.tell_pods(&[pod()]);
    fixture.wait(60);
}

fn served_outside(fixture: &Fixture) -> Vec<bool> {
    let all = OUTSIDE.into_iter().chain(["192.0.2.7:81", "0.0.0.0:30080"]);
    all.map(|place| fixture.landing(place) != Landing::NoService).collect()
}

#[test]
fn only_the_address_inside_is_served() {
    let fixture = fixture(true);
    tell(&fixture);
    assert_eq!(fixture.landing(INSIDE), at(&[ONE]));
    assert_eq!(served_outside(&fixture), [false; 5]);
    assert_eq!(fixture.list().len(), 1);
    assert_eq!(fixture.status().problems, []);
    assert!(fixture.listeners.answers().is_empty(), "kube-proxy answers health checks");
}

#[test]
fn a_restart_takes_the_others_away_once_all_is_known_and_another_brings_them_back() {
    let mut fixture = fixture(false);
    tell(&fixture);
    assert_eq!(served_outside(&fixture), [true; 5]);
    let (number, backend) = (fixture.maps().slots[&(super::fixture::frontend(INSIDE), 0)].id, ONE);
    for _ in 0..2 {
        restart(&mut fixture, true);
        fixture.host_addresses(&["192.0.2.7"]);
        assert_eq!(served_outside(&fixture), [true; 5], "not every source has spoken");
        tell(&fixture);
        assert_eq!(served_outside(&fixture), [false; 5]);
        let slot = fixture.maps().slots[&(super::fixture::frontend(INSIDE), 0)].id;
        assert_eq!((slot, fixture.landing(INSIDE)), (number, at(&[backend])));
        // One more writes nothing.
        let before = fixture.kernel.writes().len();
        restart(&mut fixture, true);
        tell(&fixture);
        assert_eq!(fixture.writes_since(before), []);
        restart(&mut fixture, false);
        tell(&fixture);
        assert_eq!(served_outside(&fixture), [true; 5]);
        assert_eq!(fixture.landing(INSIDE), at(&[backend]));
    }
}

#[test]
fn an_ingress_that_wants_the_nodes_addresses_is_named() {
    let mut fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Ingresses]);
    restart(&mut fixture, true);
    fixture.host_addresses(&["192.0.2.7"]);
    fixture.tell(&reported());
    fixture.tell_ingresses(&[json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"namespace": "shop", "name": "door"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    })]);
    fixture.wait(60);
    let problems = fixture.status().problems;
    assert!(problems[0].1.contains("--kube-proxy-replacement=true"), "{problems:?}");
    assert_eq!(fixture.landing("192.0.2.7:80"), Landing::NoService);
}
