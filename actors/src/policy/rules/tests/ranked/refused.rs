//! What is refused, and where and how that is said; and what fails closed, as the definition asks for.

use serde_json::{Value, json};

use super::{super::world::Other, ranked, ranked_world};
use crate::{
    model::{Direction, IdentityId},
    policy::rules::{Effect, PolicySettings, lookup, parse},
};

/// The one line that a document is refused with.
fn refusal(document: &Value) -> String {
    let read = parse("admin.yaml", &document.clone().into(), &PolicySettings::default());
    let [Err(refused)] = read.as_slice() else { panic!("accepted: {document}") };
    refused.error.to_string()
}

fn egress(rule: Value) -> Value {
    ranked("guard", "Admin", 7, json!({ "egress": [rule] }))
}

#[test]
fn an_error_names_policy_rule_and_remedy() {
    let ok = json!([{ "namespaces": {} }]);
    for (document, said) in [
        (
            ranked("guard", "Network", 7, json!({})),
            "spec.tier: unknown tier \"Network\"; write Admin or Baseline; another one needs a newer agent",
        ),
        (
            ranked("guard", "Admin", 1001, json!({})),
            "spec.priority: 1001 is no priority; write a number from 0 to 1000; the lowest is asked first",
        ),
        (
            ranked("guard", "Admin", 7, json!({ "subject": {} })),
            "spec.subject: the policy selects nobody; add namespaces or pods to the subject",
        ),
        (
            ranked("guard", "Admin", 7, json!({ "subject": { "planets": {} } })),
            "spec.subject.planets: unknown way to select a subject; write namespaces or pods; \
             another one needs a newer agent",
        ),
        (
            egress(json!({ "action": "Allow", "to": ok })),
            "spec.egress[0].action: unknown action \"Allow\"; write Accept, Deny or Pass; another \
             one needs a newer agent",
        ),
        (
            egress(json!({ "action": "Deny", "to": [] })),
            "spec.egress[0].to: the rule lists no peer; add one; namespaces: {} is every pod",
        ),
        (
            egress(json!({ "action": "Deny" })),
            "spec.egress[0].to: field \"to\" is missing; add \"to\"",
        ),
        (
            egress(json!({ "action": "Deny", "to": [{ "nodes": {}, "namespaces": {} }] })),
            "spec.egress[0].to[0].nodes: two ways to select a peer; write two entries of the list",
        ),
        (
            egress(json!({ "action": "Deny", "to": [{ "networks": ["10.0.0.0/33"] }] })),
            "spec.egress[0].to[0].networks[0]: \"10.0.0.0/33\" is no prefix; write an address and \
             a length, as in 10.0.0.0/8 or fd00::/64",
        ),
        (
            egress(json!({ "action": "Deny", "to": [{ "networks": ["10.0.0.0/8"] }],
                           "protocols": [{ "destinationNamedPort": "http" }] })),
            "spec.egress[0].protocols[0].destinationNamedPort: a port's name beside networks, \
             whose ports have no names; write the port's number, or two rules",
        ),
        (
            egress(json!({ "action": "Deny", "to": ok, "protocols": [
                { "tcp": { "destinationPort": { "range": { "start": 90, "end": 80 } } } }] })),
            "spec.egress[0].protocols[0].tcp.destinationPort.range: the range ends at 80 and starts \
             at 90; write the lower port as start; for one port write number",
        ),
        (
            egress(json!({ "action": "Deny", "to": ok, "protocols": [
                { "tcp": { "destinationPort": { "number": 0 } } }] })),
            "spec.egress[0].protocols[0].tcp.destinationPort.number: 0 is no port; write a number \
             from 1 to 65535",
        ),
    ] {
        assert_eq!(refusal(&document), format!("admin.yaml: ClusterNetworkPolicy guard: {said}"));
    }
    let mut newer = egress(json!({ "action": "Deny", "to": ok }));
    newer["apiVersion"] = json!("policy.networking.k8s.io/v1");
    assert_eq!(
        refusal(&newer),
        "admin.yaml: apiVersion: ClusterNetworkPolicy of version \
         \"policy.networking.k8s.io/v1\" is not known; write policy.networking.k8s.io/v1alpha2"
    );
}

/// Parts that the definition may have and this agent does not know.
fn unknown_parts() -> Vec<Value> {
    vec![
        json!({ "to": [{}] }),
        json!({ "to": [{ "planets": {} }] }),
        json!({ "to": [{ "domainNames": ["*.example.com"] }] }),
        json!({ "to": [{ "nodes": { "matchLabels": { "role": "control-plane" } } }] }),
        json!({ "protocols": [{}] }),
        json!({ "protocols": [{ "dccp": {} }] }),
        json!({ "protocols": [{ "tcp": {} }] }),
        json!({ "protocols": [{ "tcp": { "destinationPort": {} } }] }),
        json!({ "protocols": [{ "tcp": { "destinationPort": { "number": 80 }, "flags": 1 } }] }),
        json!({ "weekdays": ["Monday"] }),
    ]
}

#[test]
fn a_rule_with_an_unknown_part_fails_closed() {
    for part in unknown_parts() {
        for (action, effect, passes) in [
            // It is about no packet: that it goes to the rule behind it is seen by its denial.
            ("Accept", Effect::RuleAcceptsNothing, false),
            ("Deny", Effect::RuleDeniesEverything, false),
            ("Pass", Effect::RuleDeniesEverything, false),
        ] {
            let mut rule = json!({ "action": action, "to": [{ "namespaces": {} }] });
            for (key, value) in part.as_object().unwrap() {
                rule[key.as_str()] = value.clone();
            }
            let db = json!({ "pods": {
                "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": "db" } } } });
            let last = json!({ "action": "Deny", "to": [db] });
            let policy = ranked("guard", "Admin", 7, json!({ "egress": [rule, last] }));
            let world = ranked_world(&[policy]);
            let report = world.repository.policies().next().unwrap().1;
            let effects: Vec<_> = report.unsupported.iter().map(|it| it.effect).collect();
            assert_eq!(effects, [effect], "{rule}", rule = report.written[0]);
            let db = world.egress(Other::Identity(1001), 6, 80).passes();
            assert_eq!(db, passes, "{part} {action}");
            // Whom the rule behind it does not name.
            let mail = world.egress(Other::Identity(1002), 6, 80).passes();
            assert_eq!(mail, action == "Accept", "{part} {action}");
        }
    }
}

#[test]
fn what_fails_closed_spares_the_node_that_probes_its_pods() {
    let rule = json!({ "action": "Deny", "from": [{}] });
    for tier in ["Admin", "Baseline"] {
        let world = ranked_world(&[ranked("guard", tier, 7, json!({ "ingress": [rule] }))]);
        let passes = |from| world.ingress(Other::Identity(from), 6, 80).passes();
        assert_eq!([1, 2, 6, 1001, 4000].map(passes), [true, false, false, false, false]);
        // What is unknown is of one direction.
        assert!(world.egress(Other::Identity(1001), 6, 80).passes());
    }
}

#[test]
fn nodes_are_selected_by_labels_where_they_have_identities_of_their_own() {
    let rule = json!({ "action": "Deny", "to": [
        { "nodes": { "matchLabels": { "role": "control-plane" } } }] });
    let policy = ranked("guard", "Admin", 7, json!({ "egress": [rule] }));
    let settings = PolicySettings { node_selectors: true, ..PolicySettings::default() };
    let mut world = super::World::new(settings);
    let report = world.apply([policy]);
    assert_eq!((report.rejected, report.unsupported), (Vec::new(), Vec::new()));
    let mut view = world.view();
    for (id, labels) in [
        (2000, ["reserved:remote-node", "node:role=control-plane"]),
        (2001, ["reserved:remote-node", "node:role=worker"]),
        (2002, ["k8s:app=web", "k8s:role=control-plane"]),
    ] {
        let labels = crate::model::Labels::parse(labels).unwrap();
        view.insert(IdentityId(id), super::super::world::facts(labels));
    }
    let rows = world.resolve_in("web", "default", &view).rows;
    let passes = |peer| lookup(&rows, Direction::Egress, IdentityId(peer), 6, 443).passes();
    assert_eq!([2000, 2001, 2002, 1, 6].map(passes), [false, true, true, true, true]);
}
