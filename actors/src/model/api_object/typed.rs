//! From JSON to typed objects: which kinds there are, in which versions, and what is read of each.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{NodeCondition, Pod, PodSpec},
    networking::v1::Ingress,
};
use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ApiObject, MalformedObject, malformed, older,
    parts::{self, Trail, Wanted},
    wanted,
};
use crate::model::field::{Fault, Field};

/// Who reads objects: what that one does not read is left out of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readership {
    /// The agent of a node.
    #[default]
    Agent,
    /// The operator of a cluster, which reads fewer parts of more objects, and their versions;
    Operator,
    /// of pods that are chosen by their labels also these.
    OperatorByLabels,
}

/// One of Kubernetes' own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnKind {
    Pod,
    Namespace,
    Node,
    Service,
    EndpointSlice,
    Endpoints,
    Ingress,
    NetworkPolicy,
    Lease,
    CustomResourceDefinition,
}

impl OwnKind {
    /// By name, with the versions that are understood, the newest first.
    const ALL: [(Self, &str, &[&str]); 10] = [
        (Self::Pod, "Pod", &["v1"]),
        (Self::Namespace, "Namespace", &["v1"]),
        (Self::Node, "Node", &["v1"]),
        (Self::Service, "Service", &["v1"]),
        (
            Self::EndpointSlice,
            "EndpointSlice",
            &["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"],
        ),
        (Self::Endpoints, "Endpoints", &["v1"]),
        (
            Self::Ingress,
            "Ingress",
            &["networking.k8s.io/v1", "networking.k8s.io/v1beta1", "extensions/v1beta1"],
        ),
        (Self::NetworkPolicy, "NetworkPolicy", &["networking.k8s.io/v1"]),
        (Self::Lease, "Lease", &["coordination.k8s.io/v1"]),
        (Self::CustomResourceDefinition, "CustomResourceDefinition", &["apiextensions.k8s.io/v1"]),
    ];

    fn named(kind: &str) -> Option<(Self, &'static str, &'static [&'static str])> {
        Self::ALL.into_iter().find(|(_, name, _)| *name == kind)
    }

    /// A manifest of these may leave out its version, as of a Service, it must not.
    fn has_one_version(self) -> bool {
        matches!(self, Self::Pod | Self::Namespace | Self::Node)
    }
}

impl ApiObject {
    /// Reads the documents of a manifest.
    pub fn all(documents: Vec<Value>) -> Vec<Self> {
        documents.into_iter().map(Self::from).collect()
    }

    /// Reads an object of a server, of that kind and version, which it need not say itself.
    pub fn of_server(
        kind: &str,
        api_version: &str,
        text: &str,
        readership: Readership,
    ) -> Result<Self, serde_json::Error> {
        let Some((own, name, versions)) = OwnKind::named(kind) else {
            return serde_json::from_str(text).map(Self::Json);
        };
        if versions.first() != Some(&api_version) {
            let value = said_to_be(kind, api_version, serde_json::from_str(text)?);
            return Ok(of_older(own, name, value, readership));
        }
        typed(own, text, readership).or_else(|_| {
            // Of a field that is said twice only the last counts, as for Kubernetes itself: the first may have
            // failed alone.
            let value = said_to_be(kind, api_version, serde_json::from_str(text)?);
            Ok(of_value(own, name, value, readership))
        })
    }
}

/// A document of a manifest, which says itself of which kind and version it is.
impl From<Value> for ApiObject {
    fn from(value: Value) -> Self {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) {
            let Value::Object(mut list) = value else { return Self::Json(value) };
            return match list.remove("items") {
                Some(Value::Array(items)) => {
                    Self::List(items.into_iter().map(Self::from).collect())
                }
                _ => Self::Json(Value::Object(list)),
            };
        }
        let Some((own, name, versions)) = OwnKind::named(kind) else { return Self::Json(value) };
        let root = Field::root(&value);
        let version = root.any_mapping().and_then(|root| match root.get("apiVersion") {
            None if own.has_one_version() => Ok(versions[0]),
            _ => {
                let version = root.need("apiVersion")?;
                let text = version.text()?;
                versions.iter().find(|it| **it == text).copied().ok_or_else(|| {
                    version.fault(
                        format!("{name} of version {} is not known", version.value),
                        format!("write {}", versions[0]),
                    )
                })
            }
        });
        match version {
            Err(fault) => malformed_object(name, fault, value),
            Ok(version) if version != versions[0] => of_older(own, name, value, Readership::Agent),
            Ok(_) => of_value(own, name, value, Readership::Agent),
        }
    }
}

/// An object of a list, which does not say itself what it is.
fn said_to_be(kind: &str, api_version: &str, mut value: Value) -> Value {
    if let Value::Object(object) = &mut value {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    value
}

/// The same of one of an older version, which becomes one of the newest.
fn of_older(own: OwnKind, name: &'static str, value: Value, readership: Readership) -> ApiObject {
    let mut newer = value.clone();
    let turned = match own {
        OwnKind::EndpointSlice => {
            older::endpoint_slice(&mut newer);
            Ok(())
        }
        OwnKind::Ingress => older::ingress(&mut newer),
        _ => Ok(()),
    };
    match turned {
        Ok(()) => of_value(own, name, newer, readership),
        Err(fault) => malformed_object(name, fault, value),
    }
}

fn of_value(own: OwnKind, name: &'static str, value: Value, readership: Readership) -> ApiObject {
    typed(own, &value.to_string(), readership).unwrap_or_else(|failed| {
        let fault = failed.fault(&value);
        malformed_object(name, fault, value)
    })
}

fn malformed_object(kind: &'static str, fault: Fault, value: Value) -> ApiObject {
    ApiObject::Malformed(Arc::new(MalformedObject::new(kind, fault, value)))
}

/// Why an object could not be read, and where that stands.
struct Failed {
    trail: Trail,
    error: serde_json::Error,
}

impl Failed {
    fn fault(self, object: &Value) -> Fault {
        malformed::fault(self.trail, &self.error, object)
    }
}

fn typed(own: OwnKind, text: &str, readership: Readership) -> Result<ApiObject, Box<Failed>> {
    let is_agent = readership == Readership::Agent;
    Ok(match own {
        OwnKind::Pod => {
            let wanted = match readership {
                Readership::Agent => &wanted::POD,
                Readership::Operator => &wanted::OPERATOR_POD,
                Readership::OperatorByLabels => &wanted::CHOSEN_POD,
            };
            let mut pod = read(text, wanted)?;
            if is_agent {
                only_of_host_ports(&mut pod);
            }
            if let Some(all) = pod.status.as_mut().and_then(|it| it.conditions.as_mut()) {
                all.retain(|condition| condition.type_ == "Ready");
            }
            ApiObject::Pod(pod.into())
        }
        OwnKind::Namespace => ApiObject::Namespace(Arc::new(read(text, &wanted::NAMESPACE)?)),
        OwnKind::Node => {
            let wanted = if is_agent { &wanted::NODE } else { &wanted::OPERATOR_NODE };
            let mut node: k8s_openapi::api::core::v1::Node = read(text, wanted)?;
            if let Some(all) = node.status.as_mut().and_then(|it| it.conditions.as_mut()) {
                all.retain(is_of_network);
            }
            ApiObject::Node(node.into())
        }
        OwnKind::Service => ApiObject::Service(Arc::new(read(text, &wanted::SERVICE)?)),
        OwnKind::EndpointSlice => {
            ApiObject::EndpointSlice(Arc::new(read(text, &wanted::ENDPOINT_SLICE)?))
        }
        OwnKind::Endpoints => ApiObject::Endpoints(Arc::new(read(text, &wanted::ENDPOINTS)?)),
        OwnKind::Ingress => {
            let mut ingress = read(text, &wanted::INGRESS)?;
            only_that_there_are(&mut ingress);
            ApiObject::Ingress(ingress.into())
        }
        OwnKind::NetworkPolicy => {
            ApiObject::NetworkPolicy(Arc::new(read(text, &wanted::NETWORK_POLICY)?))
        }
        OwnKind::Lease => ApiObject::Lease(Arc::new(read(text, &wanted::LEASE)?)),
        OwnKind::CustomResourceDefinition => {
            ApiObject::CustomResourceDefinition(Arc::new(read(text, &wanted::DEFINITION)?))
        }
    })
}

fn read<T>(text: &str, wanted: &'static Wanted) -> Result<T, Box<Failed>>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    let trail = Trail::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let mut object: T = match parts::read(&mut json, wanted, &trail) {
        Ok(object) => object,
        Err(error) => return Err(Box::new(Failed { trail, error })),
    };
    // If nothing is left of them it is no news that there are some.
    let annotations = &mut object.metadata_mut().annotations;
    annotations.take_if(|all| all.is_empty());
    Ok(object)
}

/// Of a pod that wants no ports of its node nobody reads what changes more often.
fn only_of_host_ports(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else {
        pod.status = None;
        return;
    };
    if !has_host_ports(spec) {
        (spec.host_network, spec.node_name, pod.status) = (None, None, None);
    }
}

fn has_host_ports(spec: &PodSpec) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers.flat_map(|it| it.ports.iter().flatten()).any(|port| port.host_port.is_some())
}

/// The condition that an agent writes.
fn is_of_network(condition: &NodeCondition) -> bool {
    condition.type_ == "NetworkUnavailable"
}

/// Of a list nobody reads more than whether there is anything on it.
fn only_that_there_are(ingress: &mut Ingress) {
    if let Some(spec) = &mut ingress.spec {
        spec.rules.iter_mut().for_each(|all| all.truncate(1));
        spec.tls.iter_mut().for_each(|all| all.truncate(1));
    }
}
