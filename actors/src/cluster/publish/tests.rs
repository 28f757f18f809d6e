//! What a node says of itself, in a cluster in memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::{InNode, PublishSettings, PublisherMsg, Unpublished};
use crate::{
    endpoints::supervisor::EndpointReference,
    model::{Addresses, EndpointId},
    node::local_node::IpamMode,
    ports::{ClusterError, Verb},
    testing::{MemoryCluster, World, pod, spec},
};

const MINUTE: Duration = Duration::from_secs(60);
const NOT_READY: &str = "node.cilium.io/agent-not-ready";

fn node(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "node-1", "uid": uid, "labels": { "zone": "a" } },
        "spec": {
            "podCIDRs": ["10.0.0.0/24", "fd00::/112"],
            "taints": [
                { "key": NOT_READY, "effect": "NoSchedule" },
                { "key": "mine", "effect": "NoExecute" },
            ],
        },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": "192.0.2.1" },
                { "type": "Hostname", "address": "node-1" },
            ],
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "NetworkUnavailable", "status": "True", "reason": "NoRoute" },
            ],
        },
    })
}

/// A CiliumEndpoint of an earlier agent.
fn endpoint(name: &str, pod_uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("cep-{pod_uid}"),
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid },
            ],
        },
        "status": { "id": 7, "networking": { "node": node } },
    })
}

/// A node that has not started yet, with pods 1 and 2, in a cluster that knows it.
fn off() -> (World, MemoryCluster) {
    let cluster = MemoryCluster::new();
    cluster.apply(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" },
    }));
    cluster.apply(pod(1, "web"));
    cluster.apply(pod(2, "db"));
    cluster.apply(node("node-uid"));
    let mut world = World::off();
    world.cluster = Some(cluster.clone());
    world.settings.publish = Some(PublishSettings {
        node_name: "node-1".to_owned(),
        address: "192.0.2.1".parse().unwrap(),
        router: Addresses { ipv4: "10.0.0.254".parse().ok(), ipv6: None },
        health: None,
        pools: world.settings.pools,
        followed: world.settings.pools,
        ipam: Some(IpamMode::Kubernetes),
        boot_id: "boot".to_owned(),
        in_node: InNode { annotate: true, condition: true, taint: Some(NOT_READY.to_owned()) },
        cilium_node: true,
        cilium_endpoints: true,
        seed: 1,
    });
    (world, cluster)
}

/// The same, started, with both endpoints.
fn world() -> (World, MemoryCluster) {
    let (mut world, cluster) = off();
    world.boot();
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    (world, cluster)
}

fn condition(cluster: &MemoryCluster) -> Value {
    let node = cluster.object("Node", "", "node-1").unwrap();
    let all = node["status"]["conditions"].as_array().unwrap().clone();
    all.into_iter().find(|it| it["type"] == "NetworkUnavailable").unwrap()
}

fn owner(cluster: &MemoryCluster) -> Value {
    let node = cluster.object("CiliumNode", "", "node-1").unwrap();
    node["metadata"]["ownerReferences"][0]["uid"].clone()
}

fn cep(cluster: &MemoryCluster, name: &str) -> Option<Value> {
    cluster.object("CiliumEndpoint", "ns", name)
}

fn unpublished(world: &World) -> Vec<Unpublished> {
    let publisher = world.node_supervisor().publisher.clone().unwrap();
    world.ask(&publisher, PublisherMsg::Show)
}

#[test]
fn a_node_and_its_pods_are_in_the_cluster_as_cilium_has_them() {
    let (world, cluster) = world();
    let node = cluster.object("Node", "", "node-1").unwrap();
    let annotations = &node["metadata"]["annotations"];
    assert_eq!(annotations["network.cilium.io/ipv4-pod-cidr"], "10.0.0.0/24");
    assert_eq!(annotations["network.cilium.io/ipv4-cilium-host"], "10.0.0.254");
    assert_eq!(node["spec"]["taints"], json!([{ "key": "mine", "effect": "NoExecute" }]));
    let condition = condition(&cluster);
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&"False".into(), &"CiliumIsUp".into())
    );
    assert!(condition["lastTransitionTime"].as_str().unwrap().ends_with('Z'), "{condition}");
    assert_eq!(node["status"]["conditions"][0]["type"], "Ready", "others' conditions stay");

    let cilium_node = cluster.object("CiliumNode", "", "node-1").unwrap();
    assert_eq!(owner(&cluster), "node-uid");
    assert_eq!(cilium_node["metadata"]["labels"], json!({ "zone": "a" }));
    let addresses = json!([
        { "type": "InternalIP", "ip": "192.0.2.1" }, { "type": "CiliumInternalIP", "ip": "10.0.0.254" },
    ]);
    let ipam = json!({ "podCIDRs": ["10.0.0.0/24", "fd00::/112"] });
    let spec = json!({ "addresses": addresses, "bootid": "boot", "ipam": ipam });
    assert_eq!(cilium_node["spec"], spec);

    let cep = cep(&cluster, "pod-1").unwrap();
    let view = world.get(EndpointId(1));
    assert_eq!(cep["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(cep["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    let status = &cep["status"];
    assert_eq!(status["id"], 1);
    assert_eq!(status["identity"]["id"], json!(view.identity));
    assert_eq!(status["identity"]["labels"], json!(view.identity_labels.to_texts()));
    let networking = json!({
        "addressing": [{ "ipv4": "10.0.0.1", "ipv6": "fd00::1" }], "node": "192.0.2.1",
    });
    assert_eq!(status["networking"], networking);
    assert_eq!(status["external-identifiers"]["pod-name"], "ns/pod-1");
    assert_eq!(unpublished(&world), []);
    world.audit();
}

#[test]
fn a_restart_in_an_unchanged_cluster_writes_nothing() {
    let (mut world, cluster) = world();
    assert!(!cluster.take_writes().is_empty());
    world.restart();
    world.advance(10 * MINUTE);
    assert_eq!(cluster.take_writes(), []);
    world.audit();
}

#[test]
fn pods_are_kept_away_until_the_datapath_is_programmed() {
    let (mut world, cluster) = off();
    cluster.fail("NetworkPolicy", Some(ClusterError::Failed("etcd".to_owned())));
    world.boot();
    world.advance(10 * MINUTE);
    assert_eq!(condition(&cluster)["status"], "True");
    let taints = |cluster: &MemoryCluster| {
        let node = cluster.object("Node", "", "node-1").unwrap();
        node["spec"]["taints"].as_array().unwrap().len()
    };
    assert_eq!(taints(&cluster), 2);
    assert_eq!(owner(&cluster), "node-uid", "that says nothing of the datapath");
    cluster.fail("NetworkPolicy", None);
    world.advance(MINUTE);
    assert_eq!((condition(&cluster)["status"].clone(), taints(&cluster)), ("False".into(), 1));
}

#[test]
fn the_cilium_node_follows_its_node() {
    let (world, cluster) = world();
    cluster.delete(&cluster.object("CiliumNode", "", "node-1").unwrap());
    world.settle();
    assert_eq!(owner(&cluster), "node-uid", "made again");
    cluster.delete(&node("node-uid"));
    world.settle();
    let missing = unpublished(&world);
    assert!(missing[0].what == "Node node-1" && missing[0].why.contains("K8S_NODE_NAME"));
    cluster.take_writes();
    cluster.apply(node("another"));
    world.settle();
    assert_eq!(owner(&cluster), "another");
    assert_eq!(condition(&cluster)["status"], "False");
    assert_eq!(unpublished(&world), []);
}

#[test]
fn what_somebody_spoils_is_mended() {
    let (world, cluster) = world();
    let mut spoiled = cep(&cluster, "pod-1").unwrap();
    let whole = spoiled.clone();
    spoiled["status"]["identity"]["id"] = json!(1);
    spoiled["status"]["old"] = json!(true);
    cluster.apply(spoiled);
    let mut other = cluster.object("CiliumNode", "", "node-1").unwrap();
    other["spec"]["addresses"] = json!([]);
    other["spec"]["eni"] = json!({ "theirs": 1 });
    cluster.apply(other);
    world.settle();
    assert_eq!(cep(&cluster, "pod-1").unwrap(), whole);
    let node = cluster.object("CiliumNode", "", "node-1").unwrap();
    assert_eq!(node["spec"]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(node["spec"]["eni"], json!({ "theirs": 1 }), "what others say stays");
}

#[test]
fn what_somebody_deletes_comes_back_and_another_cluster_is_told_everything() {
    let (world, cluster) = world();
    for (kind, namespace, name) in [("CiliumEndpoint", "ns", "pod-1"), ("CiliumNode", "", "node-1")]
    {
        let object = cluster.object(kind, namespace, name).unwrap();
        cluster.delete(&object);
        world.settle();
        let back = cluster.object(kind, namespace, name).unwrap();
        assert_eq!((&back["spec"], &back["status"]), (&object["spec"], &object["status"]));
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" },
    });
    cluster.replace([namespace, pod(1, "web"), pod(2, "db"), node("other-uid")]);
    world.advance(Duration::from_secs(5));
    assert_eq!(owner(&cluster), "other-uid");
    assert!(["pod-1", "pod-2"].iter().all(|name| cep(&cluster, name).is_some()));
    assert_eq!(condition(&cluster)["status"], "False");
    assert!(world.all_ready());
}

#[test]
fn endpoints_come_and_go_with_their_pods_and_are_told_from_others() {
    let (mut world, cluster) = off();
    // Of an earlier pod of that name, of one that is gone, and of another node's.
    cluster.apply(endpoint("pod-1", "before", "192.0.2.1"));
    cluster.apply(endpoint("gone", "uid-9", "192.0.2.1"));
    cluster.apply(endpoint("elsewhere", "uid-8", "192.0.2.2"));
    cluster.apply(endpoint("pod-2", "moved", "192.0.2.2"));
    world.boot();
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    let owner = |name| {
        cep(&cluster, name)
            .map(|it| it["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap().to_owned())
    };
    assert_eq!(owner("pod-1").as_deref(), Some("uid-1"));
    assert_eq!(owner("gone"), None);
    assert_eq!(owner("elsewhere").as_deref(), Some("uid-8"));
    assert_eq!(owner("pod-2").as_deref(), Some("moved"), "whose pod that is, its node knows");
    let said = unpublished(&world);
    assert!(said[0].what == "CiliumEndpoint ns/pod-2" && said[0].why.contains("192.0.2.2"));
    cluster.delete(&endpoint("pod-2", "moved", "192.0.2.2"));
    world.settle();
    assert_eq!(owner("pod-2").as_deref(), Some("uid-2"));

    world.delete(EndpointReference::Id(EndpointId(1))).unwrap();
    world.settle();
    assert_eq!((owner("pod-1"), owner("elsewhere").is_some()), (None, true));
}

#[test]
fn nothing_is_collected_while_endpoints_are_being_restored() {
    let (mut world, cluster) = world();
    world.crash();
    cluster.apply(endpoint("gone", "uid-9", "192.0.2.1"));
    cluster.fail("NetworkPolicy", Some(ClusterError::Failed("etcd".to_owned())));
    world.boot();
    world.advance(10 * MINUTE);
    assert!(cep(&cluster, "gone").is_some() && cep(&cluster, "pod-1").is_some());
    cluster.fail("NetworkPolicy", None);
    world.advance(MINUTE);
    assert!(cep(&cluster, "gone").is_none() && cep(&cluster, "pod-1").is_some());

    // Who restores nothing knows of no endpoint, and takes none for gone.
    world.crash();
    world.restores = false;
    world.boot();
    world.advance(MINUTE);
    assert!(cep(&cluster, "pod-1").is_some());
}

#[test]
fn what_cannot_be_written_is_tried_again_for_ever_and_named() {
    let (world, cluster) = world();
    cluster.take_writes();
    let refused = ClusterError::Refused("no right to create".to_owned());
    cluster.fail_writes("CiliumEndpoint", Some(refused));
    cluster.apply(pod(3, "new"));
    world.create(spec(3)).unwrap();
    world.advance(60 * MINUTE);
    let tries = cluster.take_writes().len();
    assert!((100..300).contains(&tries), "{tries} in an hour");
    let said = unpublished(&world);
    assert_eq!(said[0].what, "CiliumEndpoint ns/pod-3");
    assert!(said[0].tries > 100 && said[0].why.contains("no right to create"), "{said:?}");
    cluster.fail_writes("CiliumEndpoint", None);
    world.advance(MINUTE);
    assert_eq!(unpublished(&world), []);
    assert!(cep(&cluster, "pod-3").is_some());
}

#[test]
fn an_object_that_is_not_taken_holds_up_no_other() {
    let (mut world, cluster) = off();
    cluster.fail_writes("CiliumEndpoint", Some(ClusterError::Invalid("status: no".to_owned())));
    cluster.fail_writes("CiliumNode", Some(ClusterError::Conflict("changed".to_owned())));
    world.boot();
    world.create(spec(1)).unwrap();
    world.advance(MINUTE);
    assert_eq!(condition(&cluster)["status"], "False");
    let said: Vec<String> = unpublished(&world).into_iter().map(|it| it.what).collect();
    assert_eq!(said, ["CiliumNode", "CiliumEndpoint ns/pod-1"]);
    cluster.fail_writes("CiliumEndpoint", None);
    cluster.fail_writes("CiliumNode", None);
    world.advance(MINUTE);
    assert!(cep(&cluster, "pod-1").is_some() && owner(&cluster) == "node-uid");
    world.audit();
}

#[test]
fn a_server_that_is_down_busy_or_hung_is_left_alone() {
    let (mut world, cluster) = off();
    let busy = ClusterError::Busy { after: 5 * MINUTE, said: "too many requests".to_owned() };
    cluster.fail_writes("Node", Some(busy));
    world.boot();
    world.advance(4 * MINUTE);
    assert!(cluster.take_writes().len() <= 4);
    cluster.fail_writes("Node", None);
    world.advance(5 * MINUTE);
    assert_eq!(condition(&cluster)["status"], "False");
    cluster.set_hung(true);
    world.create(spec(1)).unwrap();
    world.advance(MINUTE);
    cluster.set_hung(false);
    world.advance(10 * MINUTE);
    assert!(cep(&cluster, "pod-1").is_some());
    cluster.set_down(true);
    world.create(spec(2)).unwrap();
    world.advance(10 * MINUTE);
    cluster.set_down(false);
    world.advance(MINUTE);
    assert!(cep(&cluster, "pod-2").is_some());
    assert_eq!(unpublished(&world), []);
}

#[test]
fn definitions_that_are_missing_are_waited_for() {
    let (mut world, cluster) = off();
    cluster.define("ciliumnodes.cilium.io", false);
    cluster.define("ciliumendpoints.cilium.io", false);
    world.boot();
    world.create(spec(1)).unwrap();
    world.advance(10 * MINUTE);
    assert_eq!(condition(&cluster)["status"], "False", "the Node needs none");
    let verbs = cluster.take_writes();
    assert!(verbs.iter().all(|write| write.resource.kind == "Node"), "{verbs:?}");
    cluster.define("ciliumnodes.cilium.io", true);
    cluster.define("ciliumendpoints.cilium.io", true);
    world.advance(MINUTE);
    assert!(cep(&cluster, "pod-1").is_some() && owner(&cluster) == "node-uid");
}

#[test]
fn a_death_amid_writes_loses_none_and_repeats_none_that_was_taken() {
    let (mut world, cluster) = off();
    cluster.be_slow();
    world.start();
    // After every answer that arrives, there is another life.
    for arrived in 0..40 {
        for _ in 0..arrived {
            world.settle();
            if cluster.jobs() > 0 {
                cluster.step(0);
            }
        }
        world.crash();
        world.start();
    }
    let hear = |world: &World| {
        for _ in 0..200 {
            world.settle();
            if cluster.jobs() > 0 {
                cluster.step(0);
            }
        }
    };
    hear(&world);
    assert_eq!(
        (condition(&cluster)["status"].clone(), owner(&cluster)),
        ("False".into(), "node-uid".into())
    );
    let created = |write: &&crate::ports::ObjectWrite| matches!(write.verb, Verb::Create(_));
    let writes = cluster.take_writes();
    assert_eq!(writes.iter().filter(created).count(), 1, "{writes:?}");
    world.crash();
    world.start();
    hear(&world);
    assert_eq!(cluster.take_writes(), []);
}

#[test]
fn the_publisher_may_crash() {
    let (world, cluster) = world();
    let host = &world.node_supervisor().host;
    let cell = host.cells().into_iter().find(|cell| &*cell.name == "publisher").unwrap();
    host.poison(cell.id);
    cluster.take_writes();
    world.delete(EndpointReference::Id(EndpointId(1))).unwrap();
    world.advance(MINUTE);
    assert!(cep(&cluster, "pod-1").is_none() && cep(&cluster, "pod-2").is_some());
    let writes = cluster.take_writes();
    // Whether the first removal was heard of, nobody knows any more.
    let removed = |write: &crate::ports::ObjectWrite| {
        write.key.name == "pod-1" && matches!(write.verb, Verb::Delete { .. })
    };
    assert!(writes.len() <= 2 && writes.iter().all(removed), "{writes:?}");
}

#[test]
fn a_cluster_that_says_other_prefixes_later_is_reported_and_not_followed() {
    let (mut world, cluster) = world();
    let mut moved = node("node-uid");
    moved["spec"]["podCIDRs"] = json!(["10.9.0.0/24", "fd00::/112", "rubbish"]);
    cluster.apply(moved.clone());
    world.settle();
    let said = unpublished(&world);
    assert!(said[0].why.contains("has 3 prefixes"), "{said:?}");
    let words = "the Node says 10.9.0.0/24, but pods here have addresses of 10.0.0.0/24";
    assert!(said[1].why.contains(words), "{said:?}");
    // Also where nobody said who gives prefixes.
    world.settings.publish.as_mut().unwrap().ipam = None;
    world.restart();
    let said = unpublished(&world);
    assert!(said.iter().any(|it| it.why.contains(words)), "{said:?}");
    let settings = world.settings.publish.as_mut().unwrap();
    settings.ipam = Some(IpamMode::ClusterPool);
    world.restart();
    cluster.take_writes();
    let mut given = cluster.object("CiliumNode", "", "node-1").unwrap();
    given["spec"]["ipam"]["podCIDRs"] = json!(["10.7.0.0/24"]);
    cluster.apply(given);
    world.settle();
    let said = unpublished(&world);
    assert!(said[0].why.contains("the CiliumNode says 10.7.0.0/24"), "{said:?}");
    assert_eq!(cluster.take_writes(), [], "the operator gives them");
}
