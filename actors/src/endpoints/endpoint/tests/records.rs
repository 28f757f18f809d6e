//! What a change of policy leaves in the flight recorder: its share of the agent's time is that
//! many records.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use serde_json::json;

use crate::{
    host::flight::{Birth, What, Writer, read},
    testing::{World, allow_from, pod, spec},
};

/// Endpoints that the change touches.
const ENDPOINTS: u8 = 9;

#[test]
fn a_change_of_policy_leaves_twenty_records_an_endpoint() {
    let mut world = World::new();
    world.apply("pods", (1..=ENDPOINTS).map(|number| pod(number, "web")));
    (1..=ENDPOINTS).for_each(|number| drop(world.create(spec(number)).unwrap()));
    let from = |app: &str| {
        allow_from("web", json!({ "fromEndpoints": [{ "matchLabels": { "app": app } }] }))
    };
    world.apply("policy", [from("db")]);
    world.advance(std::time::Duration::from_secs(1));
    let ring: Arc<[AtomicU64]> = (0..1 << 17).map(|_| AtomicU64::default()).collect();
    let writer = Writer::new(Arc::clone(&ring), &Birth::default()).unwrap();
    world.life().universe.host.set_recorder(Box::new(writer));
    world.apply("more", [from("web")]);
    assert!(world.all_ready());
    let flight = read(&ring[..], 0).unwrap();
    let mut kinds = BTreeMap::<String, usize>::new();
    for event in &flight.events {
        let kind = match &event.what {
            What::Message { kind, .. } => kind.to_string(),
            What::Waited { wait, .. } => format!("wait for {}", wait.whom),
            What::State { to, .. } => format!("state {to}"),
            What::Kernel { op, .. } => format!("kernel {op}"),
            other => format!("{other:?}"),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    // What comes once for all of them is not counted.
    kinds.retain(|_, count| *count >= usize::from(ENDPOINTS));
    let records: usize = kinds.values().sum();
    assert!(records <= 20 * usize::from(ENDPOINTS), "{records} records: {kinds:?}");
    assert!(kinds["Regenerate"] == usize::from(ENDPOINTS) && flight.life.waits.is_empty());
}
