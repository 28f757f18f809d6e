//! Conformance by examples: each part of what a ClusterNetworkPolicy means.

use serde_json::{Value, json};

use super::{
    super::world::{Other, World, address},
    ranked, ranked_world,
};
use crate::{
    model::IdentityId,
    mutants::{Mutant, switch},
    policy::rules::Verdict,
};

const HOST: Other = Other::Identity(1);
const REMOTE_NODE: Other = Other::Identity(6);
const DB: Other = Other::Identity(1001);
const MAIL: Other = Other::Identity(1002);
const OTHERS_WEB: Other = Other::Identity(1003);
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Pods of that label, of every namespace.
fn app(app: &str) -> Value {
    json!({ "pods": { "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": app } } } })
}

fn everybody() -> Value {
    json!({ "namespaces": {} })
}

fn from(action: &str, peer: Value) -> Value {
    json!({ "action": action, "from": [peer] })
}

fn to(action: &str, peer: Value) -> Value {
    json!({ "action": action, "to": [peer] })
}

fn on(mut rule: Value, protocols: Value) -> Value {
    rule["protocols"] = protocols;
    rule
}

fn ingress(name: &str, tier: &str, priority: u16, rules: impl Into<Vec<Value>>) -> Value {
    ranked(name, tier, priority, json!({ "ingress": rules.into() }))
}

fn egress(name: &str, tier: &str, priority: u16, rules: impl Into<Vec<Value>>) -> Value {
    ranked(name, tier, priority, json!({ "egress": rules.into() }))
}

/// A NetworkPolicy by which web hears only pods of that label.
fn only_from(label: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "podSelector": { "matchLabels": { "app": "web" } },
                  "ingress": [{ "from": [{ "podSelector": { "matchLabels": { "app": label } } }] }] },
    })
}

/// Cilium's own, for web.
fn cilium(spec: Value) -> Value {
    let mut whole = json!({ "endpointSelector": { "matchLabels": { "app": "web" } } });
    for (key, value) in spec.as_object().unwrap() {
        whole[key.as_str()] = value.clone();
    }
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "web", "namespace": "default" }, "spec": whole,
    })
}

/// Whether each of these is heard at port 80.
fn heard<const N: usize>(world: &World, from: [Other; N]) -> [bool; N] {
    from.map(|other| world.ingress(other, TCP, 80).passes())
}

fn port(number: u16) -> Value {
    json!({ "tcp": { "destinationPort": { "number": number } } })
}

#[test]
fn the_lower_number_is_asked_first_whatever_the_name() {
    let accept = |priority| ingress("b", "Admin", priority, [from("Accept", app("db"))]);
    let deny = |priority| ingress("a", "Admin", priority, [from("Deny", everybody())]);
    let world = ranked_world(&[accept(1), deny(2)]);
    assert_eq!(heard(&world, [DB, MAIL, OTHERS_WEB]), [true, false, false]);
    let world = ranked_world(&[accept(2), deny(1)]);
    assert_eq!(heard(&world, [DB, MAIL]), [false, false]);
}

#[test]
fn of_equal_priorities_the_name_decides() {
    let policy = |name, action| ingress(name, "Admin", 5, [from(action, app("db"))]);
    let world = ranked_world(&[policy("b", "Deny"), policy("a", "Accept")]);
    assert_eq!(heard(&world, [DB]), [true]);
    let world = ranked_world(&[policy("b", "Accept"), policy("a", "Deny")]);
    assert_eq!(heard(&world, [DB]), [false]);
}

#[test]
fn of_the_rules_of_a_policy_the_first_that_is_about_a_packet_decides() {
    let rules = [from("Accept", app("db")), from("Deny", everybody()), from("Accept", app("mail"))];
    let world = ranked_world(&[ingress("a", "Admin", 5, rules)]);
    assert_eq!(heard(&world, [DB, MAIL, HOST]), [true, false, true]);
    // The other direction is nobody's matter.
    assert!(world.egress(MAIL, TCP, 80).passes());
}

#[test]
fn admin_decides_before_network_policy_and_pass_leaves_it_to_that() {
    let deny = ingress("a", "Admin", 5, [from("Deny", app("db"))]);
    assert_eq!(heard(&ranked_world(&[deny, only_from("db")]), [DB, MAIL]), [false, false]);
    let accept = ingress("a", "Admin", 5, [from("Accept", app("mail"))]);
    assert_eq!(heard(&ranked_world(&[accept, only_from("db")]), [DB, MAIL]), [true, true]);
    let rules = [from("Pass", app("db")), from("Deny", everybody())];
    let pass = ingress("a", "Admin", 5, rules);
    // What passes on skips the rest of its tier, also other policies of it.
    let behind = ingress("b", "Admin", 6, [from("Deny", everybody())]);
    let world = ranked_world(&[pass.clone(), behind.clone()]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, false]);
    let world = ranked_world(&[pass.clone(), behind.clone(), only_from("db")]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, false]);
    let world = ranked_world(&[pass, behind, only_from("mail")]);
    assert_eq!(heard(&world, [DB, MAIL]), [false, false]);
}

#[test]
fn a_pass_that_is_taken_for_an_acceptance_is_noticed() {
    let rules = [from("Pass", app("db")), from("Deny", everybody())];
    let policy = ingress("a", "Admin", 5, rules);
    let world = ranked_world(&[policy, only_from("mail")]);
    assert_eq!(heard(&world, [DB]), [false]);
    switch(Some(Mutant::PassTakenForAccept));
    assert_eq!(heard(&world, [DB]), [true]);
    switch(None);
}

#[test]
fn baseline_is_for_whom_no_network_policy_selects() {
    let baseline =
        ingress("base", "Baseline", 0, [from("Accept", app("mail")), from("Deny", everybody())]);
    let world = ranked_world(std::slice::from_ref(&baseline));
    assert_eq!(heard(&world, [DB, MAIL, HOST]), [false, true, true]);
    // A NetworkPolicy has the last word, also on what it does not allow.
    let world = ranked_world(&[baseline.clone(), only_from("db")]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, false]);
    // What Admin passes on, nobody else decides, and Baseline passes on as well, passes.
    let pass = ingress("a", "Admin", 5, [from("Pass", app("db"))]);
    let world = ranked_world(&[baseline.clone(), pass.clone()]);
    assert_eq!(heard(&world, [DB]), [false]);
    let first = ingress("aaa", "Baseline", 0, [from("Pass", app("db"))]);
    let world = ranked_world(&[baseline, pass, first]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, true]);
}

#[test]
fn policies_of_cilium_stand_in_the_tier_of_network_policy() {
    let db = json!([{ "matchLabels": { "app": "db" } }]);
    let denies = cilium(json!({ "ingressDeny": [{ "fromEndpoints": db }] }));
    let accept = ingress("a", "Admin", 5, [from("Accept", app("db"))]);
    let world = ranked_world(&[denies.clone(), accept]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, false]);
    let pass = ingress("a", "Admin", 5, [from("Pass", app("db"))]);
    assert_eq!(heard(&ranked_world(&[denies, pass.clone()]), [DB]), [false]);
    // Without default deny, what it says nothing of is left to Baseline.
    let open = json!({ "ingress": false, "egress": false });
    let allows = cilium(json!({ "enableDefaultDeny": open, "ingress": [{ "fromEndpoints": db }] }));
    let baseline = ingress("base", "Baseline", 0, [from("Deny", everybody())]);
    let world = ranked_world(&[allows, pass, baseline]);
    assert_eq!(heard(&world, [DB, MAIL]), [true, false]);
}

#[test]
fn ports_ranges_and_protocols_narrow_a_rule() {
    let rules = [
        on(from("Deny", app("db")), json!([port(80)])),
        on(
            from("Accept", app("db")),
            json!([{ "tcp": { "destinationPort": { "range": { "start": 70, "end": 90 } } } },
                   { "sctp": { "destinationPort": { "number": 7 } } },
                   { "udp": { "destinationPort": { "range": { "start": 1, "end": 65535 } } } }]),
        ),
        from("Deny", everybody()),
    ];
    let world = ranked_world(&[ingress("a", "Admin", 5, rules)]);
    for (protocol, port, passes) in [
        (TCP, 80, false),
        (TCP, 70, true),
        (TCP, 79, true),
        (TCP, 81, true),
        (TCP, 90, true),
        (TCP, 69, false),
        (TCP, 91, false),
        (SCTP, 7, true),
        (SCTP, 8, false),
        (UDP, 1, true),
        (UDP, 65535, true),
        (UDP, 0, false),
        (1, 8, false),
    ] {
        assert_eq!(world.ingress(DB, protocol, port).passes(), passes, "{protocol} {port}");
    }
    // A rule without protocols is about every one.
    let world = ranked_world(&[ingress("a", "Admin", 5, [from("Deny", app("db"))])]);
    assert!([TCP, UDP, SCTP, 1, 47].iter().all(|it| !world.ingress(DB, *it, 8).passes()));
}

#[test]
fn a_port_s_name_is_that_of_the_receiver_in_every_protocol() {
    let named = |name: &str| json!([{ "destinationNamedPort": name }]);
    // Names are web's: http is tcp 80, dns is udp 8.
    let rules =
        [on(from("Deny", everybody()), named("http")), on(from("Deny", everybody()), named("DNS"))];
    let world = ranked_world(&[ingress("a", "Admin", 5, rules)]);
    let passes = |protocol, port| world.ingress(DB, protocol, port).passes();
    assert_eq!(
        [passes(TCP, 80), passes(UDP, 80), passes(UDP, 8), passes(TCP, 8)],
        [false, true, false, true]
    );
    // Where web sends, they are those of each receiver.
    let world =
        ranked_world(&[egress("a", "Admin", 5, [on(to("Deny", everybody()), named("http"))])]);
    let passes = |to, protocol, port| world.egress(to, protocol, port).passes();
    assert_eq!([passes(DB, TCP, 81), passes(DB, TCP, 80)], [false, true]);
    assert_eq!([passes(OTHERS_WEB, UDP, 80), passes(OTHERS_WEB, TCP, 80)], [false, true]);
    assert!(passes(MAIL, TCP, 81));
}

#[test]
fn networks_are_addresses_of_both_families() {
    let rules = [
        to("Accept", json!({ "networks": ["192.0.2.128/25", "2001:db8:1::/48"] })),
        to("Deny", json!({ "networks": ["192.0.2.0/24", "2001:db8::/32"] })),
    ];
    let world = ranked_world(&[egress("a", "Admin", 5, rules)]);
    for (to, passes) in [
        ("192.0.2.200", true),
        ("192.0.2.7", false),
        ("198.51.100.1", true),
        ("2001:db8:1::5", true),
        ("2001:db8:2::5", false),
        ("2001:db9::1", true),
    ] {
        assert_eq!(world.egress(address(to), TCP, 443).passes(), passes, "{to}");
        assert_eq!(world.egress(address(to), 58, 128).passes(), passes, "{to}");
    }
    // Pods are not of networks: see the limits in the documentation.
    assert!(world.egress(DB, TCP, 443).passes());
}

#[test]
fn all_addresses_are_those_of_the_cluster_too() {
    let all = json!({ "networks": ["0.0.0.0/0", "::/0"] });
    let rules = [to("Pass", everybody()), to("Deny", all.clone())];
    let world = ranked_world(&[egress("a", "Admin", 5, rules)]);
    let passes = |to| world.egress(to, TCP, 80).passes();
    let tried = [DB, HOST, REMOTE_NODE, address("192.0.2.7"), address("2001:db8::9")];
    assert_eq!(tried.map(passes), [true, false, false, false, false]);
    let world = ranked_world(&[egress("a", "Admin", 5, [to("Deny", all)])]);
    let passes = |to| world.egress(to, TCP, 80).passes();
    assert_eq!([DB, HOST, address("192.0.2.7"), Other::Identity(4000)].map(passes), [false; 4]);
    // Of one family of two: a denial means the cluster as well, an acceptance does not.
    let one = json!({ "networks": ["0.0.0.0/0"] });
    let world = ranked_world(&[egress("a", "Admin", 5, [to("Deny", one.clone())])]);
    let passes = |to| world.egress(to, TCP, 80).passes();
    assert_eq!(
        [DB, HOST, address("192.0.2.7"), address("2001:db8::9")].map(passes),
        [false, false, false, true]
    );
    let rules = [to("Accept", one), to("Deny", everybody())];
    let world = ranked_world(&[egress("a", "Admin", 5, rules)]);
    let passes = |to| world.egress(to, TCP, 80).passes();
    assert_eq!([DB, address("192.0.2.7")].map(passes), [false, true]);
}

#[test]
fn nodes_without_labels_are_all_nodes() {
    let world = ranked_world(&[egress("a", "Admin", 5, [to("Deny", json!({ "nodes": {} }))])]);
    let passes = |to| world.egress(to, TCP, 6443).passes();
    assert_eq!(
        [HOST, REMOTE_NODE, DB, address("192.0.2.7")].map(passes),
        [false, false, true, true]
    );
}

#[test]
fn pods_and_namespaces_are_never_who_has_no_namespace() {
    let not = json!({ "matchExpressions": [
        { "key": "team", "operator": "NotIn", "values": ["default-team"] }] });
    let rules = [from("Deny", json!({ "namespaces": not }))];
    let world = ranked_world(&[ingress("a", "Admin", 5, rules)]);
    let from = [DB, OTHERS_WEB, HOST, REMOTE_NODE, address("192.0.2.7")];
    assert_eq!(heard(&world, from), [true, false, true, true, true]);
}

#[test]
fn a_subject_is_of_namespaces_or_of_pods_in_them() {
    let deny = |subject: Value| {
        ranked(
            "a",
            "Admin",
            5,
            json!({ "subject": subject, "ingress": [from("Deny", everybody())] }),
        )
    };
    let team = |team: &str| json!({ "matchLabels": { "team": team } });
    for (subject, is_meant) in [
        (json!({ "namespaces": {} }), true),
        (json!({ "namespaces": team("default-team") }), true),
        (json!({ "namespaces": team("other-team") }), false),
        (json!({ "pods": { "namespaceSelector": {}, "podSelector": {} } }), true),
        (
            json!({ "pods": { "namespaceSelector": team("default-team"),
                              "podSelector": { "matchLabels": { "app": "db" } } } }),
            false,
        ),
    ] {
        let world = ranked_world(&[deny(subject.clone())]);
        assert_eq!(heard(&world, [DB]), [!is_meant], "{subject}");
    }
    // The node, health endpoints and the like are no pods.
    let world = ranked_world(&[deny(json!({ "namespaces": {} }))]);
    for name in ["host", "health", "ingress", "init"] {
        assert!(!world.repository.selects(&crate::model::Labels::reserved(name)), "{name}");
    }
}

#[test]
fn a_verdict_names_policy_tier_and_rule() {
    let mut rule = from("Deny", app("db"));
    rule["name"] = json!("no-db");
    let policies = [ingress("guard", "Admin", 5, [rule]), only_from("db")];
    let world = ranked_world(&policies);
    let Verdict::Denied(cookie) = world.ingress(DB, TCP, 80) else { panic!("it passes") };
    let resolved = world.resolve("web");
    let texts: Vec<_> = resolved.origins[&cookie].iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["test.yaml: ClusterNetworkPolicy guard: spec.ingress[0] (\"no-db\", Deny, tier Admin, \
          priority 5)"]
    );
    // What a NetworkPolicy does not allow has no rule behind it.
    assert_eq!(world.ingress(MAIL, TCP, 80), Verdict::NoMatch);
}

#[test]
fn rows_are_as_before_where_no_rule_has_an_order() {
    let plain = ranked_world(&[only_from("db")]).resolve("web").rows;
    let tiered = egress("a", "Admin", 5, [to("Deny", app("db"))]);
    let rows = ranked_world(&[only_from("db"), tiered]).resolve("web").rows;
    let of_ingress = |rows: &crate::model::PolicyRows| {
        let ingress =
            rows.iter().filter(|(key, _)| key.direction == crate::model::Direction::Ingress);
        ingress.map(|(key, entry)| (*key, *entry)).collect::<Vec<_>>()
    };
    assert_eq!(of_ingress(&plain), of_ingress(&rows));
    // One row for all, and one for each peer that is denied.
    let egress: Vec<_> = rows
        .iter()
        .filter(|(key, _)| key.direction == crate::model::Direction::Egress)
        .map(|(key, entry)| (key.identity, key.bits, entry.deny))
        .collect();
    let denied = [1001, 1004].map(|id| (IdentityId(id), 0, true));
    assert_eq!(egress, [vec![(IdentityId::UNKNOWN, 0, false)], denied.to_vec()].concat());
}
