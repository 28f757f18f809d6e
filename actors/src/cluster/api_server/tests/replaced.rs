//! An API server that is another one than before, and one that is silent.

use std::time::Duration;

use serde_json::json;

use super::{MINUTE, from, namespace, policy_of_web, states, world};
use crate::{
    cluster::api_server::{ClusterMsg, ServerView, SourceState, SourceStatus},
    model::EndpointId,
    testing::{World, pod},
};

/// Time in which a broken connection is tried again and the difference is made true.
const SOON: Duration = Duration::from_secs(3);

fn server(world: &World) -> ServerView {
    let cluster = world.node_supervisor().cluster.clone().unwrap();
    world.ask(&cluster, ClusterMsg::Server)
}

fn source(world: &World, name: &str) -> SourceStatus {
    let cluster = world.node_supervisor().cluster.clone().unwrap();
    let all = world.ask(&cluster, ClusterMsg::Show);
    all.into_iter().find(|status| status.name == name).unwrap()
}

#[test]
fn a_server_back_from_a_backup_is_listed_again() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    cluster.back_up();
    cluster.apply(from("nobody"));
    let mut other = from("db");
    other["metadata"]["name"] = json!("later");
    cluster.apply(other);
    for number in 0..40 {
        cluster.apply(pod(9, &format!("noise-{number}")));
    }
    world.settle();
    cluster.restore();
    world.advance(SOON);
    assert_eq!(policy_of_web(&world), before, "as the backup has it");
    let replaced = server(&world).hearing.replaced.unwrap();
    assert!(replaced.why.starts_with("its resourceVersion is "), "{}", replaced.why);
    // What is changed then has a version that was told before.
    cluster.apply(from("nobody"));
    world.settle();
    assert_ne!(policy_of_web(&world), before);
    assert!(world.all_ready());
    world.audit();
}

/// Its resources are each as far as they were: only who asks the server notices.
#[test]
fn another_cluster_s_server_is_taken_as_it_is() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    world.advance(MINUTE);
    assert_eq!(server(&world).hearing.replaced, None);
    cluster.replace([namespace(), pod(1, "web"), pod(2, "db"), from("nobody")]);
    world.advance(SOON);
    assert_ne!(policy_of_web(&world), before);
    assert!(world.all_ready(), "known pods stay");
    let replaced = server(&world).hearing.replaced.unwrap();
    assert!(replaced.why.starts_with("the UID of kube-system is cluster-1"), "{}", replaced.why);
    world.audit();
}

#[test]
fn nothing_is_taken_away_before_a_restored_server_was_read_whole() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    cluster.back_up();
    cluster.apply(from("nobody"));
    cluster.apply(from("db"));
    world.settle();
    cluster.restore();
    cluster.set_down(true);
    world.advance(10 * MINUTE);
    assert_eq!(policy_of_web(&world), before);
    assert!(world.all_ready() && world.get(EndpointId(1)).realised.policy_revision > 0);
    cluster.set_down(false);
    world.advance(MINUTE);
    assert_eq!(policy_of_web(&world), before);
    assert!(states(&world).iter().all(|(_, _, state)| matches!(state, SourceState::Synced(_))));
}

#[test]
fn a_watch_that_says_nothing_is_noticed_in_time() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    // It was asked just now how far it is.
    world.advance(Duration::from_secs(20));
    // Streams are open and say nothing, new ones as well; requests are answered.
    cluster.set_mute(true);
    cluster.apply(from("nobody"));
    world.advance(Duration::from_secs(20));
    assert_eq!(policy_of_web(&world), before);
    let now = world.node_supervisor().host.now();
    let silence = source(&world, "ciliumnetworkpolicies").hearing.silence(now).unwrap();
    assert!(silence >= Duration::from_secs(20), "{silence:?}");
    assert!(server(&world).version > source(&world, "ciliumnetworkpolicies").version);
    world.advance(Duration::from_secs(10));
    assert_ne!(policy_of_web(&world), before);
    assert!(source(&world, "ciliumnetworkpolicies").heard.stalled);
    assert!(!source(&world, "networkpolicies").heard.stalled, "of these none changed");
    cluster.set_mute(false);
    cluster.apply(from("db"));
    world.advance(Duration::from_secs(30));
    assert_eq!(policy_of_web(&world), before);
    assert!(!source(&world, "ciliumnetworkpolicies").heard.stalled);
    world.audit();
}

/// A server that says in its watches how far it is costs nothing beyond them.
#[test]
fn a_server_that_sends_bookmarks_is_asked_nothing() {
    let (world, cluster) = world();
    // Its first answer came by a connection of its own: it is asked once more.
    world.advance(MINUTE);
    cluster.send_bookmarks();
    let (asked, lists) = (server(&world).asked, cluster.lists());
    for _ in 0..60 {
        world.advance(Duration::from_secs(10));
        cluster.send_bookmarks();
    }
    assert_eq!((server(&world).asked, cluster.lists()), (asked, lists));
    let now = world.node_supervisor().host.now();
    assert_eq!(server(&world).hearing.silence(now), Some(Duration::ZERO));
    // A new connection is a reason although nobody failed.
    cluster.reconnect();
    world.advance(Duration::from_secs(10));
    assert_eq!(server(&world).asked, asked + 1);
}

/// Another cluster's server takes over between two watches, as behind a load balancer: nothing fails.
#[test]
fn another_server_is_noticed_although_nothing_fails() {
    let (world, cluster) = world();
    let before = policy_of_web(&world);
    world.advance(MINUTE);
    cluster.replace_unnoticed([namespace(), pod(1, "web"), pod(2, "db"), from("nobody")]);
    cluster.send_bookmarks();
    world.advance(Duration::from_secs(11));
    assert_ne!(policy_of_web(&world), before);
    let replaced = server(&world).hearing.replaced.unwrap();
    assert!(replaced.why.starts_with("the UID of kube-system is cluster-1"), "{}", replaced.why);
}

/// One that sends none costs a request for all watches together, and one for each that is silent.
#[test]
fn a_silent_server_is_asked_seldom() {
    let (world, cluster) = world();
    let (asked, listed) = (server(&world).asked, cluster.lists());
    world.advance(10 * MINUTE);
    let questions = server(&world).asked - asked;
    assert!((20..=40).contains(&questions), "{questions} in ten minutes");
    let sources = states(&world).len() as u64;
    let lists = cluster.lists() - listed - questions;
    assert!(lists <= sources * 2 * 22, "{lists} pages of {sources} sources");
}
