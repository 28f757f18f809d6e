//! Services of a cluster, which policies name.

use super::*;
use crate::{model::IdentityId, ports::Link};

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
    let host = &world.node_supervisor().host;
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

/// A Service at 10.96.0.1, and an Ingress that leads there.
fn shop() -> [Value; 2] {
    let mut shop = service();
    shop["metadata"]["name"] = json!("shop");
    shop["spec"] = json!({ "clusterIP": "10.96.0.1", "ports": [{ "port": 80 }] });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": "front", "namespace": "ns" },
        "spec": { "defaultBackend": { "service": { "name": "shop", "port": { "number": 80 } } } },
    });
    [shop, ingress]
}

/// The node has an address, 192.0.2.9.
fn plug_node(world: &World) {
    let link = Link {
        ifindex: 2,
        name: "eth0".to_owned(),
        addresses: vec!["192.0.2.9/24".parse().unwrap()],
        ..Link::default()
    };
    world.kernel.tamper(|state| state.plug(link));
}

/// Frontends that the kernel has, with their numbers.
fn served(world: &World) -> Vec<(String, u16)> {
    let state = world.kernel.state();
    let firsts =
        state.services.slots.iter().filter(|((at, slot), _)| *slot == 0 && at.at.port != 0);
    firsts.map(|((at, _), row)| (at.to_string(), row.id.0)).collect()
}

/// An agent that was upgraded without its ClusterRole.
#[test]
fn nobody_else_waits_for_ingresses() {
    let (mut world, cluster) = super::world();
    let forbidden = || Some(ClusterError::Refused("ingresses is forbidden".to_owned()));
    let [shop, ingress] = shop();
    plug_node(&world);
    cluster.fail("Ingress", forbidden());
    cluster.apply(shop.clone());
    cluster.apply(ingress.clone());
    world.crash();
    world.boot();
    world.advance(10 * MINUTE);
    assert!(world.all_ready() && web(&world) > 0 && world.report().finished);
    assert_eq!(why(&world, "endpoint 1"), "");
    let of_ingresses = |world: &World| states(world).into_iter().find(|it| it.0 == "ingresses");
    let (_, synced, state) = of_ingresses(&world).unwrap();
    assert!(!synced && matches!(&state, SourceState::Broken { .. }), "{state:?}");
    assert_eq!(served(&world).len(), 1, "{:?}", served(&world));
    cluster.apply(from("nobody"));
    world.settle();
    let closed = policy_of_web(&world);
    cluster.apply(from("db"));
    world.settle();
    assert_ne!(policy_of_web(&world), closed);
    // The right to list them is given; then it is taken while the agent starts anew.
    cluster.fail("Ingress", None);
    world.advance(MINUTE);
    assert!(of_ingresses(&world).unwrap().1);
    let all = served(&world);
    assert_eq!(
        all.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(),
        ["10.96.0.1:80/TCP", "192.0.2.9:80/TCP"]
    );
    world.crash();
    cluster.fail("Ingress", forbidden());
    cluster.delete(&ingress);
    world.boot();
    world.advance(10 * MINUTE);
    assert_eq!(served(&world), all, "nobody said that it is gone");
    cluster.fail("Ingress", None);
    world.advance(MINUTE);
    assert_eq!(served(&world), all[..1]);
    world.audit();
}

#[test]
fn a_server_with_older_ingresses_only_is_asked_for_those() {
    let (mut world, cluster) = super::world();
    let [shop, mut ingress] = shop();
    for version in ["v1", "v1beta1"] {
        cluster.unserve(&format!("/apis/networking.k8s.io/{version}/ingresses"));
    }
    plug_node(&world);
    ingress["apiVersion"] = json!("extensions/v1beta1");
    ingress["spec"] = json!({ "backend": { "serviceName": "shop", "servicePort": 80 } });
    cluster.apply(shop);
    cluster.apply(ingress);
    world.restart();
    world.advance(Duration::from_secs(1));
    assert_eq!(served(&world).len(), 2, "{:?}", served(&world));
}
