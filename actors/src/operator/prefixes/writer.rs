//! How every owner of prefixes writes: the Lease first, then objects of the cluster, all at once, with a
//! pause after a failure. Nothing is drawn while something is under way.

use std::{rc::Rc, time::Duration};

use crate::{
    host::{AskError, Behaviour, Cx, Pauses, Ref, Retry},
    operator::{ending::OnlyLife, leadership::LeadershipMsg, news::FollowedKind},
    ports::{Cluster, ClusterError, ObjectKey, ObjectWrite, Verb},
};

/// How long the server may take for an object.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the Lease may take.
const RECORD_PATIENCE: Duration = Duration::from_secs(30);
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(250), most: Duration::from_secs(30) };

/// How a write went.
pub(in crate::operator) type WriteAnswer = Result<Result<(), ClusterError>, AskError>;

/// Whom an owner of prefixes talks to.
#[derive(Clone)]
pub(in crate::operator) struct PrefixesPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
}

/// Writes for an owner of prefixes.
pub(in crate::operator) struct PrefixWriter {
    peers: PrefixesPeers,
    is_recording: bool,
    /// How many objects are being written.
    under_way: usize,
    retry: Retry,
}

impl PrefixWriter {
    pub(in crate::operator) fn new(peers: PrefixesPeers) -> Self {
        Self { peers, is_recording: false, under_way: 0, retry: Retry::default() }
    }

    /// Its owner began.
    pub(in crate::operator) fn begin(&self) {
        self.peers.life.begin();
    }

    /// Whether nothing is under way, and no pause runs.
    pub(in crate::operator) fn is_idle(&self) -> bool {
        !self.is_recording && self.under_way == 0 && self.retry.is_idle()
    }

    /// Has the Lease say what so many nodes are given.
    pub(in crate::operator) fn record<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        prefixes: String,
        nodes: usize,
        then: impl FnOnce(Result<bool, AskError>) -> B::Answer + 'static,
    ) {
        self.is_recording = true;
        let prefixes = Some(prefixes);
        let why = format!("the Lease to say what {nodes} nodes are given");
        let message = |reply| LeadershipMsg::Confirm { prefixes, reply };
        cx.ask(&self.peers.leadership, RECORD_PATIENCE, why, message, then);
    }

    /// Whether the Lease says so now. It may do so if not; who does not lead any more ends.
    pub(in crate::operator) fn recorded<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        answer: &Result<bool, AskError>,
        again: B::Answer,
    ) -> bool {
        self.is_recording = false;
        let is_recorded = matches!(answer, Ok(true));
        if is_recorded {
            self.retry.succeeded();
        } else {
            let _ = self.retry.failed(PAUSES, cx, again);
        }
        is_recorded
    }

    /// Writes an object that is in no namespace.
    pub(in crate::operator) fn write<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        of: FollowedKind,
        name: String,
        verb: Verb,
        then: impl FnOnce(WriteAnswer) -> B::Answer + 'static,
    ) {
        self.under_way += 1;
        let resource = of.resource();
        let why = format!("{} {name}", resource.kind);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let key = ObjectKey { namespace: String::new(), name };
        self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
    }

    /// How writing to a CiliumNode went that was seen. After a failure there is a pause; neither a conflict
    /// is one, nor that the object is gone: another version is on its way, or the word that there is none.
    pub(in crate::operator) fn written<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        name: &str,
        answer: WriteAnswer,
        again: B::Answer,
    ) -> Result<(), ClusterError> {
        let result = self.ended(answer);
        let is_stale = |error: &ClusterError| {
            matches!(error, ClusterError::Conflict(_) | ClusterError::NotFound(_))
        };
        if let Some(error) = result.as_ref().err().filter(|error| !is_stale(error)) {
            self.failed(cx, (FollowedKind::CiliumNodes, name), error, again);
        }
        result
    }

    /// How making an object went; whether it is there. Where it was there already it is somebody else's.
    pub(in crate::operator) fn created<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        object: (FollowedKind, &str),
        answer: WriteAnswer,
        again: B::Answer,
    ) -> bool {
        match self.ended(answer) {
            Ok(()) | Err(ClusterError::Conflict(_)) => true,
            Err(error) => {
                self.failed(cx, object, &error, again);
                false
            }
        }
    }

    fn ended(&mut self, answer: WriteAnswer) -> Result<(), ClusterError> {
        self.under_way = self.under_way.saturating_sub(1);
        let result = ClusterError::of_asked(answer, &*self.peers.cluster);
        if result.is_ok() && self.retry.is_idle() {
            self.retry.succeeded();
        }
        result
    }

    fn failed<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        (kind, name): (FollowedKind, &str),
        error: &ClusterError,
        again: B::Answer,
    ) {
        if !self.retry.is_pausing() {
            let retry_in = self.retry.failed(PAUSES, cx, again);
            let kind = kind.resource().kind;
            tracing::warn!(kind, name, %error, ?retry_in, "object was not written");
        }
    }

    /// The pause is over.
    pub(in crate::operator) fn over(&mut self) {
        self.retry.over();
    }
}

/// Why nothing is given, where what was given cannot be read.
pub(in crate::operator) fn unreadable(error: &str) -> String {
    format!(
        "the Lease's annotation volvox.io/prefixes cannot be read ({error}), and which prefixes are given is \
         not known: remove the annotation when no operator runs"
    )
}
