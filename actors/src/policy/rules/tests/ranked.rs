//! ClusterNetworkPolicy as a whole: random objects against an oracle that reads them itself, and each
//! part of what they mean by an example.

mod draw;
mod examples;
mod fit;
mod oracle;
mod refused;
mod updates;

use serde_json::{Value, json};

use super::{
    explain::explained_by,
    oracle::Packet,
    world::{Other, World, named_ports},
};
use crate::{
    model::Direction,
    policy::rules::{ClauseOrigin, PacketFate, PolicySettings, Verdict, lookup},
};

/// A packet between `web` of namespace `default` and another side.
#[derive(Clone, Copy, Debug)]
struct RankedPacket {
    egress: bool,
    other: Other,
    protocol: u8,
    port: u16,
}

/// A world with these objects, each of which is understood.
fn ranked_world(documents: &[Value]) -> World {
    let mut world = World::new(PolicySettings::default());
    world.named_ports = named_ports(1000);
    assert_eq!(world.apply(documents.iter().cloned()).rejected, []);
    world
}

/// An object of the kind.
fn ranked(name: &str, tier: &str, priority: u16, rules: Value) -> Value {
    let mut spec = json!({ "tier": tier, "priority": priority, "subject": { "namespaces": {} } });
    for (key, value) in rules.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// Random objects and random packets: the rows must say what the oracle says, and a denial must name the
/// rule that decided.
#[test]
fn rows_say_what_the_oracle_says_of_50_000_packets() {
    const WORLDS: u64 = 500;
    const PACKETS: usize = 100;
    let (mut judged, mut dropped, mut passes_on, mut decided) = (0, 0, 0, [0; 4]);
    for seed in 0..WORLDS {
        let mut draws = draw::Draws::new(seed);
        let documents = draws.documents();
        let world = ranked_world(&documents);
        let view = world.view();
        let resolved = world.resolve_in("web", "default", &view);
        for _ in 0..PACKETS {
            let packet = draws.packet(&documents);
            let direction = if packet.egress { Direction::Egress } else { Direction::Ingress };
            let peer = world.identity_of(packet.other);
            let verdict = lookup(&resolved.rows, direction, peer, packet.protocol, packet.port);
            let oracle::Judgement { passes, by, tier, passed_on } =
                oracle::judge(&documents, packet);
            let told = || {
                let objects = serde_json::to_string_pretty(&documents).unwrap();
                format!("seed {seed}: {packet:?}: {verdict:?}, {by:?}\n{objects}")
            };
            assert_eq!(verdict.passes(), passes, "{}", told());
            if let (Some(by), Verdict::Denied(cookie)) = (&by, verdict) {
                let origins = resolved.origins.get(&cookie).into_iter().flatten();
                let mut places = origins.map(|it| format!("{} {}", it.policy.name, it.path));
                assert!(places.any(|place| place == *by), "{}", told());
            }
            // What is said of it to people is the same.
            let RankedPacket { egress, other, protocol, port } = packet;
            let packet = Packet { egress, other, protocol, port };
            let said = explained_by(&world, (&view, &resolved), packet);
            assert_eq!(said.fate == PacketFate::Allowed, passes, "{}", told());
            let place = |it: &ClauseOrigin| format!("{} {}", it.policy.name, it.path);
            assert_eq!(said.passed_on_by.as_ref().map(place), passed_on, "{}", told());
            passes_on += usize::from(passed_on.is_some());
            judged += 1;
            dropped += usize::from(!passes);
            decided[tier] += 1;
        }
    }
    println!("{judged} verdicts, {dropped} of them drops; decided by tier: {decided:?}");
    assert_eq!(judged, 50_000);
    assert!(passes_on > judged / 100, "{passes_on}");
    // Each way to a verdict was taken often.
    assert!(decided.into_iter().all(|count| count > judged / 20), "{decided:?}");
    assert!((judged / 5..judged * 4 / 5).contains(&dropped), "{dropped}");
}

/// Without the order of the objects, or with each in a source of its own, nothing is otherwise.
#[test]
fn the_order_of_sources_does_not_matter() {
    for seed in 1000..1100 {
        let mut draws = draw::Draws::new(seed);
        let documents = draws.documents();
        let together = ranked_world(&documents).resolve("web");
        let mut apart = World::new(PolicySettings::default());
        apart.named_ports = named_ports(1000);
        for (place, document) in documents.iter().enumerate().rev() {
            let source = format!("{}.yaml", (place * 7 + seed as usize) % 10);
            let source = format!("{source}-{place}");
            apart.apply_from(&source, &Ok(vec![document.clone()]));
        }
        let apart = apart.resolve("web");
        let meant = |rows: &crate::model::PolicyRows| {
            rows.iter().map(|(key, row)| (*key, row.deny)).collect::<Vec<_>>()
        };
        assert_eq!(meant(&together.rows), meant(&apart.rows), "seed {seed}");
    }
}
