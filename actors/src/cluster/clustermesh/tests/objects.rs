//! A cluster whose identities are objects of its API server is meshed with one that has a store.

use std::time::Duration;

use serde_json::json;

use super::{CLIENT, b, node};
use crate::{
    cluster::sharing::tests::objects::fixture,
    model::{ClusterId, IdentityId},
    testing::{KvLink, MemoryRemoteClusters, allow_from},
};

#[test]
fn identities_of_other_clusters_stand_beside_objects() {
    let cluster = fixture::cluster();
    let mut world = fixture::node(&cluster, "node-1", "192.0.2.1");
    let (clusters, b) = (MemoryRemoteClusters::default(), b());
    node(&b, "cilium/state/nodes/v1/", "b", "far", "198.51.100.7");
    clusters.configure("b", &b);
    world.clusters = Some(clusters.clone());
    // As a rule that names no cluster means pods of all.
    world.settings.policy.cluster.as_mut().unwrap().by_default = false;
    (world.settings.kvstore.cluster_id, world.settings.kvstore.meshed) = (ClusterId(1), true);
    let own = 1 << 16 | 400;
    cluster.apply(fixture::identity(own, fixture::labels("db")));
    cluster.apply(fixture::endpoint("db", "10.0.9.1", own));
    cluster.apply(allow_from(
        "web",
        json!({ "fromEndpoints": [{ "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["client", "db"] },
        ] }] }),
    ));
    world.boot();
    let web = fixture::make(&world, &cluster, 1, "web");
    assert!(ClusterId(1).hands_out(web), "{web}");
    let whole = |world: &_| {
        let mapped = ["10.2.0.1/32", "10.0.9.1/32", "198.51.100.7/32"]
            .map(|prefix| fixture::mapped(world, prefix));
        mapped == [Some(CLIENT), Some(own), Some(IdentityId::REMOTE_NODE.0)]
            && [CLIENT, own].iter().all(|id| fixture::peers(world, 1).contains(id))
    };
    assert!(whole(&world));
    // Nobody makes an object for what another cluster hands out.
    assert_eq!(fixture::labels_of(&cluster, CLIENT), None);

    b.set_link(KvLink::Down);
    world.restart();
    world.advance(Duration::from_secs(60));
    assert!(whole(&world) && world.all_ready());

    b.set_link(KvLink::Up);
    clusters.remove("b");
    world.settle();
    assert_eq!(fixture::mapped(&world, "10.2.0.1/32"), None);
    assert_eq!(fixture::mapped(&world, "198.51.100.7/32"), None);
    assert_eq!(fixture::mapped(&world, "10.0.9.1/32"), Some(own));
    assert!(!fixture::peers(&world, 1).contains(&CLIENT));
    world.audit();
}
