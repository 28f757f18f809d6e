//! An object of an API server or of a manifest. Kubernetes' own objects are its types, those of others, Cilium's
//! for instance, are JSON.

mod malformed;
mod older;
mod parts;
mod typed;
mod wanted;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::Arc,
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Endpoints, Namespace, Node, Pod, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, NetworkPolicy},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

pub use malformed::MalformedObject;
pub use typed::Readership;

/// An object, as far as anybody looks at it. Who has it may share it.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiObject {
    /// A pod.
    Pod(Arc<Pod>),
    /// A namespace.
    Namespace(Arc<Namespace>),
    /// A node.
    Node(Arc<Node>),
    /// A service.
    Service(Arc<Service>),
    /// Some of who serves a service.
    EndpointSlice(Arc<EndpointSlice>),
    /// The same as older servers have it.
    Endpoints(Arc<Endpoints>),
    /// A way to a service.
    Ingress(Arc<Ingress>),
    /// A policy.
    NetworkPolicy(Arc<NetworkPolicy>),
    /// Who leads.
    Lease(Arc<Lease>),
    /// A kind of objects.
    CustomResourceDefinition(Arc<CustomResourceDefinition>),
    /// A list in a manifest.
    List(Vec<ApiObject>),
    /// One of another kind.
    Json(Value),
    /// One of Kubernetes' own that is not what its type says.
    Malformed(Arc<MalformedObject>),
}

impl ApiObject {
    /// What it says of itself, if it has a type.
    pub fn metadata(&self) -> Option<&ObjectMeta> {
        match self {
            Self::Pod(it) => Some(&it.metadata),
            Self::Namespace(it) => Some(&it.metadata),
            Self::Node(it) => Some(&it.metadata),
            Self::Service(it) => Some(&it.metadata),
            Self::EndpointSlice(it) => Some(&it.metadata),
            Self::Endpoints(it) => Some(&it.metadata),
            Self::Ingress(it) => Some(&it.metadata),
            Self::NetworkPolicy(it) => Some(&it.metadata),
            Self::Lease(it) => Some(&it.metadata),
            Self::CustomResourceDefinition(it) => Some(&it.metadata),
            Self::List(_) | Self::Json(_) | Self::Malformed(_) => None,
        }
    }

    /// Its namespace, which may be empty, and its name; `None` if it has none.
    pub fn name(&self) -> Option<(&str, &str)> {
        let (namespace, name) = match (self, self.metadata()) {
            (_, Some(metadata)) => (metadata.namespace.as_deref(), metadata.name.as_deref()),
            (Self::Json(value), _) => malformed::name(value),
            (Self::Malformed(object), _) => malformed::name(object.value()),
            _ => (None, None),
        };
        let name = name.filter(|name| !name.is_empty())?;
        Some((namespace.unwrap_or_default(), name))
    }

    /// The object as JSON.
    pub fn to_json(&self) -> Value {
        fn json(object: &impl Serialize) -> Value {
            // What was read from JSON can be written as JSON.
            serde_json::to_value(object).unwrap_or_default()
        }
        match self {
            Self::Pod(it) => json(it),
            Self::Namespace(it) => json(it),
            Self::Node(it) => json(it),
            Self::Service(it) => json(it),
            Self::EndpointSlice(it) => json(it),
            Self::Endpoints(it) => json(it),
            Self::Ingress(it) => json(it),
            Self::NetworkPolicy(it) => json(it),
            Self::Lease(it) => json(it),
            Self::CustomResourceDefinition(it) => json(it),
            Self::List(all) => all.iter().map(Self::to_json).collect(),
            Self::Json(value) => value.clone(),
            Self::Malformed(object) => object.value().clone(),
        }
    }

    /// The same without a copy where it is JSON.
    pub fn into_json(self) -> Value {
        match self {
            Self::Json(value) => value,
            other => other.to_json(),
        }
    }

    /// The node that it is. Of one that cannot be read it is complained: what it was before stays.
    pub(crate) fn into_node(self) -> Option<Arc<Node>> {
        match self {
            Self::Node(node) => Some(node),
            Self::Malformed(error) => {
                tracing::warn!(%error, "a Node is not taken in; what it was before stays");
                None
            }
            _ => None,
        }
    }

    /// A number that stands for all that it says.
    pub(crate) fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Json(value) => value.hash(&mut hasher),
            Self::Malformed(object) => object.value().hash(&mut hasher),
            Self::List(all) => all.iter().for_each(|it| it.mark().hash(&mut hasher)),
            Self::Pod(it) => hash(it, &mut hasher),
            Self::Namespace(it) => hash(it, &mut hasher),
            Self::Node(it) => hash(it, &mut hasher),
            Self::Service(it) => hash(it, &mut hasher),
            Self::EndpointSlice(it) => hash(it, &mut hasher),
            Self::Endpoints(it) => hash(it, &mut hasher),
            Self::Ingress(it) => hash(it, &mut hasher),
            Self::NetworkPolicy(it) => hash(it, &mut hasher),
            Self::Lease(it) => hash(it, &mut hasher),
            Self::CustomResourceDefinition(it) => hash(it, &mut hasher),
        }
        hasher.finish()
    }
}

/// The types have no hash of their own: what they are as JSON has one.
fn hash(object: &impl Serialize, hasher: &mut DefaultHasher) {
    struct Hashed<'a>(&'a mut DefaultHasher);

    impl io::Write for Hashed<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // Nothing here fails.
    let _ = serde_json::to_writer(Hashed(hasher), object);
}
