//! Every source of news: since when it is connected, when it last said anything, how far it is.

use std::time::Duration;

use volvox_actors::{
    cluster::{
        api_server::{ClusterMsg, ServerView, SourceState, SourceStatus},
        clustermesh::{MeshMsg, RemoteView},
        container_runtime::{RuntimeFollowerMsg, RuntimeFollowerView},
        kvstore::{SessionMsg, SessionView, WatcherMsg, WatcherView},
        sources::{Hearing, SILENCE_WARNED},
    },
    host::Time,
    node_supervisor::NodeSupervisor,
};
use volvox_rest::models::Source;

use super::{
    Api, container_runtime,
    troubles::{SOURCE, Trouble},
};
use crate::{gateway::GatewayError, ports::Ears};

/// How long actors may take for an answer: none of them waits for others.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long streams may take to tell what the server knew before.
const GRACE: Duration = Duration::from_secs(5);
/// Whose sources those of the API server are.
const KUBERNETES: &str = "kubernetes";
const KVSTORE: &str = "kvstore";

/// What those say who follow something, beside the lists of the API server and other clusters.
pub(super) struct Streams {
    now: Time,
    server: Option<ServerView>,
    kvstore: Option<(SessionView, Vec<WatcherView>)>,
    pub(super) runtime: Option<RuntimeFollowerView>,
}

impl Streams {
    /// Asks them.
    pub(super) async fn ask(api: &Api, what: &'static str) -> Result<Self, GatewayError> {
        let watchers = move |node_supervisor: &NodeSupervisor| {
            let host = &node_supervisor.host;
            let kvstore = node_supervisor.kvstore.as_ref().map(|kvstore| {
                host.outside(what, || {
                    let ask = |it| host.ask(it, PATIENCE, what, WatcherMsg::Show);
                    let session = host.ask(&kvstore.session, PATIENCE, what, SessionMsg::Show);
                    (session, kvstore.watchers.each_ref().map(ask))
                })
            });
            (host.now(), kvstore)
        };
        let ((now, asked), server, runtime) = tokio::try_join!(
            api.gateway.look(watchers),
            api.gateway.ask_if(what, |node| node.cluster.as_ref(), ClusterMsg::Server),
            api.gateway.ask_if(
                what,
                |node| node.container_runtime.as_ref(),
                RuntimeFollowerMsg::Show
            ),
        )?;
        let mut kvstore = None;
        if let Some((session, asked)) = asked {
            let mut watchers = Vec::new();
            for watcher in asked {
                watchers.push(watcher.await?);
            }
            kvstore = Some((session.await?, watchers));
        }
        Ok(Self { now, server, kvstore, runtime })
    }
}

/// Asks about all of them.
pub(super) async fn gather(api: &Api, what: &'static str) -> Result<Vec<Source>, GatewayError> {
    let (streams, listed, remotes) = tokio::try_join!(
        Streams::ask(api, what),
        api.gateway.ask_if(what, |node| node.cluster.as_ref(), ClusterMsg::Show),
        api.gateway.ask_if(what, |node| node.mesh.as_ref(), MeshMsg::Show),
    )?;
    Ok(all(&api.ears, &streams, listed.as_deref(), remotes.as_deref()))
}

/// All of them.
pub(super) fn all(
    ears: &Ears,
    streams: &Streams,
    listed: Option<&[SourceStatus]>,
    remotes: Option<&[RemoteView]>,
) -> Vec<Source> {
    let Streams { now, server, kvstore, runtime } = streams;
    let mut all = Vec::new();
    if let Some((server, listed)) = server.as_ref().zip(listed) {
        all.push(of_server(server, listed, *now));
        all.extend(listed.iter().map(|status| of_status(status, *now)));
    }
    if let Some((session, watchers)) = kvstore {
        all.push(of_session(session, *now));
        all.extend(watchers.iter().map(|watcher| of_watcher(KVSTORE, watcher, *now)));
    }
    all.extend(remotes.unwrap_or_default().iter().flat_map(|remote| of_remote(remote, *now)));
    all.extend(runtime.iter().map(|view| container_runtime::source(view, *now)));
    all.extend(outside(ears, *now));
    all
}

/// What of them is not as it should be.
pub(super) fn troubles(all: &[Source]) -> impl Iterator<Item = Trouble> {
    all.iter().filter_map(|source| {
        let Source { of, name, trouble: Some(text), .. } = source else { return None };
        let name = match of.as_str() {
            KUBERNETES => format!("{SOURCE}source {name}"),
            _ => format!("source {of} {name}"),
        };
        Some(Trouble::new(name, 1, text.clone()))
    })
}

pub(super) fn heard(of: &str, name: &str, hearing: &Hearing, now: Time) -> Source {
    let seconds = |span: Duration| span.as_secs_f64();
    let replaced = hearing.replaced.as_ref();
    Source {
        of: of.to_owned(),
        name: name.to_owned(),
        connected_seconds: hearing.connected.map(|since| seconds(now.since(since))),
        silent_seconds: hearing.silence(now).map(seconds),
        replaced: replaced.map(|it| {
            let (hour, minute) = (it.at / 3_600_000_000_000 % 24, it.at / 60_000_000_000 % 60);
            format!("another one since {hour:02}:{minute:02} UTC: {}", it.why)
        }),
        replacements: replaced.map_or(0, |it| it.times),
        ..Source::default()
    }
}

fn of_status(status: &SourceStatus, now: Time) -> Source {
    let stalled = status.heard.stalled.then(|| {
        let name = status.name;
        format!(
            "the watch of {name} says nothing although they change: they are listed every half a \
             minute; look at what is between this node and the API server"
        )
    });
    Source {
        objects: Some(status.heard.objects),
        version: status.version.clone(),
        trouble: stalled,
        ..heard(KUBERNETES, status.name, &status.hearing, now)
    }
}

/// The server as a whole: whether it answers, and whether its streams keep up with what it answers.
fn of_server(server: &ServerView, listed: &[SourceStatus], now: Time) -> Source {
    let source = heard(KUBERNETES, "server", &server.hearing, now);
    let trouble = unanswered(server, now).or_else(|| deaf(server, listed, now));
    Source { version: server.version.clone(), trouble, ..source }
}

fn unanswered(server: &ServerView, now: Time) -> Option<String> {
    let (error, silence) = (server.error.as_ref()?, server.hearing.silence(now)?);
    let seconds = silence.as_secs();
    (silence >= SILENCE_WARNED)
        .then(|| format!("the API server has not answered for {seconds} s: {error}"))
}

/// No stream has said anything for a while although something happened, which some should have told.
fn deaf(server: &ServerView, listed: &[SourceStatus], now: Time) -> Option<String> {
    let number = |version: &Option<String>| version.as_ref()?.parse::<u64>().ok();
    let followed = listed.iter().filter(|it| matches!(it.state, SourceState::Synced(_)));
    let silence = followed.clone().filter_map(|it| it.hearing.silence(now)).min()?;
    let reported = followed.filter_map(|it| number(&it.version)).max()?;
    let known = number(&server.version)?;
    let is_late = known > reported && server.since.is_some_and(|since| now.since(since) >= GRACE);
    (is_late && silence >= SILENCE_WARNED).then(|| {
        let seconds = silence.as_secs();
        format!(
            "no watch of the API server has said anything for {seconds} s, up to version {reported}; \
             the server is at {known}: all is listed after half a minute"
        )
    })
}

fn of_session(view: &SessionView, now: Time) -> Source {
    Source {
        objects: Some(view.announced),
        // One that does not answer is named as such.
        trouble: match view.unreachable {
            Some(_) => None,
            None => late(KVSTORE, "own keys", &view.hearing, now),
        },
        ..heard(KVSTORE, "own keys", &view.hearing, now)
    }
}

fn of_watcher(of: &str, view: &WatcherView, now: Time) -> Source {
    Source {
        objects: Some(view.keys),
        version: view.revision.map(|revision| revision.0.to_string()),
        trouble: match view.unreachable {
            Some(_) => None,
            None => late(of, &view.prefix, &view.hearing, now),
        },
        ..heard(of, &view.prefix, &view.hearing, now)
    }
}

/// A store says every ten seconds that it is there.
fn late(of: &str, name: &str, hearing: &Hearing, now: Time) -> Option<String> {
    let silence = hearing.silence(now).filter(|silence| *silence >= SILENCE_WARNED)?;
    Some(format!("{of}: {name} has said nothing for {} s; what is known stays", silence.as_secs()))
}

fn of_remote(remote: &RemoteView, now: Time) -> impl Iterator<Item = Source> {
    let of = format!("cluster {}", remote.cluster);
    let each = [&remote.config].into_iter().chain(remote.watchers.values()).flatten();
    each.map(move |view| of_watcher(&of, view, now))
}

/// Those that no actor follows: they may be silent for ever.
fn outside(ears: &Ears, now: Time) -> impl Iterator<Item = Source> {
    ears.all().into_iter().map(move |(name, ear)| {
        let trouble = ear.error.map(|error| format!("nobody listens to {name}: {error}"));
        Source { trouble, ..heard("node", name, &ear.hearing, now) }
    })
}

#[cfg(test)]
mod tests {
    use volvox_actors::model::Feed;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn hearing(said: u64) -> Hearing {
        Hearing { connected: Some(at(1)), said: Some(at(said)), replaced: None }
    }

    fn status(said: u64, version: &str) -> SourceStatus {
        SourceStatus {
            name: "pods",
            feed: Feed::Workloads,
            synced: true,
            state: SourceState::Synced(version.to_owned()),
            since: at(1),
            version: Some(version.to_owned()),
            heard: Default::default(),
            hearing: hearing(said),
        }
    }

    #[test]
    fn streams_that_are_silent_while_something_happens_are_named_after_a_while() {
        let server = ServerView {
            version: Some("12".to_owned()),
            since: Some(at(20)),
            hearing: hearing(30),
            ..ServerView::default()
        };
        let said = |listed: &[SourceStatus], now| of_server(&server, listed, at(now)).trouble;
        let silent = [status(10, "10"), status(18, "11")];
        assert_eq!(said(&silent, 32), None, "not for long");
        let text = said(&silent, 33).unwrap();
        assert!(
            text.contains("anything for 15 s, up to version 11; the server is at 12"),
            "{text}"
        );
        assert_eq!(said(&[status(10, "12")], 60), None, "nothing happened that was not told");
        assert_eq!(said(&[status(10, "10"), status(50, "11")], 60), None, "one speaks");
    }

    #[test]
    fn a_server_that_does_not_answer_and_a_store_that_is_silent_are_named() {
        let server = ServerView {
            error: Some("no answer".to_owned()),
            hearing: hearing(10),
            ..ServerView::default()
        };
        assert_eq!(of_server(&server, &[], at(24)).trouble, None);
        assert!(of_server(&server, &[], at(25)).trouble.unwrap().contains("not answered for 15 s"));
        assert_eq!(late("kvstore", "a/", &hearing(10), at(24)), None);
        assert!(late("kvstore", "a/", &hearing(10), at(25)).unwrap().contains("nothing for 15 s"));
    }
}
