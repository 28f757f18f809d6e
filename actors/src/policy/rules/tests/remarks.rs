//! A policy that is refused is named to whom it would select.

use serde_json::{Value, json};

use crate::{
    policy::rules::{DepartureMeaning, PolicyMsg, PolicySettings, parse},
    testing::{World, allow_from, pod, spec},
};

/// A node with a web and a db pod of the namespace ns, and what each is told of its policies.
struct Node(World);

impl Node {
    fn new() -> Self {
        let mut world = World::new();
        world.apply("pods", [pod(1, "web"), pod(2, "db")]);
        world.create(spec(1)).unwrap();
        world.create(spec(2)).unwrap();
        Self(world)
    }

    fn remarks(&self, number: u16) -> Vec<String> {
        let subject = self.0.get(crate::model::EndpointId(number)).subject();
        let remarks = |reply| PolicyMsg::Remarks { subject, reply };
        self.0.ask(&self.0.node_supervisor().policy, remarks)
    }

    /// Whether web, and db, is told something of an object.
    fn reported(&mut self, object: Value) -> [bool; 2] {
        self.0.apply("refused", [object]);
        let reported = [1, 2].map(|number| !self.remarks(number).is_empty());
        let refused = self.0.ask(&self.0.node_supervisor().policy, PolicyMsg::Refused);
        assert_eq!(refused.len(), 1, "the agent's state names it, too");
        self.0.apply("refused", []);
        assert_eq!([1, 2].map(|number| self.remarks(number).len()), [0, 0]);
        reported
    }
}

fn object(kind: &str, namespace: Option<&str>, spec: Value) -> Value {
    let version = if kind == "NetworkPolicy" { "networking.k8s.io/v1" } else { "cilium.io/v2" };
    let mut object =
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x" }, "spec": spec });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

#[test]
fn whoever_a_refused_policy_would_select_is_told() {
    let mut node = Node::new();
    let web = json!({ "matchLabels": { "app": "web" } });
    let rubbish = json!([{ "fromCIDR": ["rubbish"] }]);
    let cnp = |spec| object("CiliumNetworkPolicy", Some("ns"), spec);
    let np = |spec| object("NetworkPolicy", Some("ns"), spec);
    let everyone = |spec| object("CiliumClusterwideNetworkPolicy", None, spec);
    let cases = [
        (cnp(json!({ "endpointSelector": web, "ingress": rubbish })), [true, false]),
        (everyone(json!({ "endpointSelector": web, "ingress": rubbish })), [true, false]),
        (np(json!({ "podSelector": web, "ingress": [{ "from": [{}] }] })), [true, false]),
        // Whom it selects cannot be read: all of its namespace may be meant.
        (cnp(json!({ "endpointSelector": { "matchLabels": 7 } })), [true, true]),
        (np(json!({ "podSelector": { "matchLabels": 7 } })), [true, true]),
        (np(json!({ "podSelector": web, "ingress": {} })), [true, false]),
        (cnp(json!("rubbish")), [true, true]),
        (json!("rubbish"), [true, true]),
        (object("CiliumNetworkPolicy", Some("other"), json!("rubbish")), [false, false]),
        (everyone(json!({ "nodeSelector": 7 })), [false, false]),
    ];
    for (object, reported) in cases {
        assert_eq!(node.reported(object.clone()), reported, "{object}");
    }
    node.0.tell_unreadable("torn");
    node.0.settle();
    assert!(
        node.remarks(1)[0].starts_with("what is refused may be a policy that selects it: torn")
    );
}

#[test]
fn one_that_stays_in_force_and_parts_that_allow_nothing_are_told_as_such() {
    let mut node = Node::new();
    node.0.apply("file", [allow_from("web", json!({ "fromCIDR": ["192.0.2.0/24"] }))]);
    assert_eq!(node.remarks(1), [""; 0]);
    node.0.apply("file", [allow_from("web", json!({ "fromCIDR": ["rubbish"] }))]);
    let reported = node.remarks(1);
    assert!(
        reported[0].starts_with("a newer version of a policy is refused, the one before stays")
    );
    let http = json!({ "toPorts": [{
        "ports": [{ "port": "80", "protocol": "TCP" }], "rules": { "http": [{}] },
    }] });
    node.0.apply("file", [allow_from("web", http)]);
    let reported = node.remarks(1);
    assert!(reported[0].contains("nothing is allowed by it"), "{reported:?}");
    assert_eq!(node.remarks(2), [""; 0]);
}

#[test]
fn where_cilium_takes_it_otherwise_is_said() {
    let meanings = |spec: Value, kind: &str| {
        let object = object(kind, Some("ns"), spec);
        let read = parse("file", &object.into(), &PolicySettings::default());
        let [Ok(policy)] = &read[..] else { panic!("{read:?}") };
        policy.departures().into_iter().map(|it| (it.path, it.meaning)).collect::<Vec<_>>()
    };
    let ports = json!([{ "ports": [{ "port": "http", "protocol": "TCP" }] }]);
    let cnp = "CiliumNetworkPolicy";
    let to = json!({ "endpointSelector": {}, "egress": [{}, { "toPorts": ports }] });
    assert_eq!(
        meanings(to, cnp),
        [("spec.egress[1]".to_owned(), DepartureMeaning::PortOfReceiver)]
    );
    let from = json!({ "endpointSelector": {}, "ingress": [{ "toPorts": ports }] });
    assert_eq!(meanings(from, cnp), []);
    let alone = json!({ "endpointSelector": {}, "enableDefaultDeny": { "egress": true } });
    let isolates = ("spec.enableDefaultDeny.egress".to_owned(), DepartureMeaning::Isolates);
    assert_eq!(meanings(alone, cnp), [isolates]);
    let np = json!({ "podSelector": {}, "egress": [{ "ports": [{ "port": "http" }] }] });
    let receiver = ("spec.egress[0]".to_owned(), DepartureMeaning::PortOfReceiver);
    assert_eq!(meanings(np, "NetworkPolicy"), [receiver]);
    assert_eq!(meanings(json!({ "podSelector": {} }), "NetworkPolicy"), []);
}
