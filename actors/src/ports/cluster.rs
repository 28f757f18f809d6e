//! The port to a Kubernetes API server: list, watch and write objects. What they mean is the
//! actors' matter.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::Value;

use super::Definition;
use crate::{
    host::{AskError, Reply},
    model::{ApiObject, Readership},
};

/// A kind of objects, as an API server lists and watches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its plural, as it is written for people: `networkpolicies`.
    pub name: &'static str,
    /// Where it is: `/apis/networking.k8s.io/v1/networkpolicies`.
    pub path: &'static str,
    /// The version of its objects.
    pub api_version: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Which of them, if not all: a field selector.
    pub fields: Option<String>,
    /// The same by their labels, which are read then.
    pub labels: Option<String>,
    /// Name of the CustomResourceDefinition without which there are none.
    pub definition: Option<&'static str>,
    /// Who reads its objects.
    pub reader: Reader,
}

/// Who reads objects: what that one does not read is left out of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// The agent of a node.
    #[default]
    Agent,
    /// The operator of a cluster, which reads fewer parts of more objects, and their versions.
    Operator,
}

/// Which object of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace; empty if it is in none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// An object, as far as anybody looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Which one.
    pub key: ObjectKey,
    /// The object, without what nobody reads.
    pub value: ApiObject,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its objects.
    pub objects: Vec<Object>,
    /// The version of the whole list: a watch goes on from there.
    pub version: String,
    /// What the next page is asked for with; none behind the last.
    pub next: Option<String>,
}

/// Something that a watch saw.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectChange {
    /// An object is there, and is so now.
    Applied(Object),
    /// An object is gone.
    Deleted(ObjectKey),
    /// All that happened until this version has been told.
    Reached(String),
}

/// Why an API server did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum ClusterError {
    /// There is no answer, or no way to ask.
    #[error("the API server does not answer: {0}")]
    Unreachable(String),
    /// It has too much to do.
    #[error("the API server is busy ({said}); it wants to be left alone for {} s", after.as_secs())]
    Busy {
        /// How long it wants to be left alone.
        after: Duration,
        /// Its words.
        said: String,
    },
    /// It does not know who asks.
    #[error(
        "the API server does not know who asks: {0}; give the agent a token or certificate that is \
         valid, in its kubeconfig or by its service account"
    )]
    Unknown(String),
    /// It knows who asks, and does not let that one.
    #[error(
        "the API server refuses: {0}; give the agent's account the right to do that, in its ClusterRole"
    )]
    Refused(String),
    /// There is no such thing.
    #[error("the API server has no such thing: {0}")]
    NotFound(String),
    /// The object is another one by now, or is there already.
    #[error("the API server has another object: {0}")]
    Conflict(String),
    /// It does not take the object as it is.
    #[error("the API server does not take the object: {0}")]
    Invalid(String),
    /// What happened since that version is forgotten: everything is to be listed.
    #[error("the API server forgot that version: {0}")]
    Expired(String),
    /// A watch came to its end.
    #[error("the watch ended")]
    Ended,
    /// Anything else.
    #[error("the API server failed: {0}")]
    Failed(String),
}

/// Something to be done with one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectWrite {
    /// Its resource.
    pub resource: Resource,
    /// Which object.
    pub key: ObjectKey,
    /// What.
    pub verb: Verb,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Make it.
    Create(Value),
    /// Change it by a JSON merge patch, RFC 7386.
    Merge(Value),
    /// Change it by a JSON patch, RFC 6902, which may test what it changes.
    Patch(Value),
    /// Change its metadata and its status by a strategic merge patch, which knows what tells the
    /// members of a list apart. Only the server's own kinds have that.
    Status(Value),
    /// Change the status of a custom resource by a JSON merge patch.
    MergeStatus(Value),
    /// Remove it, if it is the one of that UID and, where one is given, still of that version.
    Delete {
        /// The UID.
        uid: String,
        /// Its `resourceVersion`.
        version: Option<String>,
    },
}

impl ClusterError {
    /// What the server answered. Who was not answered in time could not reach it.
    pub(crate) fn of<T>(answer: Result<Result<T, Self>, AskError>) -> Result<T, Self> {
        answer.unwrap_or_else(|error| Err(Self::Unreachable(error.to_string())))
    }

    /// The same for who waits less than the way to the server does: it says which one was asked.
    pub(crate) fn of_asked<T>(
        answer: Result<Result<T, Self>, AskError>,
        cluster: &dyn Cluster,
    ) -> Result<T, Self> {
        answer.unwrap_or_else(|error| {
            let asked = cluster.address().map(|address| format!("cannot reach {address}: {error}"));
            Err(Self::Unreachable(asked.unwrap_or_else(|| error.to_string())))
        })
    }
}

impl Resource {
    /// What of its objects is read.
    pub fn readership(&self) -> Readership {
        match (self.reader, &self.labels) {
            (Reader::Agent, _) => Readership::Agent,
            (Reader::Operator, None) => Readership::Operator,
            (Reader::Operator, Some(_)) => Readership::OperatorByLabels,
        }
    }

    /// Where all its objects of a namespace are; those without a namespace are in `""`.
    pub fn path_in(&self, namespace: &str) -> String {
        match self.path.rsplit_once('/') {
            Some((group, plural)) if !namespace.is_empty() => {
                format!("{group}/namespaces/{namespace}/{plural}")
            }
            _ => self.path.to_owned(),
        }
    }
}

/// An API server.
pub trait Cluster {
    /// The address of the server that was asked last, for people; none if it has no address, or
    /// nobody asked.
    fn address(&self) -> Option<String> {
        None
    }

    /// How many connections were made so far: at the other end of a new one may be another server.
    fn connections(&self) -> u64;

    /// Lists a page of a resource: the first one as everything is now, others as `next` of the page
    /// before says.
    fn list(
        &self,
        resource: &Resource,
        next: Option<String>,
        reply: Reply<Result<Page, ClusterError>>,
    );

    /// One object as it is now.
    fn get(&self, resource: &Resource, key: &ObjectKey, reply: Reply<Result<Object, ClusterError>>);

    /// The CustomResourceDefinition of that name, if there is one.
    fn definition(&self, name: &str, reply: Reply<Result<Option<Definition>, ClusterError>>);

    /// Does something with an object.
    fn write(&self, write: ObjectWrite, reply: Reply<Result<(), ClusterError>>);

    /// Watches a resource from a version on. The server ends it after `lifetime`; it ends too when
    /// the watch is dropped.
    fn watch(&self, resource: &Resource, version: &str, lifetime: Duration)
    -> Box<dyn ObjectWatch>;
}

/// A watch that was begun.
pub trait ObjectWatch {
    /// Tells of what happens next, when it happens. After an error the watch is over.
    fn next(&mut self, reply: Reply<Result<Vec<ObjectChange>, ClusterError>>);
}
