//! Policies of nodes: whom they bind, and whom they do not.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{Other, World, address};
use crate::{
    model::{Direction, Labels},
    policy::rules::{Effect, PolicySettings, Subject, Verdict, lookup},
};

const TCP: u8 = 6;
const WEB: Other = Other::Identity(1000);
const REMOTE_NODE: Other = Other::Identity(6);

fn world(documents: impl IntoIterator<Item = Value>) -> World {
    let settings = PolicySettings { host_firewall: true, ..PolicySettings::default() };
    let mut world = World::new(settings);
    let report = world.apply(documents);
    assert_eq!((report.rejected, report.unsupported), (Vec::new(), Vec::new()));
    world
}

fn clusterwide(spec: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumClusterwideNetworkPolicy",
        "metadata": { "name": "test" },
        "spec": spec,
    })
}

/// The node itself, with these labels of its Node.
fn host(labels: &[&str]) -> Subject {
    let labels = labels.iter().copied().chain(["reserved:host"]);
    Subject { labels: Arc::new(Labels::parse(labels).unwrap()), ..Subject::default() }
}

fn verdict(world: &World, of: &Subject, direction: Direction, other: Other, port: u16) -> Verdict {
    let rows = world.repository.resolve(of, &world.view()).rows;
    lookup(&rows, direction, world.identity_of(other), TCP, port)
}

#[test]
fn a_rule_for_nodes_is_for_those_that_are_labelled_so() {
    let role = "k8s:node-role.kubernetes.io/worker";
    let name = "k8s:kubernetes.io/hostname=a";
    for (selector, is_meant) in [
        (json!({}), true),
        (json!({ "matchLabels": { "kubernetes.io/hostname": "a" } }), true),
        (json!({ "matchLabels": { "k8s:kubernetes.io/hostname": "a" } }), true),
        (json!({ "matchLabels": { "kubernetes.io/hostname": "b" } }), false),
        (json!({ "matchLabels": { "node-role.kubernetes.io/worker": "" } }), true),
        (json!({ "matchExpressions": [{ "key": "zone", "operator": "DoesNotExist" }] }), true),
        (json!({ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }), false),
    ] {
        let world = world([clusterwide(json!({ "nodeSelector": selector, "ingress": [{}] }))]);
        let node = host(&[role, name]);
        assert_eq!(world.repository.selects(&node.labels), is_meant, "{selector}");
        let resolved = world.repository.resolve(&node, &world.view());
        assert_eq!(resolved.ingress_enforced, is_meant, "{selector}");
        assert!(!resolved.egress_enforced);
        let pod = world.resolve("web");
        assert!(!pod.ingress_enforced && !pod.egress_enforced, "{selector}");
    }
}

#[test]
fn a_rule_for_endpoints_is_never_for_the_node() {
    let network_policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": "all" },
        "spec": { "podSelector": {}, "policyTypes": ["Ingress", "Egress"] },
    });
    let every = json!({ "endpointSelector": {}, "ingress": [{}], "egress": [{}] });
    let by_label = json!({
        "endpointSelector": { "matchLabels": { "reserved:host": "" } }, "ingress": [{}],
    });
    for document in [network_policy, clusterwide(every), clusterwide(by_label)] {
        let world = world([document]);
        // Even if its labels are those of a pod.
        let node = host(&["k8s:app=web", "k8s:io.kubernetes.pod.namespace=default"]);
        assert!(!world.repository.selects(&node.labels));
        for direction in [Direction::Ingress, Direction::Egress] {
            assert!(verdict(&world, &node, direction, WEB, 80).passes());
        }
    }
}

#[test]
fn a_node_s_rules_see_the_peers_that_a_pod_s_do() {
    let world = world([clusterwide(json!({
        "nodeSelector": {},
        "ingress": [
            { "fromEntities": ["remote-node"] },
            { "fromEndpoints": [{ "matchLabels": { "app": "web" } }],
              "toPorts": [{ "ports": [{ "port": "443", "protocol": "TCP" }] }] },
            { "fromCIDR": ["192.0.2.0/24"],
              "toPorts": [{ "ports": [{ "port": "22", "protocol": "TCP" }] }] },
        ],
        "egressDeny": [{ "toCIDR": ["198.51.100.0/24"] }],
        "egress": [{ "toEntities": ["all"] }],
    }))]);
    let node = host(&[]);
    let ingress = |other, port| verdict(&world, &node, Direction::Ingress, other, port).passes();
    let egress = |other, port| verdict(&world, &node, Direction::Egress, other, port).passes();
    assert!(ingress(REMOTE_NODE, 4240) && !ingress(WEB, 80) && ingress(WEB, 443));
    assert!(ingress(address("192.0.2.7"), 22) && !ingress(address("192.0.2.7"), 23));
    assert!(!ingress(address("203.0.113.1"), 22));
    assert!(egress(WEB, 80) && egress(address("203.0.113.1"), 53));
    assert!(!egress(address("198.51.100.9"), 443));
}

#[test]
fn a_change_of_one_kind_of_rules_is_nothing_to_the_other_kind() {
    let node = clusterwide(json!({ "nodeSelector": {}, "ingress": [{}] }));
    let pods = clusterwide(json!({ "endpointSelector": {}, "ingress": [{}] }));
    let settings = PolicySettings { host_firewall: true, ..PolicySettings::default() };
    let (of_pod, of_node) = (super::world::pod("web", "default"), host(&[]).labels);
    for (document, touches_pod) in [(node, false), (pods, true)] {
        let report = World::new(settings.clone()).apply([document]);
        assert_eq!(
            (report.touches(&of_pod), report.touches(&of_node)),
            (touches_pod, !touches_pod)
        );
    }
}

#[test]
fn where_nodes_are_not_held_to_policy_their_rules_are_reported() {
    let mut world = World::new(PolicySettings::default());
    let report = world.apply([clusterwide(json!({ "nodeSelector": {}, "ingress": [{}] }))]);
    assert_eq!(report.unsupported[0].effect, Effect::SelectsNothing);
    assert_eq!(
        report.unsupported[0].to_string(),
        "test.yaml: CiliumClusterwideNetworkPolicy test: spec.nodeSelector: not enforced: nodes are \
         held to policy only by agents with --enable-host-firewall"
    );
    assert!(!world.resolve("web").ingress_enforced);
    assert!(!world.repository.selects(&host(&[]).labels));
}
