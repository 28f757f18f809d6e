//! Tests: random documents neither crash the engine nor harm their neighbours.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::world::World;
use crate::policy::rules::PolicySettings;

/// Names of fields, so that rubbish gets past the first doors.
const FIELDS: [&str; 24] = [
    "endpointSelector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ingress",
    "egressDeny",
    "fromEndpoints",
    "toCIDRSet",
    "cidr",
    "except",
    "fromEntities",
    "toPorts",
    "ports",
    "port",
    "endPort",
    "protocol",
    "icmps",
    "fields",
    "type",
    "enableDefaultDeny",
    "podSelector",
    "from",
];

const TEXTS: [&str; 12] = [
    "",
    ":",
    "k8s:",
    "In",
    "Exists",
    "0.0.0.0/0",
    "10.0.0.0/8",
    "::/129",
    "80",
    "-1",
    "TCP",
    "all",
];

fn rubbish() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(&TEXTS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let fields = vec((select(&FIELDS), inner.clone()), 0..6);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::from(Map::from_iter(fields))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Rubbish is refused or, if it happens to mean something, resolved: each document is one or
    /// the other, and its neighbour is untouched.
    #[test]
    fn rubbish_harms_nobody(
        spec in rubbish(), kind in select(&["CiliumNetworkPolicy", "NetworkPolicy", ""])
    ) {
        let mut world = World::new(PolicySettings::default());
        let version = match kind {
            "NetworkPolicy" => "networking.k8s.io/v1",
            _ => "cilium.io/v2",
        };
        let document = json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": "rubbish" },
            "spec": spec,
        });
        let neighbour = json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
            "metadata": { "name": "neighbour" },
            "spec": { "endpointSelector": {}, "ingress": [{}] },
        });
        let report = world.apply([spec, document, neighbour]);
        prop_assert!(report.accepted.iter().any(|name| name.name == "neighbour"));
        prop_assert!(report.accepted.len() + report.rejected.len() <= 3);
        prop_assert!(!report.rejected.is_empty(), "a bare spec is no object");
        prop_assert!(report.rejected.iter().all(|error| !error.remedy.is_empty()));
        prop_assert!(world.resolve("web").ingress_enforced);
    }
}
