//! A cluster with a number.

use std::time::Duration;

use serde_json::Value;

use super::fixture::{address, fixture, identity, labels, make, mapped};
use crate::{
    cluster::kvstore::{ADDRESSES, IDENTITIES},
    model::{ClusterId, IdentityId},
    testing::World,
};

const CLUSTER: ClusterId = ClusterId(7);

fn announced(world: &World) -> Value {
    let store = world.kvstore.as_ref().unwrap();
    let value = store.get("cilium/state/nodes/v1/default/here").unwrap();
    serde_json::from_str(&value).unwrap()
}

#[test]
fn identities_have_numbers_of_their_cluster() {
    let (mut world, store) = fixture();
    world.settings.kvstore.cluster_id = CLUSTER;
    // What the cluster has for these labels is taken, but not the number of another cluster.
    identity(&store, 300, &labels("web"));
    identity(&store, 7 << 16 | 400, &labels("db"));
    address(&store, "10.0.9.1", 7 << 16 | 400);
    world.boot();
    let web = make(&mut world, 1, "web");
    assert!(CLUSTER.hands_out(web), "{web}");
    assert_eq!(store.get(&format!("{IDENTITIES}{web}")), Some(labels("web")));
    assert_eq!(make(&mut world, 2, "db"), IdentityId(7 << 16 | 400));
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(7 << 16 | 400));
    assert_eq!(announced(&world)["ClusterID"], 7);
    // They stay over a restart.
    world.restart();
    assert_eq!(mapped(&world, "10.0.0.1/32"), Some(web.0));
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn a_cluster_that_gets_a_number_leaves_those_it_had() {
    let (mut world, store) = fixture();
    world.boot();
    let before = make(&mut world, 1, "web");
    assert!(ClusterId(0).hands_out(before));
    world.crash();
    world.settings.kvstore.cluster_id = CLUSTER;
    world.boot();
    world.advance(Duration::from_secs(60));
    let after = world.list()[0].identity;
    assert!(CLUSTER.hands_out(after) && world.all_ready(), "{before} became {after}");
    assert_eq!(mapped(&world, "10.0.0.1/32"), Some(after.0));
    let value = store.get(&format!("{ADDRESSES}10.0.0.1")).unwrap();
    assert!(value.contains(&format!(r#""ID":{after},"#)), "{value}");
    world.audit();
}
