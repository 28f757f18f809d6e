//! Tests: addresses from CiliumEndpoints are mapped, moved and removed; bad objects harm no other.

use std::time::Duration;

use serde_json::json;

use super::fixture::{
    addresses, endpoint, fixture, identity, labels, labels_of, make, mapped, peers,
};
use crate::testing::allow_from;

const NAMESPACE: &str = "k8s:io.kubernetes.pod.namespace";

#[test]
fn addresses_of_other_nodes_are_in_force_once_policies_know_their_identity() {
    let (world, cluster) = fixture();
    make(&world, &cluster, 1, "web");
    let policy = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    cluster.apply(allow_from("web", policy));
    // Nobody said yet what it stands for.
    cluster.apply(endpoint("db", "10.0.9.1", 4000));
    world.advance(Duration::from_secs(1));
    assert_eq!((mapped(&world, "10.0.9.1/32"), addresses(&world).waiting), (None, 1));
    cluster.apply(identity(4000, labels("db")));
    world.settle();
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(4000));
    assert!(peers(&world, 1).contains(&4000));
    // It moves, and goes.
    cluster.apply(endpoint("db", "10.0.9.2", 4000));
    world.settle();
    let rows = ["10.0.9.1/32", "10.0.9.2/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [None, Some(4000)]);
    cluster.delete(&endpoint("db", "10.0.9.2", 4000));
    world.settle();
    assert_eq!(mapped(&world, "10.0.9.2/32"), None);
    assert!(!peers(&world, 1).contains(&4000), "{:?}", peers(&world, 1));
    world.audit();
}

#[test]
fn rubbish_costs_its_own_object() {
    let (world, cluster) = fixture();
    cluster.apply(identity(300, json!(null)));
    cluster.apply(identity(301, json!({ "k8s:app": 7 })));
    cluster.apply(identity(70_000, labels("web")));
    let mut unnamed = identity(1, labels("web"));
    unnamed["metadata"]["name"] = json!("web");
    cluster.apply(unnamed);
    cluster.apply(identity(4000, labels("db")));
    cluster.apply(endpoint("torn", "10.0.9", 4000));
    cluster.apply(endpoint("alien", "10.0.9.3", 70_000));
    cluster.apply(endpoint("spoilt", "10.0.9.4", 300));
    cluster.apply(endpoint("db", "10.0.9.1", 4000));
    world.advance(Duration::from_secs(1));
    let rows = ["10.0.9.1/32", "10.0.9.3/32", "10.0.9.4/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [Some(4000), None, None]);
    let web = make(&world, &cluster, 1, "web");
    assert_eq!(labels_of(&cluster, web), Some(labels("web")));
    // One is mended.
    cluster.apply(identity(300, labels("cache")));
    world.advance(Duration::from_secs(1));
    assert_eq!(mapped(&world, "10.0.9.4/32"), Some(300));
    world.audit();
}

/// Some write the labels of a pod without its namespace, which the object itself names.
#[test]
fn labels_without_a_namespace_are_those_of_the_number_beside_them() {
    let (world, cluster) = fixture();
    let short = |id, app: &str| identity(id, json!({ "k8s:app": app, NAMESPACE: "ns" }));
    let db = |name: &str, ip: &str, id| {
        let mut object = endpoint(name, ip, id);
        object["status"]["identity"]["labels"] = json!(["k8s:app=db"]);
        object
    };
    cluster.apply(short(4000, "db"));
    cluster.apply(short(4001, "cache"));
    cluster.apply(db("db", "10.0.9.1", 4000));
    // The number is somebody else's.
    cluster.apply(db("other", "10.0.9.2", 4001));
    world.advance(Duration::from_secs(1));
    let rows = ["10.0.9.1/32", "10.0.9.2/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [Some(4000), None]);
    world.audit();
}
