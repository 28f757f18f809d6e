//! The port to the container runtime of the node: what becomes of pods' containers, told and looked up.

use std::collections::{BTreeMap, BTreeSet};

use super::Watch;
use crate::host::Reply;

/// A pod as its runtime names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimePod {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes pod name.
    pub name: String,
    /// Kubernetes pod UID; empty if the runtime does not say it.
    pub uid: String,
}

/// What the runtime says of a container that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// Whether something runs in it.
    pub runs: bool,
    /// The pod that it is the sandbox of, if it says one.
    pub pod: Option<RuntimePod>,
}

/// Containers by identifier, which CNI says as well.
pub type RuntimeContainers = BTreeMap<String, RuntimeContainer>;

/// Which containers are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichContainers {
    /// The sandbox of each pod.
    Sandboxes,
    /// Those of these identifiers.
    These(BTreeSet<String>),
}

/// What is told while a runtime is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// It is followed from now on. It is of that version.
    Follows(String),
    /// It still answers; comes every [`WATCH_ALIVE_EVERY`](super::WATCH_ALIVE_EVERY).
    Alive,
    /// Something became of the container of that identifier: look it up.
    Changed(String),
    /// It is not followed any more.
    Ended(RuntimeError),
}

/// Why the runtime does not answer, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(pub String);

/// Where it is told, on the actors' thread; false if it could not be taken, which ends it.
pub type RuntimeSink = Box<dyn FnMut(RuntimeEvent) -> bool>;

/// The container runtime of this node. It may be absent, restart, or be replaced at any time.
pub trait ContainerRuntime {
    /// Tells of each change, of this connection alone.
    fn follow(&self, tell: RuntimeSink) -> Watch;

    /// What there is of these containers now. One that is not in the answer does not exist.
    fn look_up(
        &self,
        which: WhichContainers,
        reply: Reply<Result<RuntimeContainers, RuntimeError>>,
    );
}
