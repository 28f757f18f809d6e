//! Operators against an API server in memory: what they do when nothing goes wrong, and what ends them. The
//! simulator has what else can happen.

mod marks;
mod pod_pools;
mod store;

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{
    host::{Reply, Universe},
    ports::{ClusterError, KvStore},
    testing::{MemoryCluster, MemoryKvStore},
};

const MINUTE: Duration = Duration::from_secs(60);

struct TestOperator {
    universe: Universe,
    supervisor: OperatorSupervisor,
    ended: Rc<RefCell<Option<OperatorEnd>>>,
}

fn cluster() -> MemoryCluster {
    let cluster = MemoryCluster::new();
    cluster.stamp();
    cluster
}

fn operator(cluster: &MemoryCluster, identity: &str) -> TestOperator {
    operator_with(cluster, None, identity, |_| ())
}

fn operator_with(
    cluster: &MemoryCluster,
    store: Option<MemoryKvStore>,
    identity: &str,
    change: impl FnOnce(&mut OperatorSettings),
) -> TestOperator {
    let range = |range, length| PoolRange::new(range, length).unwrap();
    let pools = ClusterPools::new(vec![range("10.0.0.0/22", 24), range("fd00::/104", 112)]);
    let mut settings = OperatorSettings {
        leadership: LeadershipSettings {
            namespace: "kube-system".to_owned(),
            name: "cilium-operator-resource-lock".to_owned(),
            identity: identity.to_owned(),
            seed: 7,
        },
        prefixes: PrefixSource::ClusterPool(pools.unwrap()),
        collector: CollectorSettings {
            endpoints: 5 * MINUTE,
            identities: 15 * MINUTE,
            unused: 30 * MINUTE,
            nodes: 5 * MINUTE,
        },
        stored_identities: 15 * MINUTE,
        marks: MarkSettings {
            namespace: "kube-system".to_owned(),
            labels: "k8s-app in (cilium,volvox)".parse().unwrap(),
            taint: marks::TAINT.to_owned(),
            removes_taint: true,
            sets_taint: true,
            says_up: true,
        },
        definitions: Vec::new(),
    };
    change(&mut settings);
    let universe = Universe::default();
    let ended = Rc::new(RefCell::new(None));
    let heard = Rc::clone(&ended);
    let reply = Reply::to(move |why| *heard.borrow_mut() = why.ok());
    let cluster = Rc::new(cluster.clone());
    let store = store.map(|store| Rc::new(store) as Rc<dyn KvStore>);
    let supervisor = OperatorSupervisor::spawn(&universe.host, cluster, store, settings, reply);
    universe.settle();
    TestOperator { universe, supervisor, ended }
}

impl TestOperator {
    fn pass(&self, span: Duration) {
        self.universe.advance(span);
    }

    fn ended(&self) -> Option<String> {
        self.ended.borrow().as_ref().map(ToString::to_string)
    }

    fn leads(&self) -> bool {
        let answer = Rc::new(RefCell::new(None));
        let heard = Rc::clone(&answer);
        let reply = Reply::to(move |view: Result<LeadershipView, _>| {
            *heard.borrow_mut() = view.ok();
        });
        self.supervisor.show_leadership(reply);
        self.universe.settle();
        answer.borrow().as_ref().is_some_and(|view: &LeadershipView| view.leads)
    }
}

/// Questions whose answers nobody waits for.
fn unasked() -> OperatorQuestions {
    OperatorQuestions {
        prefixes: Reply::to(drop),
        collector: Reply::to(drop),
        store: Reply::to(drop),
        marks: Reply::to(drop),
    }
}

fn cilium_node(name: &str) -> Value {
    json!({
        "kind": "CiliumNode", "apiVersion": "cilium.io/v2",
        "metadata": { "name": name, "uid": format!("uid-{name}") }, "spec": {},
    })
}

fn node(name: &str) -> Value {
    json!({ "kind": "Node", "metadata": { "name": name, "uid": format!("node-{name}") } })
}

fn cidrs(cluster: &MemoryCluster, name: &str) -> Vec<String> {
    let node = cluster.object("CiliumNode", "", name).unwrap();
    let cidrs = node["spec"]["ipam"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    cidrs.iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn nodes_get_prefixes_until_all_are_given_and_are_told_then() {
    let cluster = cluster();
    (1..=3).for_each(|n| cluster.apply(cilium_node(&format!("n{n}"))));
    let operator = operator(&cluster, "a");
    operator.pass(Duration::from_secs(1));
    assert_eq!(cidrs(&cluster, "n1"), ["10.0.0.0/24", "fd00::/112"]);
    assert_eq!(cidrs(&cluster, "n3"), ["10.0.2.0/24", "fd00::2:0/112"]);
    (4..=5).for_each(|n| cluster.apply(cilium_node(&format!("n{n}"))));
    operator.pass(Duration::from_secs(1));
    assert_eq!(cidrs(&cluster, "n4"), ["10.0.3.0/24", "fd00::3:0/112"]);
    assert_eq!(cidrs(&cluster, "n5"), ["fd00::4:0/112"]);
    let error = |name: &str| {
        let node = cluster.object("CiliumNode", "", name).unwrap();
        node["status"]["ipam"]["operator-status"]["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(error("n5").contains("no free IPv4 prefix"), "{}", error("n5"));
    // What a node that went had is free.
    cluster.delete(&cilium_node("n2"));
    operator.pass(Duration::from_secs(1));
    assert_eq!(cidrs(&cluster, "n5"), ["fd00::4:0/112", "10.0.1.0/24"]);
    assert_eq!((error("n5"), operator.ended()), (String::new(), None));
}

#[test]
fn what_a_node_has_stays_and_nodes_that_share_addresses_are_told() {
    let cluster = cluster();
    let with = |name: &str, cidr: &str| {
        let mut node = cilium_node(name);
        node["spec"] =
            json!({ "ipam": { "podCIDRs": [cidr, format!("fd01:{}::/112", name.len())] } });
        cluster.apply(node);
    };
    with("n1", "10.0.0.0/24");
    with("second", "10.0.0.0/25");
    with("elsewhere", "172.16.0.0/24");
    let operator = operator(&cluster, "a");
    operator.pass(Duration::from_secs(1));
    assert_eq!(cidrs(&cluster, "second")[0], "10.0.0.0/25");
    assert_eq!(cidrs(&cluster, "elsewhere")[0], "172.16.0.0/24");
    let node = cluster.object("CiliumNode", "", "second").unwrap();
    let error = node["status"]["ipam"]["operator-status"]["error"].as_str().unwrap();
    assert!(error.contains("are node n1's as well"), "{error}");
}

#[test]
fn one_leads_and_another_one_takes_over_when_it_ends() {
    let cluster = cluster();
    let (one, other) = (operator(&cluster, "a"), operator(&cluster, "b"));
    let pass = |seconds| {
        for _ in 0..seconds {
            one.pass(Duration::from_secs(1));
            other.pass(Duration::from_secs(1));
        }
    };
    pass(60);
    assert!(one.leads() && !other.leads());
    // It gives the Lease back: the other one need not wait.
    let given_back = Rc::new(RefCell::new(false));
    let heard = Rc::clone(&given_back);
    one.supervisor.release(Reply::to(move |_| *heard.borrow_mut() = true));
    one.universe.settle();
    assert!(*given_back.borrow() && one.ended().is_some());
    pass(4);
    assert!(other.leads());
    // One that is killed is waited for as long as its Lease lasts.
    let third = operator(&cluster, "c");
    drop(other);
    third.pass(Duration::from_secs(12));
    assert!(!third.leads());
    third.pass(Duration::from_secs(8));
    assert!(third.leads());
}

#[test]
fn one_that_cannot_renew_ends_before_others_lead() {
    let cluster = cluster();
    let one = operator(&cluster, "a");
    one.pass(Duration::from_secs(7));
    assert!(one.leads());
    cluster.fail("Lease", Some(ClusterError::Unreachable("connection refused".to_owned())));
    one.pass(Duration::from_secs(11));
    assert!(one.ended().unwrap().contains("not renewed for 10 s"), "{:?}", one.ended());
}

#[test]
fn an_actor_that_crashed_ends_the_operator() {
    let cluster = cluster();
    let one = operator(&cluster, "a");
    one.pass(Duration::from_secs(1));
    one.supervisor.show(OperatorQuestions { prefixes: crate::testing::crash(), ..unasked() });
    one.universe.settle();
    assert!(one.ended().unwrap().contains("prefixes crashed"), "{:?}", one.ended());
}

fn endpoint(name: &str, identity: u32) -> Value {
    json!({
        "kind": "CiliumEndpoint",
        "metadata": { "name": name, "namespace": "shop", "uid": format!("cep-{name}"),
            "ownerReferences": [{ "kind": "Pod", "name": name }] },
        "status": { "identity": { "id": identity } },
    })
}

fn pod(name: &str) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": name, "namespace": "shop" },
        "status": { "phase": "Running" } })
}

fn identity(id: &str) -> Value {
    json!({ "kind": "CiliumIdentity", "metadata": { "name": id, "uid": format!("id-{id}") },
        "security-labels": { "k8s:app": id } })
}

#[test]
fn what_is_left_over_goes_and_what_lives_stays() {
    let cluster = cluster();
    for object in [
        pod("web"),
        endpoint("web", 1001),
        endpoint("gone", 1002),
        identity("1001"),
        identity("1002"),
        node("n1"),
        cilium_node("n1"),
        cilium_node("gone"),
    ] {
        cluster.apply(object);
    }
    let mut owned = cilium_node("owned");
    owned["metadata"]["ownerReferences"] = json!([{ "kind": "Node" }]);
    cluster.apply(owned);
    let mut kept = cilium_node("kept");
    kept["metadata"]["annotations"] = json!({ "cilium.io/do-not-gc": "true" });
    cluster.apply(kept);
    let operator = operator(&cluster, "a");
    let there =
        |kind: &str, namespace: &str, name: &str| cluster.object(kind, namespace, name).is_some();
    operator.pass(4 * MINUTE);
    assert!(there("CiliumEndpoint", "shop", "gone"), "it is not that old");
    operator.pass(7 * MINUTE);
    assert!(!there("CiliumEndpoint", "shop", "gone") && there("CiliumEndpoint", "shop", "web"));
    assert!(!there("CiliumNode", "", "gone"));
    for name in ["n1", "owned", "kept"] {
        assert!(there("CiliumNode", "", name), "{name}");
    }
    // An identity is marked first, and goes if nobody takes it up.
    operator.pass(40 * MINUTE);
    let marked = cluster.object("CiliumIdentity", "", "1002").unwrap();
    assert!(marked["metadata"]["annotations"]["io.cilium.heartbeat"].is_string());
    operator.pass(60 * MINUTE);
    assert!(!there("CiliumIdentity", "", "1002") && there("CiliumIdentity", "", "1001"));
    assert_eq!(operator.ended(), None);
}

#[test]
fn identities_stay_where_nobody_defined_endpoints() {
    let cluster = cluster();
    cluster.define("ciliumendpoints.cilium.io", false);
    cluster.apply(identity("1001"));
    let operator = operator(&cluster, "a");
    operator.pass(120 * MINUTE);
    let identity = cluster.object("CiliumIdentity", "", "1001").unwrap();
    assert_eq!(identity["metadata"].get("annotations"), None);
}

#[test]
fn prefixes_that_cannot_be_read_stop_giving() {
    let cluster = cluster();
    cluster.apply(cilium_node("n1"));
    cluster.apply(json!({
        "kind": "Lease",
        "metadata": { "name": "cilium-operator-resource-lock", "namespace": "kube-system",
            "annotations": { "volvox.io/prefixes": "{rubbish" } },
        "spec": { "holderIdentity": "" },
    }));
    let operator = operator(&cluster, "a");
    operator.pass(MINUTE);
    assert!(operator.leads());
    assert_eq!(cidrs(&cluster, "n1"), [""; 0]);
}
