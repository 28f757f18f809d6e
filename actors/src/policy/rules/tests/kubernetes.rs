//! Tests: Kubernetes' NetworkPolicies give the verdicts that their documents promise.

use serde_json::{Value, json};

use super::world::{World, address, pod_of};

const TCP: u8 = 6;
const UDP: u8 = 17;

fn policy(mut spec: Value) -> Value {
    spec["podSelector"] = json!({ "matchLabels": { "app": "web" } });
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": "test", "namespace": "default" },
        "spec": spec,
    })
}

#[test]
fn types_say_which_directions_are_closed() {
    let closed = |spec| {
        let resolved = World::with([policy(spec)]).resolve("web");
        (resolved.ingress_enforced, resolved.egress_enforced)
    };
    assert_eq!(closed(json!({})), (true, false));
    assert_eq!(closed(json!({ "ingress": [] })), (true, false));
    assert_eq!(closed(json!({ "egress": [{}] })), (true, true));
    assert_eq!(closed(json!({ "policyTypes": ["Egress"] })), (false, true));
    assert_eq!(closed(json!({ "policyTypes": ["Ingress"], "egress": [{}] })), (true, false));
    assert_eq!(closed(json!({ "policyTypes": ["Ingress", "Egress"] })), (true, true));
}

#[test]
fn an_empty_rule_or_missing_peers_are_everybody() {
    for rule in [json!({}), json!({ "from": [] }), json!({ "ports": [] })] {
        let world = World::with([policy(json!({ "ingress": [rule] }))]);
        for other in [pod_of("db", "other"), address("9.9.9.9"), address("2001:db8::1")] {
            assert!(world.ingress(other, UDP, 9).passes());
        }
    }
}

#[test]
fn pods_are_of_the_own_namespace_unless_namespaces_are_selected() {
    let from = |peer| World::with([policy(json!({ "ingress": [{ "from": [peer] }] }))]);
    let passing = |peer: Value| {
        let world = from(peer);
        let pods = [("db", "default"), ("mail", "default"), ("db", "other"), ("web", "other")];
        let passes = |(app, ns): &(&str, &str)| world.ingress(pod_of(app, ns), TCP, 80).passes();
        pods.into_iter().filter(passes).collect::<Vec<_>>()
    };
    let db = json!({ "matchLabels": { "app": "db" } });
    assert_eq!(passing(json!({ "podSelector": db })), [("db", "default")]);
    assert_eq!(passing(json!({ "podSelector": {} })), [("db", "default"), ("mail", "default")]);
    assert_eq!(passing(json!({ "namespaceSelector": {} })).len(), 4);
    assert_eq!(
        passing(json!({ "namespaceSelector": {}, "podSelector": db })),
        [("db", "default"), ("db", "other")]
    );
    let team = json!({ "matchExpressions": [
        { "key": "team", "operator": "In", "values": ["other-team"] },
    ] });
    assert_eq!(passing(json!({ "namespaceSelector": team, "podSelector": db })), [("db", "other")]);
}

/// The world and the node have none of the labels that a namespace is not to have.
#[test]
fn a_namespace_selector_that_only_excludes_selects_pods() {
    for (excluded, passing) in [
        (json!({ "key": "team", "operator": "NotIn", "values": ["other-team"] }), [true, false]),
        (json!({ "key": "team", "operator": "DoesNotExist" }), [false, false]),
        (json!({ "key": "strange", "operator": "DoesNotExist" }), [true, true]),
    ] {
        for pods in [None, Some(json!({})), Some(json!({ "matchLabels": { "app": "db" } }))] {
            let mut peer = json!({ "namespaceSelector": { "matchExpressions": [excluded] } });
            if let Some(pods) = &pods {
                peer["podSelector"] = pods.clone();
            }
            let world = World::with([policy(json!({ "ingress": [{ "from": [peer] }] }))]);
            let passes = |peer| world.ingress(peer, TCP, 80).passes();
            let seen = [passes(pod_of("db", "default")), passes(pod_of("db", "other"))];
            assert_eq!(seen, passing, "{peer}");
            for address in [address("9.9.9.9"), address("2001:db8::1")] {
                assert!(!passes(address), "the world passes by {peer}");
            }
        }
    }
}

#[test]
fn blocks_of_addresses_have_exceptions() {
    let world = World::with([policy(json!({
        "policyTypes": ["Egress"],
        "egress": [{
            "to": [{ "ipBlock": { "cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"] } },
                   { "ipBlock": { "cidr": "10.1.0.0/16" } }],
            "ports": [{ "port": 443 }, { "port": 5000, "endPort": 5999, "protocol": "UDP" }],
        }],
    }))]);
    let reaches = |to, protocol, port| world.egress(address(to), protocol, port).passes();
    assert!(reaches("9.9.9.9", TCP, 443) && reaches("9.9.9.9", UDP, 5999));
    assert!(reaches("10.1.2.3", TCP, 443), "allowed by the second block");
    assert!(!reaches("10.2.0.1", TCP, 443), "an exception of the first");
    assert!(!reaches("9.9.9.9", UDP, 443) && !reaches("9.9.9.9", UDP, 6000));
}

#[test]
fn a_port_without_a_number_is_the_whole_protocol() {
    let world = World::with([policy(json!({ "ingress": [{ "ports": [{ "protocol": "UDP" }] }] }))]);
    let other = pod_of("db", "other");
    assert!(world.ingress(other, UDP, 1).passes() && !world.ingress(other, TCP, 1).passes());
}
