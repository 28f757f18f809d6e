//! Tests: nodes share the numbers of labels, also when one is taken, deleted or disputed.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::fixture::{
    addresses, allocator, cluster, endpoint, fixture, identity, labels, labels_of, make, mapped,
    node, peers,
};
use crate::{
    endpoints::supervisor::EndpointReference,
    model::IdentityId,
    testing::{World, allow_from, pod, spec},
};

/// Everyone goes on until nobody has anything to do.
fn run(worlds: &[&World]) {
    for _ in 0..8 {
        worlds.iter().for_each(|world| world.advance(Duration::from_secs(1)));
    }
}

#[test]
fn a_new_set_of_labels_becomes_an_object_as_cilium_makes_it() {
    let (world, cluster) = fixture();
    let id = make(&world, &cluster, 1, "web");
    let object = cluster.object("CiliumIdentity", "", &id.to_string()).unwrap();
    assert_eq!(object["security-labels"], labels("web"));
    let own = json!({
        "app": "web", "io.cilium.k8s.policy.cluster": "default",
        "io.cilium.k8s.policy.serviceaccount": "default", "io.kubernetes.pod.namespace": "ns",
    });
    assert_eq!(object["metadata"]["labels"], own);
    // The next pod with these labels needs no other object, and nor does a restart.
    cluster.take_writes();
    assert_eq!(make(&world, &cluster, 2, "web"), id);
    world.advance(Duration::from_secs(1));
    let written = cluster.take_writes();
    assert!(written.iter().all(|write| write.resource.kind == "CiliumEndpoint"), "{written:?}");
    world.audit();
}

#[test]
fn labels_that_have_a_number_keep_it_and_of_several_the_lowest() {
    let (world, cluster) = fixture();
    for id in [4343, 4242, 5000] {
        cluster.apply(identity(id, labels("web")));
    }
    assert_eq!(make(&world, &cluster, 1, "web"), IdentityId(4242));
}

#[test]
fn two_nodes_share_numbers_and_addresses() {
    let cluster = cluster();
    let mut here = node(&cluster, "node-1", "192.0.2.1");
    let mut there = node(&cluster, "node-2", "192.0.2.2");
    here.boot();
    there.boot();
    let policy = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    cluster.apply(allow_from("web", policy));
    let web = make(&here, &cluster, 1, "web");
    run(&[&here, &there]);
    assert_eq!(mapped(&there, "10.0.0.1/32"), Some(web.0));
    assert_eq!(make(&there, &cluster, 2, "web"), web);
    // Both want a number for new labels before either hears of the other's.
    for number in [3, 4, 7, 8] {
        cluster.apply(pod(number, if number % 4 == 3 { "db" } else { "cache" }));
    }
    run(&[&here, &there]);
    let mut made = Vec::new();
    for (world, numbers) in [(&here, [3, 4]), (&there, [7, 8])] {
        made.extend(numbers.map(|number| world.begin_create(spec(number))));
    }
    run(&[&here, &there]);
    let ids: Vec<_> =
        made.iter_mut().map(|made| made.now().unwrap().unwrap().unwrap().identity).collect();
    assert!(ids[0] == ids[2] && ids[1] == ids[3] && ids[0] != ids[1], "{ids:?}");
    for (world, number, id) in [(&here, 7, ids[0]), (&there, 3, ids[0]), (&there, 4, ids[1])] {
        assert_eq!(mapped(world, &format!("10.0.0.{number}/32")), Some(id.0));
    }
    assert!(peers(&here, 1).contains(&ids[0].0) && peers(&there, 2).contains(&ids[0].0));
    // One restarts while the other one's pods change.
    here.crash();
    there.delete(EndpointReference::Address("10.0.0.7".parse().unwrap()));
    let client = make(&there, &cluster, 9, "client");
    run(&[&there]);
    here.boot();
    run(&[&here, &there]);
    assert_eq!(mapped(&here, "10.0.0.7/32"), None);
    assert_eq!(mapped(&here, "10.0.0.9/32"), Some(client.0));
    assert_eq!(allocator(&here).known, 4);
    here.audit();
    there.audit();
}

#[test]
fn a_number_that_somebody_took_meanwhile_is_theirs() {
    // The number that is drawn for these labels.
    let (world, other) = fixture();
    let drawn = make(&world, &other, 1, "web");
    for (theirs, ours) in [(labels("web"), true), (labels("db"), false), (json!({}), false)] {
        let (world, cluster) = fixture();
        cluster.apply(pod(1, "web"));
        world.settle();
        // Its watches hear nothing from now on; what is asked anew is answered.
        cluster.set_hung(true);
        cluster.set_hung(false);
        cluster.apply(identity(drawn.0, theirs.clone()));
        let id = world.create(spec(1)).unwrap().identity;
        assert_eq!(id == drawn, ours, "{theirs}");
        assert_eq!(labels_of(&cluster, drawn), Some(theirs));
        assert_eq!(labels_of(&cluster, id), Some(labels("web")));
    }
}

#[test]
fn a_number_in_use_that_was_deleted_or_marked_comes_back() {
    let (world, cluster) = fixture();
    let id = make(&world, &cluster, 1, "web");
    let name = id.to_string();
    cluster.delete(&cluster.object("CiliumIdentity", "", &name).unwrap());
    world.settle();
    assert_eq!(labels_of(&cluster, id), Some(labels("web")));
    // What the operator writes on one that it is about to remove.
    let mut object = cluster.object("CiliumIdentity", "", &name).unwrap();
    object["metadata"]["annotations"] = json!({ "io.cilium.heartbeat": "x", "other": "y" });
    cluster.apply(object);
    world.settle();
    let object = cluster.object("CiliumIdentity", "", &name).unwrap();
    assert_eq!(object["metadata"]["annotations"], json!({ "other": "y" }));
    // One that nobody here uses is not for this node to keep.
    world.delete(EndpointReference::Address("10.0.0.1".parse().unwrap()));
    cluster.take_writes();
    cluster.delete(&object);
    world.advance(Duration::from_secs(5));
    assert_eq!(labels_of(&cluster, id), None);
    // Until the labels are desired again.
    assert_eq!(make(&world, &cluster, 2, "web"), id);
    assert_eq!(labels_of(&cluster, id), Some(labels("web")));
    world.audit();
}

#[test]
fn endpoints_leave_a_number_that_means_something_else_in_the_cluster() {
    let cluster = cluster();
    let mut world = node(&cluster, "node-1", "192.0.2.1");
    // The run before numbered by itself.
    world.settings.identity_allocation = crate::cluster::allocator::Mode::Kvstore;
    world.boot();
    let id = make(&world, &cluster, 1, "web");
    world.crash();
    world.settings.identity_allocation = crate::cluster::allocator::Mode::Crd;
    cluster.apply(identity(id.0, labels("db")));
    cluster.apply(endpoint("db", "10.0.9.1", id.0));
    world.boot();
    world.advance(Duration::from_secs(20));
    assert!(world.all_ready());
    let moved = world.list()[0].identity;
    assert_ne!(moved, id);
    assert_eq!(labels_of(&cluster, moved), Some(labels("web")));
    let rows = ["10.0.0.1/32", "10.0.9.1/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [Some(moved.0), Some(id.0)]);
    assert_eq!(allocator(&world).disputed, BTreeSet::new());
    world.audit();
}

#[test]
fn two_numbers_for_one_set_of_labels_are_both_good() {
    let (mut world, cluster) = fixture();
    let id = make(&world, &cluster, 1, "web");
    let policy = json!({ "fromEndpoints": [{ "matchLabels": { "app": "web" } }] });
    cluster.apply(allow_from("web", policy));
    // Another node made a lower one, which it uses, and a third node uses this one.
    assert!(id.0 > 300);
    cluster.apply(identity(300, labels("web")));
    cluster.apply(endpoint("lower", "10.0.9.1", 300));
    cluster.apply(endpoint("same", "10.0.9.2", id.0));
    for _ in 0..2 {
        world.advance(Duration::from_secs(10));
        let rows = ["10.0.9.1/32", "10.0.9.2/32"].map(|prefix| mapped(&world, prefix));
        assert_eq!(rows, [Some(300), Some(id.0)]);
        assert!(peers(&world, 1).contains(&300) && peers(&world, 1).contains(&id.0));
        assert_eq!(world.list()[0].identity, id, "what a pod has it keeps");
        assert_eq!(addresses(&world).waiting, 0);
        world.audit();
        world.restart();
    }
}
