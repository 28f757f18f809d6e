use serde_json::Value;

use crate::{
    endpoints::EndpointsMsg,
    host::{Message, Ref, Reply},
    model::Labels,
};

/// The objects of one source, a file for instance; none means that it is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its name.
    pub source: String,
    /// Its objects, or why they cannot be read.
    pub objects: Result<Vec<Value>, String>,
}

/// What the keeper of pods and namespaces can be told.
pub enum WorkloadsMsg {
    /// These sources changed; only pods and namespaces are looked at. The first of these messages
    /// holds all that is known at start: questions wait for it.
    Manifests(Vec<Manifest>),
    /// All labels of a pod: its own, its namespace's, its cluster's and its service account's.
    LabelsOf {
        /// Kubernetes namespace.
        namespace: String,
        /// Kubernetes pod name.
        pod: String,
        /// Where the answer goes.
        reply: Reply<Labels>,
    },
    /// Tell there when a pod's labels change.
    Subscribe(Ref<EndpointsMsg>),
    /// Time to tell again what a full mailbox did not take.
    Retell,
}

impl Message for WorkloadsMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Manifests(_) => "Manifests",
            Self::LabelsOf { .. } => "LabelsOf",
            Self::Subscribe(_) => "Subscribe",
            Self::Retell => "Retell",
        }
    }
}
