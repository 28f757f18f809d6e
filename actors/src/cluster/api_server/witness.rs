//! Which API server answers, and how far its cluster is: asked with one small request, whatever the number
//! of sources, when there is a reason. That is a new connection, at whose other end may be another server,
//! a failure, and silence of all watches.
//!
//! The namespace kube-system of another cluster has another UID. The version of its list, for which a
//! majority of the server's store stands, falls only if that was restored from a backup.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::version::{number, went_back};
use crate::{
    cluster::sources::Hearing,
    host::{Pauses, Retry, Time},
    mutants::{Mutant, mutated},
    ports::{ClusterError, Page, Reader, Resource},
};

/// How often it is looked whether the server is to be asked.
const EVERY: Duration = Duration::from_secs(10);
/// How long all watches may say nothing before it is asked. Bookmarks come more often.
const QUIET_MAX: Duration = Duration::from_secs(15);
/// The first pause after a failure; the next ones are twice as long each.
pub(super) const SOON: Duration = Duration::from_secs(1);
const PAUSES: Pauses = Pauses::Doubling { first: SOON, most: EVERY };
/// Sources notice another server at the same time: for that long they are told once.
const TOLD_FOR: Duration = Duration::from_secs(5);

/// The server that an earlier run knew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The UID of its namespace kube-system.
    pub uid: String,
    /// How far its cluster was.
    pub version: String,
}

/// What is known of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerView {
    /// The UID of its namespace kube-system.
    pub uid: Option<String>,
    /// How far its cluster was when it was asked last.
    pub version: Option<String>,
    /// Since when it is at least so far.
    pub since: Option<Time>,
    /// Why it does not answer.
    pub error: Option<String>,
    /// How often it was asked.
    pub asked: u64,
    /// How it was heard.
    pub hearing: Hearing,
}

/// Asks the server who it is.
#[derive(Default)]
pub(super) struct Witness {
    view: ServerView,
    tries: Retry,
    /// Connections that were made before it was asked last; none if there is another reason to ask.
    connections: Option<u64>,
    /// When a watch said something last.
    told: Option<Time>,
    /// When all was last listed because of another server.
    relisted: Option<Time>,
}

impl ServerView {
    /// What the next run is to know of it.
    pub fn known(&self) -> Option<KnownServer> {
        let (uid, version) = self.uid.clone().zip(self.version.clone())?;
        Some(KnownServer { uid, version })
    }
}

impl Witness {
    /// One who knows the server of the run before.
    pub(super) fn new(before: Option<KnownServer>) -> Self {
        let (uid, version) = before.map(|it| (it.uid, it.version)).unzip();
        let view = ServerView { uid, version, ..ServerView::default() };
        Self { view, ..Self::default() }
    }

    /// What is asked for.
    pub(super) fn resource() -> Resource {
        Resource {
            name: "namespaces",
            path: "/api/v1/namespaces",
            api_version: "v1",
            kind: "Namespace",
            fields: Some("metadata.name=kube-system".to_owned()),
            labels: None,
            definition: None,
            reader: Reader::Agent,
        }
    }

    /// What was asked by an earlier run is not answered any more.
    pub(super) fn begin(&mut self) {
        self.tries.give_up();
    }

    /// How often it was asked.
    pub(super) fn asked(&self) -> u64 {
        self.view.asked
    }

    /// Whether there is a reason to ask it.
    pub(super) fn is_due(&self, now: Time, connections: u64) -> bool {
        let is_quiet = self.told.is_none_or(|told| now.since(told) >= QUIET_MAX);
        is_quiet || self.connections != Some(connections) || !self.is_answered()
    }

    /// When to look again, if there is none and nobody else does.
    pub(super) fn rests(&self, since: u64) -> Option<Duration> {
        (since == self.view.asked && !self.is_asking()).then_some(EVERY)
    }

    /// A watch says something, so the server is there.
    pub(super) fn note(&mut self, now: Time) {
        self.told = Some(now);
        if self.is_answered() && self.view.uid.is_some() {
            self.view.hearing.hear(now);
        }
    }

    /// Whoever answers next may be another server.
    pub(super) fn doubt(&mut self) {
        self.connections = None;
    }

    /// Whether it is to be asked now, one question at a time, if nobody has asked since that one.
    pub(super) fn asks(&mut self, since: u64, connections: u64) -> bool {
        let begins = since == self.view.asked && self.tries.begin();
        self.view.asked += u64::from(begins);
        if begins {
            self.connections = Some(connections);
        }
        begins
    }

    /// Whether it answered the last time.
    pub(super) fn is_answered(&self) -> bool {
        self.tries.failures() == 0
    }

    /// Whether an answer is waited for.
    pub(super) fn is_asking(&self) -> bool {
        self.tries.is_asked()
    }

    /// Takes in its answer: when it is to be asked again, and what tells it from the one before.
    pub(super) fn hear(
        &mut self,
        answer: Result<Page, ClusterError>,
        (now, wall): (Time, u64),
    ) -> (Duration, Option<String>) {
        let Page { objects, version, .. } = match answer {
            Ok(page) => page,
            Err(error) => {
                self.view.error = Some(error.to_string());
                self.view.hearing.lose();
                let pause = self.tries.count_failure(PAUSES);
                let desired = match error {
                    ClusterError::Busy { after, .. } => after,
                    _ => Duration::ZERO,
                };
                return (pause + desired, None);
            }
        };
        self.tries.succeeded();
        self.view.error = None;
        self.view.hearing.hear(now);
        let metadata = objects.first().and_then(|it| it.value.metadata());
        let uid = metadata.and_then(|metadata| metadata.uid.clone());
        let other = self.other(uid.as_deref(), &version);
        let other = other.filter(|why| self.replaced((now, wall), why.clone()));
        // Where it has none any more, it is still the one that it was.
        self.view.uid = uid.or(self.view.uid.take());
        if self.view.version.as_ref() != Some(&version) {
            self.view.since = Some(now);
        }
        self.view.version = Some(version);
        (EVERY, other)
    }

    /// It is another one than before; whether that is news.
    pub(super) fn replaced(&mut self, (now, wall): (Time, u64), why: String) -> bool {
        if self.relisted.is_some_and(|at| now.since(at) < TOLD_FOR) {
            return false;
        }
        self.relisted = Some(now);
        self.view.hearing.replace(wall, why);
        true
    }

    fn other(&self, uid: Option<&str>, version: &str) -> Option<String> {
        if let (Some(before), Some(uid)) = (self.view.uid.as_deref(), uid)
            && before != uid
            && !mutated(Mutant::OtherSideTrusted)
        {
            return Some(format!("the UID of kube-system is {uid}, before it was {before}"));
        }
        went_back(self.view.version.as_deref().and_then(number), version)
    }

    pub(super) fn view(&self) -> &ServerView {
        &self.view
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ports::{Object, ObjectKey};

    fn page(uid: &str, version: &str) -> Result<Page, ClusterError> {
        let key = ObjectKey { namespace: String::new(), name: "kube-system".to_owned() };
        let value =
            json!({ "kind": "Namespace", "metadata": { "name": "kube-system", "uid": uid } });
        let objects = vec![Object { key, value: value.into() }];
        Ok(Page { objects, version: version.to_owned(), next: None })
    }

    #[test]
    fn a_server_is_asked_seldom_while_it_answers_and_left_alone_as_it_wants() {
        let (mut witness, at) = (Witness::default(), (Time(1), 1));
        assert!(witness.asks(0, 1) && !witness.asks(0, 1) && !witness.asks(1, 1));
        assert_eq!(witness.hear(page("a", "10"), at), (EVERY, None));
        let down = || Err(ClusterError::Unreachable("refused".to_owned()));
        assert_eq!(witness.hear(down(), at).0, SOON);
        assert_eq!(witness.hear(down(), at).0, SOON * 2);
        let after = Duration::from_secs(120);
        let busy = ClusterError::Busy { after, said: String::new() };
        assert_eq!(witness.hear(Err(busy), at).0, after + SOON * 4);
        assert_eq!(witness.hear(page("a", "10"), at), (EVERY, None));
    }

    #[test]
    fn it_is_asked_for_a_reason_only() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut witness = Witness::default();
        assert!(witness.is_due(at(1), 0), "nobody has said anything");
        assert!(witness.asks(0, 0));
        assert_eq!(witness.rests(1), None, "its answer is waited for");
        witness.hear(page("a", "10"), (at(1), 1));
        witness.note(at(2));
        assert!(witness.is_due(at(3), 1), "its own connection is a new one");
        assert!(witness.asks(1, 1));
        witness.hear(page("a", "10"), (at(3), 1));
        assert!(!witness.is_due(at(16), 1));
        assert_eq!((witness.rests(1), witness.rests(2)), (None, Some(EVERY)));
        assert!(witness.is_due(at(17), 1), "nobody has said anything for long");
        witness.note(at(17));
        assert!(!witness.is_due(at(20), 1));
        assert_eq!(witness.view().hearing.silence(at(20)), Some(Duration::from_secs(3)));
        assert!(witness.is_due(at(20), 2), "there is a new connection");
        witness.doubt();
        assert!(witness.is_due(at(20), 1), "something failed");
        assert!(witness.asks(2, 1));
        witness.hear(Err(ClusterError::Unreachable("refused".to_owned())), (at(20), 1));
        witness.note(at(21));
        assert!(witness.is_due(at(21), 1), "it did not answer");
        assert_eq!(witness.view().hearing.silence(at(22)), Some(Duration::from_secs(5)));
    }

    #[test]
    fn another_uid_and_an_older_version_are_another_server() {
        let before = KnownServer { uid: "a".to_owned(), version: "10".to_owned() };
        let (mut witness, mut second) = (Witness::new(Some(before)), 0);
        let mut why = |uid, version| {
            second += 10;
            witness.hear(page(uid, version), (Time(second * 1_000_000_000), 1)).1
        };
        assert_eq!(why("a", "11"), None);
        assert!(why("a", "9").unwrap().contains("resourceVersion is 9"));
        assert_eq!(why("a", "9"), None);
        assert!(why("b", "20").unwrap().contains("kube-system is b"));
        assert_eq!(witness.view().hearing.replaced.as_ref().map(|it| it.times), Some(2));
    }
}
