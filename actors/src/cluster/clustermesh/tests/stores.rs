//! What stands in the stores of other clusters.

use serde_json::json;

use super::{CLIENT, Region, address, b, cluster, identity, node, service};
use crate::{
    cluster::{remote_nodes::RemoteNodesMsg, sharing::tests::store::fixture},
    model::{ClusterId, Direction, IdentityId},
    policy::rules::lookup,
    testing::{MemoryKvStore, to_http},
};

const ADDRESSES: &str = "cilium/state/ip/v1/default/";
const IDENTITIES: &str = "cilium/state/identities/v1/id/";

#[test]
fn who_is_where_in_another_cluster_is_known_here() {
    let (region, b) = Region::meshed();
    assert_eq!(region.mapped("10.2.0.1/32"), Some(CLIENT));
    assert!(region.lets_in());
    node(&b, "cilium/state/nodes/v1/", "b", "far", "198.51.100.7");
    service(&b, "b", "web", true);
    service(&b, "b", "own", false);
    region.world.settle();
    assert_eq!(region.mapped("198.51.100.7/32"), Some(IdentityId::REMOTE_NODE.0));
    let view = region.view("b");
    assert_eq!((view.id, view.problem.as_deref()), (Some(ClusterId(2)), None));
    assert!(view.is_ready());
    assert_eq!(view.services, 1, "one is shared");
    let addresses = fixture::addresses(&region.world);
    assert_eq!(addresses.clusters.into_iter().collect::<Vec<_>>(), [("b".into(), (1, 1))]);
    let nodes = region.world.node_supervisor().nodes.clone().unwrap();
    let nodes = region.world.ask(&nodes, RemoteNodesMsg::Show);
    assert_eq!(nodes.clusters.into_iter().collect::<Vec<_>>(), [("b".into(), 1)]);

    // And it goes.
    for key in b.keys("cilium/state/") {
        b.delete(&key);
    }
    region.world.settle();
    assert_eq!((region.mapped("10.2.0.1/32"), region.mapped("198.51.100.7/32")), (None, None));
    assert!(!region.lets_in());
    assert_eq!(region.view("b").services, 0);
    region.world.audit();
}

#[test]
fn ports_of_its_pods_are_known_by_their_names() {
    let (mut region, b) = Region::meshed();
    let mut policy = to_http("web", "client");
    policy["spec"]["egress"][0]["toEndpoints"][0]["matchLabels"]["io.cilium.k8s.policy.cluster"] =
        json!("b");
    region.world.apply("ports", [policy]);
    let port = json!({ "Name": "http", "Port": 80, "Protocol": "TCP" });
    let value = json!({ "HostIP": "198.51.100.7", "ID": CLIENT, "NamedPorts": [port] });
    b.put(&format!("{ADDRESSES}10.2.0.1"), &value.to_string());
    region.world.settle();
    let reaches = |region: &Region| {
        let rows = region.world.kernel.state().policy_of(101).cloned().unwrap();
        [80, 81].map(|port| lookup(&rows, Direction::Egress, IdentityId(CLIENT), 6, port).passes())
    };
    assert_eq!(reaches(&region), [true, false]);
    address(&b, ADDRESSES, "10.2.0.1", CLIENT);
    region.world.settle();
    assert_eq!(reaches(&region), [false, false]);
}

#[test]
fn a_copy_is_read_where_it_is_and_once_it_is_whole() {
    let mut region = Region::new();
    let b = MemoryKvStore::default();
    let config = r#"{"id":2,"capabilities":{"cached":true,"syncedCanaries":true}}"#;
    b.put("cilium/cluster-config/b", config);
    identity(&b, "cilium/cache/identities/v1/b/id/", CLIENT, "b");
    address(&b, "cilium/cache/ip/v1/b/", "10.2.0.1", CLIENT);
    // Those of a third cluster in the same copy are not b's.
    identity(&b, "cilium/cache/identities/v1/c/id/", 3 << 16 | 300, "c");
    address(&b, "cilium/cache/ip/v1/c/", "10.3.0.1", 3 << 16 | 300);
    node(&b, "cilium/cache/nodes/v1/", "b", "far", "198.51.100.7");
    region.clusters.configure("b", &b);
    region.world.boot();
    fixture::make(&mut region.world, 1, "web");
    assert_eq!(region.mapped("10.2.0.1/32"), None, "it is still being written");
    assert!(!region.view("b").is_ready());

    for kind in ["identities", "ip", "nodes", "services"] {
        b.put(&format!("cilium/synced/b/cilium/cache/{kind}/v1"), "true");
    }
    region.world.advance(std::time::Duration::from_secs(15));
    assert_eq!(region.mapped("10.2.0.1/32"), Some(CLIENT));
    assert_eq!(region.mapped("198.51.100.7/32"), Some(IdentityId::REMOTE_NODE.0));
    assert_eq!(region.mapped("10.3.0.1/32"), None);
    assert!(region.view("b").is_ready());
}

#[test]
fn what_a_cluster_cannot_say_costs_that_alone() {
    let (region, b) = Region::meshed();
    let foreign = 3 << 16 | 300;
    b.put(&format!("{IDENTITIES}torn"), "rubbish");
    b.put(&format!("{IDENTITIES}{}", CLIENT + 1), "rubbish");
    identity(&b, IDENTITIES, foreign, "b");
    identity(&b, IDENTITIES, CLIENT + 2, "c");
    address(&b, ADDRESSES, "10.2.0.2", foreign);
    address(&b, ADDRESSES, "10.2.0.3", CLIENT + 2);
    address(&b, ADDRESSES, "10.2.0.4", IdentityId::HOST.0);
    address(&b, ADDRESSES, "10.2.0.5", IdentityId::HEALTH.0);
    b.put(&format!("{ADDRESSES}10.2.0.6"), "rubbish");
    b.put(&format!("{ADDRESSES}nowhere"), "rubbish");
    address(&b, ADDRESSES, "0.0.0.0/0", CLIENT);
    service(&b, "b", "shared", true);
    region.world.settle();
    let shared = region.view("b").services;
    assert!(shared > 0);
    for name in ["torn", "shared"] {
        b.put(&format!("cilium/state/services/v1/b/ns/{name}"), "rubbish");
    }
    b.put("cilium/state/services/v1/b/nowhere", "{}");
    b.put("cilium/state/nodes/v1/b/torn", "rubbish");
    region.world.settle();
    for last in [2, 3, 4, 6] {
        assert_eq!(region.mapped(&format!("10.2.0.{last}/32")), None, "10.2.0.{last}");
    }
    assert_ne!(region.mapped("0.0.0.0/0"), Some(CLIENT));
    assert_eq!(region.mapped("10.2.0.5/32"), Some(IdentityId::HEALTH.0));
    assert_eq!(region.mapped("10.2.0.1/32"), Some(CLIENT));
    assert!(region.view("b").is_ready());
    assert_eq!(region.view("b").services, shared, "it stays as it was");
    region.world.audit();
}

#[test]
fn of_two_who_name_an_address_this_cluster_counts_and_then_the_first() {
    let (region, b) = Region::meshed();
    let (c, other) = (cluster("c", 3), 3 << 16 | 300);
    identity(&c, IDENTITIES, other, "c");
    address(&c, ADDRESSES, "10.2.0.1", other);
    region.clusters.configure("c", &c);
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.1/32"), Some(CLIENT));
    // One of this cluster.
    let own = 1 << 16 | 400;
    fixture::identity(&region.own, own, &fixture::labels("db"));
    fixture::address(&region.own, "10.2.0.1", own);
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.1/32"), Some(own));
    b.delete(&format!("{ADDRESSES}10.2.0.1"));
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.1/32"), Some(own));
    region.own.delete(&format!("{ADDRESSES}10.2.0.1"));
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.1/32"), Some(other));
    region.world.audit();
}

#[test]
fn a_cluster_that_does_not_say_what_it_is_is_named_and_others_are_read() {
    let mut region = Region::new();
    let own_number = cluster("d", 1);
    for (name, store) in [("b", &b()), ("c", &MemoryKvStore::default()), ("d", &own_number)] {
        region.clusters.configure(name, store);
    }
    let twin = cluster("e", 2);
    identity(&twin, IDENTITIES, CLIENT + 1, "e");
    address(&twin, ADDRESSES, "10.5.0.1", CLIENT + 1);
    region.clusters.configure("e", &twin);
    region.clusters.configure("Not.a.name", &b());
    region.world.boot();
    fixture::make(&mut region.world, 1, "web");
    let problem = |name| region.view(name).problem.unwrap_or_default();
    assert_eq!(problem("b"), "");
    assert!(problem("c").contains("no key cilium/cluster-config/c"), "{}", problem("c"));
    let taken = "its number 1 is that of cluster default, too";
    assert!(problem("d").starts_with(taken), "{}", problem("d"));
    assert!(problem("e").starts_with("its number 2 is that of cluster b"), "{}", problem("e"));
    assert_eq!(region.views().len(), 4);
    assert_eq!((region.mapped("10.2.0.1/32"), region.mapped("10.5.0.1/32")), (Some(CLIENT), None));

    // It says so in the end; and the other one goes.
    own_number.put("cilium/cluster-config/d", r#"{"id":4}"#);
    region.clusters.remove("b");
    region.world.advance(std::time::Duration::from_secs(10));
    assert_eq!(region.view("d").id, Some(ClusterId(4)));
    assert_eq!(region.view("e").problem, None);
    assert_eq!(region.mapped("10.5.0.1/32"), Some(CLIENT + 1));
}
