//! A node that follows a cluster.

mod replaced;
mod services;

use std::time::Duration;

use serde_json::{Value, json};

use super::{ClusterMsg, SourceState};
use crate::{
    endpoints::endpoint::{CreateError, EndpointState},
    model::{Direction, EndpointId, PolicyRows},
    policy::rules::lookup,
    ports::ClusterError,
    testing::{MemoryCluster, World, allow_from, pod, spec},
};

const WEB: u32 = 101;
const MINUTE: Duration = Duration::from_secs(60);

/// A node in a cluster with pods 1 (`web`) and 2 (`db`), and a policy: only `db` reaches `web`.
fn world() -> (World, MemoryCluster) {
    let cluster = MemoryCluster::new();
    cluster.apply(namespace());
    cluster.apply(pod(1, "web"));
    cluster.apply(pod(2, "db"));
    cluster.apply(from("db"));
    let mut world = World::off();
    world.cluster = Some(cluster.clone());
    world.boot();
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    (world, cluster)
}

fn namespace() -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" } })
}

/// Only these reach `web`.
fn from(app: &str) -> Value {
    allow_from("web", json!({ "fromEndpoints": [{ "matchLabels": { "app": app } }] }))
}

fn policy_of_web(world: &World) -> PolicyRows {
    world.kernel.state().policy_of(WEB).cloned().unwrap()
}

fn web(world: &World) -> u64 {
    world.get(EndpointId(1)).realised.policy_revision
}

/// What whoever is behind that endpoint waits for, in words.
fn why(world: &World, endpoint: &str) -> String {
    let host = &world.node_supervisor().host;
    let cell = host
        .cells()
        .into_iter()
        .find(|cell| cell.name.split(" (").next() == Some(endpoint))
        .unwrap()
        .id;
    let chain = host.with_waits(|waits| waits.chain(cell));
    chain.into_iter().map(|wait| format!("{}\n", wait.why)).collect()
}

fn states(world: &World) -> Vec<(&'static str, bool, SourceState)> {
    let cluster = world.node_supervisor().cluster.clone().unwrap();
    let all = world.ask(&cluster, ClusterMsg::Show);
    all.into_iter().map(|status| (status.name, status.synced, status.state)).collect()
}

#[test]
fn what_changes_in_the_cluster_is_enforced() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    assert!(world.all_ready() && web(&world) > 0);
    cluster.apply(from("nobody"));
    world.settle();
    assert_ne!(policy_of_web(&world), before);
    cluster.apply(from("db"));
    world.settle();
    assert_eq!(policy_of_web(&world), before);
    cluster.delete(&from("db"));
    world.settle();
    assert_ne!(policy_of_web(&world), before);
    world.audit();
}

#[test]
fn a_restart_without_an_api_server_keeps_every_policy_until_it_is_back() {
    let (mut world, cluster) = world();
    let before = policy_of_web(&world);
    world.crash();
    cluster.set_down(true);
    cluster.apply(from("nobody"));
    cluster.compact();
    world.boot();
    assert!(world.all_ready(), "ready from disk and kernel alone");
    assert_eq!((policy_of_web(&world), web(&world)), (before.clone(), 0));
    let said = why(&world, "endpoint 1");
    for words in ["keeps the policy of the life before", "networkpolicies", "connection refused"] {
        assert!(said.contains(words), "{words} not in {said}");
    }
    world.audit();
    world.advance(10 * MINUTE);
    assert!(world.all_ready());
    assert_eq!(policy_of_web(&world), before);
    assert!(!world.report().finished, "nothing is removed before all have spoken");

    cluster.set_down(false);
    world.advance(MINUTE);
    assert_ne!(policy_of_web(&world), before);
    assert!(world.all_ready() && web(&world) > 0 && world.report().finished);
    assert_eq!(why(&world, "endpoint 1"), "");
    world.audit();
}

#[test]
fn half_of_the_objects_make_no_policy() {
    let (mut world, cluster) = world();
    let before = policy_of_web(&world);
    world.crash();
    // The only policy that lets somebody in is among those that cannot be listed.
    let nobody = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "closed", "namespace": "ns" },
        "spec": { "podSelector": {}, "policyTypes": ["Ingress"] },
    });
    cluster.apply(nobody);
    let forbidden = ClusterError::Refused("no right to list".to_owned());
    cluster.fail("CiliumNetworkPolicy", Some(forbidden.clone()));
    world.boot();
    world.advance(10 * MINUTE);
    assert!(world.all_ready());
    assert_eq!(policy_of_web(&world), before);
    let said = why(&world, "endpoint 1");
    assert!(said.contains("ciliumnetworkpolicies, which are not synced for"), "{said}");
    assert!(!said.contains("all networkpolicies"), "those are known: {said}");
    let broken = states(&world).into_iter().find(|it| it.0 == "ciliumnetworkpolicies").unwrap();
    assert!(
        !broken.1 && matches!(broken.2, SourceState::Broken { error, .. } if error == forbidden)
    );
    cluster.fail("CiliumNetworkPolicy", None);
    world.advance(MINUTE);
    assert!(web(&world) > 0);
    world.audit();
}

#[test]
fn labels_that_changed_meanwhile_count_once_policies_do() {
    let (mut world, cluster) = world();
    world.crash();
    cluster.apply(pod(1, "shop"));
    cluster.fail("NetworkPolicy", Some(ClusterError::Failed("etcd".to_owned())));
    world.boot();
    world.advance(MINUTE);
    let labels = |world: &World| world.get(EndpointId(1)).identity_labels.to_texts();
    assert!(labels(&world).contains(&"k8s:app=web".to_owned()), "others know no other identity");
    cluster.fail("NetworkPolicy", None);
    world.advance(MINUTE);
    assert!(labels(&world).contains(&"k8s:app=shop".to_owned()));
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn a_new_pod_waits_for_its_labels() {
    let (world, cluster) = world();
    let mut made = world.begin_create(spec(3));
    world.advance(Duration::from_secs(5));
    assert!(made.now().is_none());
    // One of that name that was there before is another.
    let mut other = pod(3, "old");
    other["metadata"]["uid"] = json!("uid-before");
    cluster.apply(other);
    world.advance(Duration::from_secs(5));
    assert!(made.now().is_none());
    let mut own = pod(3, "new");
    own["metadata"]["uid"] = json!("uid-3");
    cluster.apply(own);
    world.settle();
    let view = made.now().unwrap().unwrap().unwrap();
    assert!(view.identity_labels.to_texts().contains(&"k8s:app=new".to_owned()));

    let mut never = world.begin_create(spec(4));
    world.advance(MINUTE);
    let refused = never.now().unwrap().unwrap().unwrap_err();
    let CreateError::NotReady(text) = refused else { panic!("{refused}") };
    assert!(text.contains("volvox why"), "{text}");
}

#[test]
fn a_missing_definition_holds_nobody_up_and_is_waited_for() {
    let (mut world, cluster) = world();
    let definition = "ciliumclusterwidenetworkpolicies.cilium.io";
    cluster.define(definition, false);
    world.restart();
    world.advance(Duration::from_secs(1));
    assert!(web(&world) > 0);
    let undefined = ("ciliumclusterwidenetworkpolicies", true, SourceState::Undefined);
    assert!(states(&world).contains(&undefined));
    let before = policy_of_web(&world);
    let mut deny = from("db");
    deny["kind"] = json!("CiliumClusterwideNetworkPolicy");
    let rule = deny["spec"]["ingress"].take();
    deny["spec"]["ingressDeny"] = rule;
    cluster.apply(deny);
    cluster.define(definition, true);
    world.advance(MINUTE);
    assert_ne!(policy_of_web(&world), before);
}

/// An unchanged cluster is asked nothing, also of what nobody has defined.
#[test]
fn a_definition_that_is_missing_is_watched_and_not_asked_for() {
    let (mut world, cluster) = world();
    let (kind, definition) =
        ("ClusterNetworkPolicy", "clusternetworkpolicies.policy.networking.k8s.io");
    cluster.define(definition, false);
    world.restart();
    world.advance(MINUTE);
    let asked = || [kind, "CustomResourceDefinition"].map(|kind| cluster.lists_of(kind));
    let before = asked();
    for _ in 0..10 {
        world.advance(MINUTE);
    }
    // Watches in memory never end: one that should have is taken for one whose other end is gone.
    let [lists, _] = asked();
    assert!(lists - before[0] <= 20, "{lists} after {before:?}");
    cluster.define("other.example.org", true);
    world.advance(Duration::from_secs(1));
    assert_eq!(asked()[0], lists, "the definition is another one");
    cluster.define(definition, true);
    world.advance(Duration::from_secs(1));
    assert_eq!(asked()[0], lists + 1, "it is listed as soon as it is defined");
    let synced = states(&world).into_iter().find(|it| it.0 == "clusternetworkpolicies").unwrap();
    assert!(matches!(synced.2, SourceState::Synced(_)), "{synced:?}");
    world.audit();
}

#[test]
fn a_right_that_is_missing_matters_only_where_there_is_a_definition() {
    let (mut world, cluster) = world();
    let definition = "clusternetworkpolicies.policy.networking.k8s.io";
    let forbidden = ClusterError::Refused("no right to list".to_owned());
    cluster.fail("ClusterNetworkPolicy", Some(forbidden.clone()));
    cluster.define(definition, false);
    world.restart();
    world.advance(MINUTE);
    assert!(web(&world) > 0);
    let undefined = ("clusternetworkpolicies", true, SourceState::Undefined);
    assert!(states(&world).contains(&undefined));
    // Once there is one, its objects are not known, and that is said.
    cluster.define(definition, true);
    world.restart();
    world.advance(MINUTE);
    let broken = states(&world).into_iter().find(|it| it.0 == "clusternetworkpolicies").unwrap();
    assert!(
        !broken.1 && matches!(broken.2, SourceState::Broken { error, .. } if error == forbidden)
    );
    cluster.fail("ClusterNetworkPolicy", None);
    world.advance(MINUTE);
    assert!(web(&world) > 0);
    world.audit();
}

/// A policy of it comes, its priority changes under another one, and it goes: without an agent's start.
#[test]
fn a_cluster_network_policy_is_followed() {
    let (mut world, cluster) = world();
    let policy = |name: &str, priority: u16, action: &str| {
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": { "name": name },
            "spec": {
                "tier": "Admin", "priority": priority, "subject": { "namespaces": {} },
                "ingress": [{ "action": action, "from": [{ "namespaces": {} }] }],
            },
        })
    };
    let passes = |world: &World| {
        let db = world.get(EndpointId(2)).identity;
        let rows = policy_of_web(world);
        lookup(&rows, Direction::Ingress, db, 6, 80).passes()
    };
    assert!(passes(&world));
    cluster.apply(policy("deny", 10, "Deny"));
    world.advance(MINUTE);
    assert!(!passes(&world));
    cluster.apply(policy("accept", 9, "Accept"));
    world.advance(MINUTE);
    assert!(passes(&world));
    cluster.apply(policy("accept", 11, "Accept"));
    world.advance(MINUTE);
    assert!(!passes(&world));
    let before = policy_of_web(&world);
    // A restart changes nothing, and has nothing to write.
    world.restart();
    world.advance(MINUTE);
    assert_eq!(policy_of_web(&world), before);
    world.audit();
    cluster.delete(&policy("deny", 10, "Deny"));
    world.advance(MINUTE);
    assert!(passes(&world));
    world.audit();
}

#[test]
fn an_older_version_is_taken_where_the_server_has_no_newer_one() {
    let (mut world, cluster) = world();
    let before = policy_of_web(&world);
    cluster.unserve("/apis/cilium.io/v2/ciliumcidrgroups");
    cluster.apply(json!({
        "apiVersion": "cilium.io/v2alpha1", "kind": "CiliumCIDRGroup",
        "metadata": { "name": "office" }, "spec": { "externalCIDRs": ["192.0.2.0/24"] },
    }));
    let mut policy = allow_from("web", json!({ "fromCIDRSet": [{ "cidrGroupRef": "office" }] }));
    policy["metadata"]["name"] = json!("office");
    cluster.apply(policy);
    world.restart();
    world.advance(MINUTE);
    let rows = policy_of_web(&world);
    assert!(web(&world) > 0 && rows.len() > before.len(), "{rows:?}");
    world.audit();
}

#[test]
fn a_forgotten_history_and_a_half_open_watch_lose_nothing() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    cluster.set_down(true);
    world.advance(MINUTE);
    cluster.delete(&from("db"));
    cluster.compact();
    cluster.set_down(false);
    world.advance(MINUTE);
    assert_ne!(policy_of_web(&world), before);
    // Nobody hears of this, and no connection breaks.
    cluster.set_hung(true);
    cluster.apply(from("db"));
    cluster.set_hung(false);
    world.advance(10 * MINUTE);
    assert_eq!(policy_of_web(&world), before);
    assert!(world.all_ready());
}

/// cilium 29588, 18776, 8247: a throttled API server was listed again and again by agents that died
/// of waiting for it.
#[test]
fn c_29588_a_busy_server_is_left_alone_as_long_as_it_wants() {
    let (mut world, cluster) = world();
    let busy = || ClusterError::Busy { after: 2 * MINUTE, said: "too many requests".to_owned() };
    for kind in ["Pod", "Namespace", "NetworkPolicy", "CiliumNetworkPolicy"] {
        cluster.fail(kind, Some(busy()));
    }
    world.crash();
    let kinds = ["Pod", "Namespace", "NetworkPolicy", "CiliumNetworkPolicy"];
    let listed = || kinds.iter().map(|kind| cluster.lists_of(kind)).sum::<u64>();
    let before = listed();
    world.boot();
    world.advance(2 * MINUTE);
    // One of each, and who asks which server it is.
    let lists = listed() - before;
    assert!(lists <= kinds.len() as u64 + 1, "{lists} lists");
    assert!(world.all_ready());
}

#[test]
fn who_follows_the_cluster_may_crash() {
    let (world, cluster) = world();
    let host = &world.node_supervisor().host;
    for victim in ["cluster", "cluster ciliumnetworkpolicies", "policy", "workloads"] {
        let cell = host.cells().into_iter().find(|cell| *cell.name == *victim).unwrap();
        host.poison(cell.id);
        for app in ["nobody", "db"] {
            let before = policy_of_web(&world);
            cluster.apply(from(app));
            world.advance(MINUTE);
            assert_ne!(policy_of_web(&world), before, "{victim}");
        }
    }
    assert_eq!(world.get(EndpointId(1)).state, EndpointState::Ready);
    world.audit();
}
