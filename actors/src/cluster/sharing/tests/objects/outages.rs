//! Tests: what is known stays in force without the API server, and writes it refuses come later.

use std::time::Duration;

use serde_json::json;

use super::fixture::{
    addresses, allocator, cluster, endpoint, fixture, identity, labels, labels_of, make, mapped,
    node, peers, waits,
};
use crate::{
    ports::ClusterError,
    testing::{allow_from, pod, spec},
};

const DEFINITION: &str = "ciliumidentities.cilium.io";

#[test]
fn a_restart_without_the_server_forgets_nothing_and_one_with_it_writes_nothing() {
    let (mut world, cluster) = fixture();
    let policy = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    cluster.apply(allow_from("web", policy));
    cluster.apply(identity(4000, labels("db")));
    cluster.apply(endpoint("db", "10.0.9.1", 4000));
    let id = make(&world, &cluster, 1, "web");
    world.advance(Duration::from_secs(1));
    world.crash();
    cluster.set_down(true);
    world.boot();
    world.advance(Duration::from_secs(20));
    assert!(world.all_ready());
    assert_eq!(world.list()[0].identity, id);
    let rows = ["10.0.0.1/32", "10.0.9.1/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [Some(id.0), Some(4000)]);
    assert!(peers(&world, 1).contains(&4000));
    // What went meanwhile goes when the server says so, and nothing is written about the rest.
    cluster.delete(&endpoint("db", "10.0.9.1", 4000));
    cluster.take_writes();
    cluster.set_down(false);
    world.advance(Duration::from_secs(60));
    assert_eq!(mapped(&world, "10.0.9.1/32"), None);
    assert_eq!(cluster.take_writes(), []);
    assert!(allocator(&world).listed && addresses(&world).synced);
    world.audit();
}

#[test]
fn a_number_that_went_while_nobody_listened_is_made_again() {
    let (mut world, cluster) = fixture();
    let id = make(&world, &cluster, 1, "web");
    world.crash();
    cluster.delete(&identity(id.0, labels("web")));
    world.boot();
    world.advance(Duration::from_secs(5));
    assert_eq!(labels_of(&cluster, id), Some(labels("web")));
    assert_eq!(world.list()[0].identity, id);
}

#[test]
fn a_definition_that_is_missing_is_waited_for_and_holds_up_no_restore() {
    let cluster = cluster();
    cluster.define(DEFINITION, false);
    let mut world = node(&cluster, "node-1", "192.0.2.1");
    world.boot();
    cluster.apply(pod(1, "web"));
    world.advance(Duration::from_secs(1));
    let mut made = world.begin_create(spec(1));
    world.advance(Duration::from_secs(30));
    assert!(made.now().is_none());
    let why = waits(&world);
    assert!(why.contains("the identities that the cluster has"), "{why}");
    assert!(why.contains("all ciliumidentities of the cluster"), "{why}");
    assert!(
        why.contains(&format!("CustomResourceDefinition {DEFINITION} to be registered")),
        "{why}"
    );
    cluster.define(DEFINITION, true);
    world.advance(Duration::from_secs(15));
    let id = made.now().unwrap().unwrap().unwrap().identity;
    assert_eq!(labels_of(&cluster, id), Some(labels("web")));

    // It goes, with all of its objects, and comes back.
    world.crash();
    cluster.delete(&identity(id.0, labels("web")));
    cluster.define(DEFINITION, false);
    world.boot();
    world.advance(Duration::from_secs(20));
    assert!(world.all_ready());
    assert_eq!(world.list()[0].identity, id);
    cluster.define(DEFINITION, true);
    world.advance(Duration::from_secs(15));
    assert_eq!(labels_of(&cluster, id), Some(labels("web")));
    world.audit();
}

#[test]
fn a_server_that_does_not_take_an_identity_is_asked_again_and_everyone_sees_why() {
    let (world, cluster) = fixture();
    let forbidden = ClusterError::Refused("ciliumidentities is forbidden".to_owned());
    cluster.fail_writes("CiliumIdentity", Some(forbidden));
    cluster.apply(pod(1, "web"));
    world.settle();
    let mut made = world.begin_create(spec(1));
    world.advance(Duration::from_secs(1));
    assert!(made.now().is_none());
    let why = waits(&world);
    assert!(why.contains("ciliumidentities is forbidden; give the agent's account"), "{why}");
    cluster.fail_writes("CiliumIdentity", None);
    world.advance(Duration::from_secs(20));
    assert!(made.now().unwrap().unwrap().is_ok());
}
