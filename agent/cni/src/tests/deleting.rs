//! Tests: DEL removes everything, with an agent, without one, and while one starts.

use std::fs;

use axum::http::Method;
use volvox_rest::delete_queue::{Deletion, LOCK_PATIENCE};

use super::{
    fake_agent::Fault,
    scene::{CONTAINER, play},
};
use crate::ErrorCode;

#[test]
fn a_deleted_container_leaves_nothing_and_may_be_deleted_again() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        assert_eq!(scene.call("DEL").await.unwrap(), None);
        scene.assert_untouched();
        assert_eq!(scene.call("DEL").await.unwrap(), None);
    });
}

#[test]
fn a_namespace_that_is_gone_does_not_matter() {
    play(async |scene| {
        scene.start_agent();
        scene.call("ADD").await.unwrap();
        let mut env = scene.env("DEL");
        env.insert("CNI_NETNS".into(), "/run/netns/none-such".into());
        scene.call_with(&env, &scene.config("1.0.0")).await.unwrap();
        scene.assert_untouched();
        env.remove("CNI_NETNS");
        scene.call_with(&env, &scene.config("1.0.0")).await.unwrap();
    });
}

#[test]
fn c_22067_with_the_agent_dead_the_interface_goes_and_the_deletion_is_queued() {
    play(async |scene| {
        let agent = scene.start_agent();
        scene.call("ADD").await.unwrap();
        agent.abort();
        drop(agent.await);
        scene.call("DEL").await.unwrap();
        scene.call("DEL").await.unwrap();
        assert_eq!((scene.node_links(), scene.container_links()), (vec![], vec![]));
        let (entries, bad) = scene.queue().hold(LOCK_PATIENCE).unwrap().read().unwrap();
        let deletions: Vec<_> = entries.into_iter().map(|entry| entry.deletion).collect();
        let expected = Deletion::Endpoint(format!("cni-attachment-id:{CONTAINER}:eth0"));
        assert_eq!((deletions, bad), (vec![expected], vec![]));
    });
}

#[test]
fn an_agent_that_starts_meanwhile_is_asked_instead() {
    play(async |scene| {
        let agent = scene.start_agent();
        scene.call("ADD").await.unwrap();
        agent.abort();
        drop(agent.await);
        // The agent holds the queue until it answers, and then finds the request on its socket.
        let held = scene.queue().hold(LOCK_PATIENCE).unwrap();
        let (deleted, ()) = tokio::join!(scene.call("DEL"), async {
            scene.start_agent();
            drop(held);
        });
        deleted.unwrap();
        scene.assert_untouched();
        assert_eq!(scene.queue().hold(LOCK_PATIENCE).unwrap().read().unwrap().0, []);
    });
}

#[test]
fn an_agent_that_cannot_now_is_to_be_asked_again() {
    for code in [429, 500, 503] {
        play(async move |scene| {
            scene.agent.world().fault = Some((Method::DELETE, "/v1/endpoint", Fault::Refuse(code)));
            scene.start_agent();
            scene.call("ADD").await.unwrap();
            let error = scene.call("DEL").await.unwrap_err();
            assert!(matches!(error.code, ErrorCode::TryLater | ErrorCode::Agent), "{error}");
            assert_eq!(scene.container_links(), vec![], "the container is cut off all the same");
            scene.agent.world().fault = None;
            scene.call("DEL").await.unwrap();
            scene.assert_untouched();
        });
    }
}

#[test]
fn an_agent_that_will_never_take_it_does_not_keep_the_pod_from_going() {
    play(async |scene| {
        scene.agent.world().fault = Some((Method::DELETE, "/v1/endpoint", Fault::Refuse(400)));
        scene.start_agent();
        scene.call("DEL").await.unwrap();
    });
}

#[test]
fn a_queue_that_cannot_be_written_is_an_error_that_names_it() {
    play(async |scene| {
        let mut config = scene.config("1.0.0");
        let file = tempfile::NamedTempFile::new().unwrap();
        config["delete-queue"] = file.path().join("queue").to_str().unwrap().into();
        let error = scene.call_with(&scene.env("DEL"), &config).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::TryLater);
        assert!(error.details.contains(file.path().to_str().unwrap()), "{error}");
        assert_eq!(fs::read(file.path()).unwrap(), b"");
    });
}
