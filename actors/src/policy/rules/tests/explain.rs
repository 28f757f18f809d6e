//! Tests: what is said of a packet agrees with the rows of the policy map and with what policies mean; and
//! the nearest rule is one that would allow the packet if what fails were otherwise.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::{
    oracle::{Expected, Packet, expected},
    properties::{packet, policy, verdict, world},
    world::{Other, World, address, pod, pod_of},
};
use crate::{
    model::Direction,
    policy::rules::{
        ClauseOrigin, IdentityView, PacketExplained, PacketFate, PacketQuestion, Resolved,
        RulePart, Subject, Verdict,
    },
};

/// What is said of a packet of `web`.
fn explained(world: &World, packet: Packet) -> PacketExplained {
    let view = world.view();
    let resolved = world.resolve_in("web", "default", &view);
    explained_by(world, (&view, &resolved), packet)
}

/// The same with what is known already.
pub(super) fn explained_by(
    world: &World,
    (view, resolved): (&IdentityView, &Resolved),
    packet: Packet,
) -> PacketExplained {
    let question = PacketQuestion {
        subject: Subject {
            labels: Arc::new(pod("web", "default")),
            named_ports: world.named_ports.clone(),
        },
        rows: Arc::clone(&resolved.rows),
        direction: if packet.egress { Direction::Egress } else { Direction::Ingress },
        peer: world.identity_of(packet.other),
        address: match packet.other {
            Other::Identity(id) => [10, 0, (id >> 8) as u8, id as u8].into(),
            Other::Address(address) => address,
        },
        protocol: packet.protocol,
        port: packet.port,
    };
    world.repository.explain(&question, view)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The verdict is that of the rows and that of the policies' words, and the nearest rule misses the
    /// packet where the oracle says so.
    #[test]
    fn what_is_said_agrees_with_rows_and_words(
        policies in vec(policy(), 0..5), packets in vec(packet(), 24)
    ) {
        let world = world(&policies);
        let view = world.view();
        let resolved = world.resolve_in("web", "default", &view);
        for packet in packets {
            let said = explained_by(&world, (&view, &resolved), packet);
            let (by_words, by_rows) =
                (expected(&policies, packet), verdict(&world, &resolved, packet));
            let (fate, rows) = match by_words {
                Expected::Pass => (PacketFate::Allowed, matches!(by_rows, Verdict::Allowed(_))),
                Expected::Deny => (PacketFate::Denied, matches!(by_rows, Verdict::Denied(_))),
                Expected::NoMatch => (PacketFate::NoRule, by_rows == Verdict::NoMatch),
            };
            prop_assert!(rows, "{:?}: {:?}", packet, by_rows);
            prop_assert_eq!(said.fate, fate, "{:?}", packet);
            let allows = |it: &super::oracle::DrawnClause| !it.deny && it.egress == packet.egress;
            let all = || policies.iter().flat_map(|policy| &policy.clauses);
            match &said.nearest {
                Some(nearest) => {
                    prop_assert_eq!(fate, PacketFate::NoRule);
                    prop_assert!(!nearest.fails.is_empty());
                    let (policy, clause) = named(&policies, &nearest.rule);
                    prop_assert!(allows(clause));
                    // Each part fails where the words say that it does, and no other part does.
                    let failed = |part| nearest.fails.iter().any(|it| it.part == part);
                    prop_assert_eq!(failed(RulePart::Subject), policy.for_others);
                    let (peers, ports) = clause.fits(packet);
                    prop_assert_eq!(failed(RulePart::Peer), !peers, "{:?} {:?}", packet, nearest);
                    prop_assert_eq!(failed(RulePart::Port), !ports, "{:?} {:?}", packet, nearest);
                }
                None => prop_assert!(fate != PacketFate::NoRule || !all().any(allows)),
            }
        }
    }

    /// An identity alone is selected as the search for all finds it.
    #[test]
    fn one_identity_is_selected_as_all_are(policies in vec(policy(), 1..5)) {
        let world = world(&policies);
        let (view, families) = (world.view(), world.repository.settings().families);
        for (_, policy) in world.repository.policies() {
            for (path, peer) in policy.peers() {
                let all = view.select(peer, families);
                for (id, _) in view.iter() {
                    let one = view.is_selected(peer, id, families);
                    prop_assert_eq!(one, all.contains(&id), "{}: {} {}", path, peer, id);
                }
            }
        }
    }
}

/// The drawn policy and clause that a place names.
fn named<'a>(
    policies: &'a [super::oracle::Drawn],
    rule: &ClauseOrigin,
) -> (&'a super::oracle::Drawn, &'a super::oracle::DrawnClause) {
    let number: usize = rule.policy.name.trim_start_matches("policy-").parse().unwrap();
    (&policies[number], super::properties::named(policies, &rule.policy.name, &rule.path))
}

fn policy_of(spec: serde_json::Value) -> serde_json::Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "web", "namespace": "default" }, "spec": spec,
    })
}

fn tcp(other: Other, port: u16) -> Packet {
    Packet { egress: false, other, protocol: 6, port }
}

fn fails(said: &PacketExplained) -> Vec<String> {
    let nearest = said.nearest.as_ref().expect("some rule is the nearest");
    nearest.fails.iter().map(|it| format!("{}: {}", it.part, it.problem)).collect()
}

#[test]
fn the_part_that_fails_is_named_with_what_is_wanted_and_what_there_is() {
    let world = World::with([policy_of(json!({
        "endpointSelector": { "matchLabels": { "app": "web" } },
        "ingress": [
            { "fromEndpoints": [{ "matchLabels": { "app": "db" } }],
              "toPorts": [{ "ports": [{ "port": "5432", "protocol": "TCP" }] }] },
            { "fromCIDRSet": [{ "cidr": "198.51.100.0/24", "except": ["198.51.100.64/26"] }],
              "toPorts": [{ "ports": [{ "port": "443", "protocol": "TCP" }] }] },
        ],
    }))]);
    let of = |other, port| fails(&explained(&world, tcp(other, port)));
    assert_eq!(of(pod_of("db", "default"), 5433), ["port: TCP 5432 is meant, and not TCP 5433"]);
    assert_eq!(
        of(pod_of("mail", "default"), 5432),
        ["peer: app=db is wanted, and it has app=mail"]
    );
    assert_eq!(
        of(pod_of("db", "other"), 5432),
        ["peer: namespace=default is wanted, and it has namespace=other"]
    );
    assert_eq!(
        of(address("198.51.100.70"), 443),
        ["peer: 198.51.100.0/24 is meant, but 198.51.100.64/26 of it is not"]
    );
    let said = explained(&world, tcp(pod_of("db", "default"), 5432));
    assert_eq!((said.fate, said.nearest), (PacketFate::Allowed, None));
    assert!(said.enforced && said.selected_by[0].enforces && said.selected_by[0].speaks);
}

#[test]
fn a_rule_that_is_for_others_or_fails_closed_is_named_as_such() {
    let world = World::with([
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": { "name": "deny", "namespace": "default" },
                "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } }),
        policy_of(json!({
            "endpointSelector": { "matchLabels": { "app": "wbe" } },
            "ingress": [{ "fromEndpoints": [{}] }],
        })),
    ]);
    let said = explained(&world, tcp(pod_of("db", "default"), 80));
    assert_eq!(
        fails(&said),
        ["subject: the policy is for others: app=wbe is wanted, and it has app=web"]
    );
    let world = World::with([policy_of(json!({
        "endpointSelector": { "matchLabels": { "app": "web" } },
        "ingress": [{ "fromEndpoints": [{}], "toPorts": [{
            "ports": [{ "port": "80", "protocol": "TCP" }], "rules": { "http": [{ "path": "/" }] },
        }] }],
    }))]);
    let said = explained(&world, tcp(pod_of("db", "default"), 80));
    let text = fails(&said);
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(
        text[0].starts_with("unsupported: not supported yet: spec.ingress[0].toPorts[0].rules"),
        "{text:?}"
    );
}

#[test]
fn entities_and_names_of_ports_are_told_in_their_words() {
    let world = World::with([policy_of(json!({
        "endpointSelector": {},
        "ingress": [{ "fromEntities": ["world"],
                      "toPorts": [{ "ports": [{ "port": "http", "protocol": "TCP" }] }] }],
    }))]);
    let text = fails(&explained(&world, tcp(pod_of("db", "default"), 80)));
    assert_eq!(text.len(), 2, "{text:?}");
    assert!(text[0].contains("reserved:world"), "{text:?}");
    assert_eq!(
        text[1],
        "port: TCP \"http\" (the receiver has no port of that name) is meant, and not TCP 80"
    );
}

#[test]
fn an_unknown_identity_is_said_to_be_so() {
    let world = World::with([policy_of(json!({
        "endpointSelector": {},
        "ingress": [{ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] }],
    }))]);
    let text = fails(&explained(&world, tcp(Other::Identity(4000), 80)));
    assert_eq!(text, ["peer: no labels are known of identity 4000"]);
}
