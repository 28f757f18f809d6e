//! Services of a cluster, which policies name.

use super::*;
use crate::model::IdentityId;

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "lan", "namespace": "ns" }, "spec": {},
    })
}

fn slice(address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "lan-1", "namespace": "ns",
                      "labels": { "kubernetes.io/service-name": "lan" } },
        "addressType": "IPv4", "endpoints": [{ "addresses": [address] }],
    })
}

/// `web` reaches that service only.
fn to_lan() -> Value {
    let services = json!([{ "k8sService": { "serviceName": "lan", "namespace": "ns" } }]);
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "lan", "namespace": "ns" },
        "spec": { "endpointSelector": { "matchLabels": { "app": "web" } },
                  "egress": [{ "toServices": services }] },
    })
}

fn world() -> (World, MemoryCluster) {
    let (world, cluster) = super::world();
    for object in [service(), slice("192.0.2.1"), to_lan()] {
        cluster.apply(object);
    }
    world.settle();
    (world, cluster)
}

/// Identities of the addresses under 192.0.2.0/24, and whether `web` may send there.
fn reached(world: &World) -> Vec<(String, bool)> {
    let state = world.kernel.state();
    let lan: ipnet::IpNet = "192.0.2.0/24".parse().unwrap();
    let mapped = state.rows.ipcache.iter().filter(|(prefix, _)| lan.contains(*prefix));
    let rows = policy_of_web(world);
    let is_allowed = |id: IdentityId| rows.iter().any(|(key, row)| key.identity == id && !row.deny);
    mapped.map(|(prefix, row)| (prefix.to_string(), is_allowed(row.identity))).collect()
}

fn allowed(address: &str) -> Vec<(String, bool)> {
    vec![(format!("{address}/32"), true)]
}

#[test]
fn addresses_behind_a_service_are_followed() {
    let (world, cluster) = world();
    assert_eq!(reached(&world), allowed("192.0.2.1"));
    cluster.apply(slice("192.0.2.2"));
    world.settle();
    assert_eq!(reached(&world), allowed("192.0.2.2"));
    cluster.delete(&service());
    world.settle();
    assert_eq!(reached(&world), []);
    cluster.apply(service());
    world.settle();
    assert_eq!(reached(&world), allowed("192.0.2.2"));
    world.audit();
}

#[test]
fn a_policy_is_not_computed_before_its_services_are_known() {
    for kind in ["Service", "EndpointSlice"] {
        let (mut world, cluster) = world();
        world.crash();
        cluster.fail(kind, Some(ClusterError::Failed("etcd".to_owned())));
        world.boot();
        world.advance(10 * MINUTE);
        assert!(world.all_ready());
        assert_eq!(reached(&world), allowed("192.0.2.1"), "without {kind}");
        cluster.fail(kind, None);
        cluster.apply(slice("192.0.2.2"));
        world.advance(MINUTE);
        assert_eq!(reached(&world), allowed("192.0.2.2"));
        world.audit();
    }
}

/// An agent that was upgraded without its ClusterRole.
#[test]
fn only_policies_that_name_services_wait_for_them() {
    let (mut world, cluster) = super::world();
    world.crash();
    let forbidden = ClusterError::Refused("services is forbidden".to_owned());
    cluster.fail("Service", Some(forbidden.clone()));
    cluster.fail("EndpointSlice", Some(forbidden));
    world.boot();
    world.advance(MINUTE);
    assert!(web(&world) > 0 && world.report().finished);
    let before = policy_of_web(&world);
    // That `web` may send nowhere else would be half of what this says.
    cluster.apply(to_lan());
    world.settle();
    assert_eq!(policy_of_web(&world), before);
    // Others go on, and so does an earlier version of it.
    cluster.apply(from("nobody"));
    world.settle();
    let closed = policy_of_web(&world);
    assert_ne!(closed, before);
    let mut nowhere = to_lan();
    nowhere["spec"]["egress"] = json!([{}]);
    cluster.apply(nowhere);
    world.settle();
    let without = policy_of_web(&world);
    cluster.apply(to_lan());
    world.settle();
    assert_eq!(policy_of_web(&world), without);
    cluster.apply(service());
    cluster.apply(slice("192.0.2.1"));
    cluster.fail("Service", None);
    world.advance(10 * MINUTE);
    assert_eq!(reached(&world), [], "services are nothing without the addresses behind them");
    cluster.fail("EndpointSlice", None);
    world.advance(10 * MINUTE);
    assert_eq!(reached(&world), allowed("192.0.2.1"));
    // A restart without that right keeps what such a policy allowed.
    world.crash();
    cluster.fail("EndpointSlice", Some(ClusterError::Refused("forbidden".to_owned())));
    world.boot();
    world.advance(MINUTE);
    assert_eq!((reached(&world), web(&world)), (allowed("192.0.2.1"), 0));
    let said = why(&world, "endpoint 1");
    assert!(said.contains("endpointslices") && said.contains("ClusterRole"), "{said}");
    world.audit();
}

#[test]
fn who_resolves_services_may_crash() {
    let (world, cluster) = world();
    let host = &world.colony().host;
    for (victim, address) in [("policy", "192.0.2.2"), ("cluster endpointslices", "192.0.2.3")] {
        let cell = host.cells().into_iter().find(|cell| *cell.name == *victim).unwrap();
        host.poison(cell.id);
        cluster.apply(slice(address));
        world.advance(MINUTE);
        assert_eq!(reached(&world), allowed(address), "{victim}");
    }
    world.audit();
}

#[test]
fn a_server_without_slices_is_asked_for_endpoints_and_for_slices_once_it_has_them() {
    for still_has_endpoints in [false, true] {
        older_then_newer(still_has_endpoints);
    }
}

fn older_then_newer(still_has_endpoints: bool) {
    let (mut world, cluster) = world();
    let discovery =
        ["v1", "v1beta1"].map(|version| format!("/apis/discovery.k8s.io/{version}/endpointslices"));
    for path in &discovery {
        cluster.unserve(path);
    }
    cluster.delete(&slice("192.0.2.1"));
    cluster.apply(json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "lan", "namespace": "ns" },
        "subsets": [{ "addresses": [{ "ip": "192.0.2.7" }] }],
    }));
    world.restart();
    world.advance(Duration::from_secs(1));
    assert_eq!(reached(&world), allowed("192.0.2.7"));
    // A newer server.
    cluster.serve(&discovery[0]);
    if !still_has_endpoints {
        cluster.unserve("/api/v1/endpoints");
    }
    cluster.apply(slice("192.0.2.8"));
    cluster.set_down(true);
    world.advance(10 * MINUTE);
    if !still_has_endpoints {
        cluster.compact();
    }
    cluster.set_down(false);
    world.advance(10 * MINUTE);
    assert_eq!(reached(&world), allowed("192.0.2.8"));
}
