//! Prefixes out of CiliumPodIPPools: given, kept, given back, and what is said where that cannot be.

use super::*;
use crate::mutants::{Mutant, switch};

fn cluster_of_pools() -> MemoryCluster {
    let cluster = cluster();
    cluster.define("ciliumpodippools.cilium.io", true);
    cluster
}

fn pooled(cluster: &MemoryCluster, identity: &str, new: &str) -> TestOperator {
    let new = NewPodPool::read_all(new).unwrap();
    let change = |it: &mut OperatorSettings| it.prefixes = PrefixSource::MultiPool(new);
    operator_with(cluster, None, identity, change)
}

fn pool(name: &str, ipv4: &[&str], length: u8) -> Value {
    json!({ "kind": "CiliumPodIPPool", "metadata": { "name": name, "uid": format!("pool-{name}") },
        "spec": { "ipv4": { "cidrs": ipv4, "maskSize": length } } })
}

fn change(cluster: &MemoryCluster, name: &str, pools: impl FnOnce(&mut Value)) {
    let mut node = cluster.object("CiliumNode", "", name).unwrap_or_else(|| cilium_node(name));
    pools(&mut node["spec"]["ipam"]["pools"]);
    cluster.apply(node);
}

/// An agent says what it needs.
fn ask(cluster: &MemoryCluster, name: &str, needed: &[(&str, u64)]) {
    let one =
        |(pool, needed): &(&str, u64)| json!({ "pool": pool, "needed": { "ipv4-addrs": needed } });
    let requested: Vec<Value> = needed.iter().map(one).collect();
    change(cluster, name, |pools| pools["requested"] = requested.into());
}

/// What a node has, by pool.
fn has(cluster: &MemoryCluster, name: &str) -> Vec<(String, Vec<String>)> {
    let node = cluster.object("CiliumNode", "", name).unwrap();
    let all = node["spec"]["ipam"]["pools"]["allocated"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    all.iter()
        .map(|it| (text(&it["pool"]), it["cidrs"].as_array().unwrap().iter().map(text).collect()))
        .collect()
}

fn of(pool: &str, cidrs: &[&str]) -> (String, Vec<String>) {
    (pool.to_owned(), cidrs.iter().map(|it| (*it).to_owned()).collect())
}

fn error(cluster: &MemoryCluster, name: &str) -> String {
    let node = cluster.object("CiliumNode", "", name).unwrap();
    node["status"]["ipam"]["operator-status"]["error"].as_str().unwrap_or_default().to_owned()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nodes_get_as_many_prefixes_of_each_pool_as_they_need() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("default", &["10.0.0.0/24"], 28));
    cluster.apply(pool("blue", &["10.1.0.0/24"], 32));
    ask(&cluster, "n1", &[("default", 16)]);
    ask(&cluster, "n2", &[("default", 1), ("blue", 2)]);
    let operator = pooled(&cluster, "a", "");
    operator.pass(SECOND);
    // 14 addresses of each can be used.
    assert_eq!(has(&cluster, "n1"), [of("default", &["10.0.0.0/28", "10.0.0.16/28"])]);
    let two = [of("blue", &["10.1.0.0/32", "10.1.0.1/32"]), of("default", &["10.0.0.32/28"])];
    assert_eq!(has(&cluster, "n2"), two);
    // It needs more, and what it has stays.
    ask(&cluster, "n1", &[("default", 29)]);
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1")[0].1, ["10.0.0.0/28", "10.0.0.16/28", "10.0.0.48/28"]);
    // It needs less, and nothing is taken away.
    ask(&cluster, "n1", &[("default", 0)]);
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1")[0].1.len(), 3);
    assert_eq!((error(&cluster, "n1"), operator.ended()), (String::new(), None));
}

#[test]
fn what_an_agent_takes_out_is_free_and_what_a_node_that_went_had_too() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("default", &["10.0.0.0/27"], 28));
    ask(&cluster, "n1", &[("default", 28)]);
    let operator = pooled(&cluster, "a", "");
    operator.pass(SECOND);
    ask(&cluster, "n2", &[("default", 14)]);
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n2"), []);
    assert!(error(&cluster, "n2").contains("CiliumPodIPPool default: add a range"));
    change(&cluster, "n1", |pools| {
        pools["requested"][0]["needed"]["ipv4-addrs"] = 14.into();
        pools["allocated"][0]["cidrs"] = json!(["10.0.0.16/28"]);
    });
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1"), [of("default", &["10.0.0.16/28"])]);
    assert_eq!(has(&cluster, "n2"), [of("default", &["10.0.0.0/28"])]);
    assert_eq!(error(&cluster, "n2"), "");
    ask(&cluster, "n3", &[("default", 1)]);
    operator.pass(SECOND);
    assert!(error(&cluster, "n3").contains("no free IPv4 prefix"));
    cluster.delete(&cluster.object("CiliumNode", "", "n1").unwrap());
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n3"), [of("default", &["10.0.0.16/28"])]);
}

#[test]
fn an_operator_that_begins_gives_nothing_that_somebody_has_in_whatever_way() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("default", &["10.0.0.0/26"], 28));
    ask(&cluster, "n2", &[("default", 14)]);
    ask(&cluster, "n9", &[("default", 1)]);
    change(&cluster, "n9", |pools| {
        pools["allocated"] = json!([{ "pool": "default", "cidrs": ["10.0.0.0/28"] }]);
    });
    let mut old = cilium_node("old");
    old["spec"] = json!({ "ipam": { "podCIDRs": ["10.0.0.16/28"] } });
    cluster.apply(old);
    // What an operator was about to give when it died is given to that node.
    ask(&cluster, "n5", &[]);
    let recorded = r#"{"n5":{"uid":"uid-n5","cidrs":[],"pools":{"default":["10.0.0.32/28"]}}}"#;
    cluster.apply(json!({
        "kind": "Lease",
        "metadata": { "name": "cilium-operator-resource-lock", "namespace": "kube-system",
            "annotations": { "volvox.io/prefixes": recorded } },
        "spec": { "holderIdentity": "" },
    }));
    let operator = pooled(&cluster, "a", "");
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n2"), [of("default", &["10.0.0.48/28"])]);
    assert_eq!(has(&cluster, "n5"), [of("default", &["10.0.0.32/28"])]);
    assert_eq!(has(&cluster, "n9"), [of("default", &["10.0.0.0/28"])]);
}

#[test]
fn cluster_pool_gives_nothing_of_what_pools_gave() {
    let cluster = cluster_of_pools();
    ask(&cluster, "n1", &[]);
    change(&cluster, "n1", |pools| {
        pools["allocated"] = json!([{ "pool": "default", "cidrs": ["10.0.0.0/25"] }]);
    });
    cluster.apply(cilium_node("n2"));
    let operator = operator(&cluster, "a");
    operator.pass(SECOND);
    assert_eq!(cidrs(&cluster, "n1")[0], "10.0.1.0/24");
    assert_eq!(cidrs(&cluster, "n2")[0], "10.0.2.0/24");
}

#[test]
fn pools_that_are_missing_change_or_overlap_lose_nothing_and_are_named() {
    let cluster = cluster_of_pools();
    ask(&cluster, "n1", &[("blue", 14)]);
    let operator = pooled(&cluster, "a", "");
    operator.pass(SECOND);
    assert_eq!(error(&cluster, "n1"), "there is no CiliumPodIPPool blue: create it");
    cluster.apply(pool("blue", &["10.1.0.0/28"], 28));
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1"), [of("blue", &["10.1.0.0/28"])]);
    assert_eq!(error(&cluster, "n1"), "");
    // Another range takes the place of that one, and prefixes of another length are given.
    cluster.apply(pool("blue", &["10.2.0.0/24"], 26));
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1"), [of("blue", &["10.1.0.0/28"])]);
    assert!(error(&cluster, "n1").contains("10.1.0.0/28 is in no range of"));
    ask(&cluster, "n1", &[("blue", 15)]);
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n1")[0].1, ["10.1.0.0/28", "10.2.0.0/26"]);
    // Of pools that overlap nothing is given twice.
    cluster.apply(pool("red", &["10.2.0.0/25"], 26));
    ask(&cluster, "n2", &[("red", 1)]);
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n2"), [of("red", &["10.2.0.64/26"])]);
    assert!(
        error(&cluster, "n2").contains("are in pool blue as well"),
        "{}",
        error(&cluster, "n2")
    );
    cluster.delete(&cluster.object("CiliumPodIPPool", "", "red").unwrap());
    operator.pass(SECOND);
    assert_eq!(has(&cluster, "n2"), [of("red", &["10.2.0.64/26"])]);
}

#[test]
fn pools_are_made_at_the_start_where_nobody_made_them() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("blue", &["10.7.0.0/16"], 24));
    let new = "default=ipv4-cidrs:10.0.0.0/16;ipv4-mask-size:24,\
               blue=ipv4-cidrs:10.8.0.0/16;ipv4-mask-size:24";
    cluster.fail_writes("CiliumPodIPPool", Some(ClusterError::Failed("not now".to_owned())));
    ask(&cluster, "n1", &[("default", 1), ("blue", 1)]);
    let operator = pooled(&cluster, "a", new);
    operator.pass(SECOND);
    cluster.fail_writes("CiliumPodIPPool", None);
    operator.pass(MINUTE);
    let given = [of("blue", &["10.7.0.0/24"]), of("default", &["10.0.0.0/24"])];
    assert_eq!(has(&cluster, "n1"), given);
    // One that somebody removes later is not made again.
    cluster.delete(&cluster.object("CiliumPodIPPool", "", "default").unwrap());
    operator.pass(MINUTE);
    assert!(cluster.object("CiliumPodIPPool", "", "default").is_none());
    assert_eq!(has(&cluster, "n1"), given);
}

/// A write that is under way for long must not bring back what its node gave back meanwhile.
#[test]
fn a_prefix_that_was_given_back_does_not_come_back_by_an_operator_that_stood_still() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("default", &["10.0.0.0/28"], 28));
    let stalled = pooled(&cluster, "a", "");
    stalled.pass(SECOND);
    // It recorded what it gives, and stands still before its write arrives.
    cluster.fail_writes("CiliumNode", Some(ClusterError::Failed("not now".to_owned())));
    ask(&cluster, "n1", &[("default", 14)]);
    stalled.universe.settle();
    cluster.fail_writes("CiliumNode", None);
    let next = pooled(&cluster, "b", "");
    next.pass(Duration::from_secs(20));
    assert_eq!(has(&cluster, "n1"), [of("default", &["10.0.0.0/28"])]);
    change(&cluster, "n1", |pools| *pools = json!({ "requested": [], "allocated": [] }));
    ask(&cluster, "n2", &[("default", 14)]);
    next.pass(SECOND);
    assert_eq!(has(&cluster, "n2"), [of("default", &["10.0.0.0/28"])]);
    // It goes on: it hears of all that, and that another one leads.
    stalled.pass(SECOND);
    assert_eq!(has(&cluster, "n1"), []);
    assert!(stalled.ended().is_some() || !stalled.leads());
}

#[test]
fn the_bug_of_pools_that_do_not_know_of_each_other_is_seen() {
    let cluster = cluster_of_pools();
    cluster.apply(pool("blue", &["10.2.0.0/24"], 26));
    cluster.apply(pool("red", &["10.2.0.0/25"], 26));
    ask(&cluster, "n1", &[("blue", 1)]);
    ask(&cluster, "n2", &[("red", 1)]);
    switch(Some(Mutant::PodPoolsApart));
    pooled(&cluster, "a", "").pass(SECOND);
    switch(None);
    assert_eq!(has(&cluster, "n1")[0].1, has(&cluster, "n2")[0].1);
}

/// A node that changes while the Lease is confirmed is given what it lacks all the same.
#[test]
fn a_node_that_changes_meanwhile_is_given_what_it_lacks() {
    let cluster = cluster_of_pools();
    cluster.be_slow();
    cluster.apply(pool("default", &["10.0.0.0/24"], 28));
    let operator = pooled(&cluster, "a", "");
    let steps = |count: usize| {
        for _ in 0..count {
            operator.universe.settle();
            if cluster.jobs() > 0 {
                cluster.step(0);
            }
        }
    };
    (0..40).for_each(|_| steps(1));
    ask(&cluster, "n1", &[("default", 1)]);
    // Whenever it changes on the way to that, in the end it has what it asks for.
    for needed in 2..12 {
        steps(1);
        ask(&cluster, "n1", &[("default", needed)]);
    }
    (0..40).for_each(|_| steps(1));
    assert_eq!(has(&cluster, "n1"), [of("default", &["10.0.0.0/28"])]);
}
