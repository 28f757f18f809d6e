//! Reads pods, namespaces and nodes of manifests or of the API server. An object that cannot be read keeps its
//! last good version.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{error::ObjectError, pools::PoolAnnotations, ports::ports};
use crate::model::{ApiObject, MalformedObject, NamedPorts};

/// Longest key and value of a label that Kubernetes allows, in bytes.
const KEY_BYTES_MAX: usize = 317;
const VALUE_BYTES_MAX: usize = 63;

/// Namespace and name of a pod.
pub(super) type PodName = (String, String);

/// What is looked at of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) account: String,
    pub(super) named_ports: NamedPorts,
    pub(super) pools: PoolAnnotations,
}

/// The objects of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WorkloadObjects {
    pub(super) pods: BTreeMap<PodName, Pod>,
    pub(super) namespaces: Labelled,
    /// What namespaces say of pools, where they say something.
    pub(super) namespace_pools: BTreeMap<String, PoolAnnotations>,
    /// Labels of nodes.
    pub(super) nodes: Labelled,
}

impl WorkloadObjects {
    /// Takes in an object, or the objects of a list. Kinds that are not looked at are skipped; of
    /// one that cannot be used the version in `before` stays.
    pub(super) fn take(
        &mut self,
        object: &ApiObject,
        before: &Self,
        errors: &mut Vec<ObjectError>,
    ) {
        let read = match object {
            ApiObject::Pod(pod) => self.take_pod(pod, before),
            ApiObject::Namespace(namespace) => {
                self.take_pools(&namespace.metadata);
                take_labels(
                    "Namespace",
                    &namespace.metadata,
                    &mut self.namespaces,
                    &before.namespaces,
                )
            }
            ApiObject::Node(node) => {
                take_labels("Node", &node.metadata, &mut self.nodes, &before.nodes)
            }
            ApiObject::List(items) => {
                items.iter().for_each(|item| self.take(item, before, errors));
                Ok(())
            }
            ApiObject::Malformed(of) => self.keep(of, object.name(), before),
            _ => Ok(()),
        };
        errors.extend(read.err());
    }

    /// Keeps what an object was before that cannot be read.
    fn keep(
        &mut self,
        object: &MalformedObject,
        named: Option<(&str, &str)>,
        before: &Self,
    ) -> Result<(), ObjectError> {
        if !["Pod", "Namespace", "Node"].contains(&object.kind) {
            return Ok(());
        }
        if let Some((namespace, name)) = named {
            match object.kind {
                "Pod" => self.pods.extend(stays(&before.pods, &pod_name(namespace, name))),
                "Namespace" => {
                    self.namespaces.extend(stays(&before.namespaces, &name.to_owned()));
                    let pools = stays(&before.namespace_pools, &name.to_owned());
                    self.namespace_pools.extend(pools);
                }
                _ => self.nodes.extend(stays(&before.nodes, &name.to_owned())),
            }
        }
        Err(ObjectError::Malformed { why: object.to_string() })
    }

    fn take_pools(&mut self, namespace: &ObjectMeta) {
        let pools = PoolAnnotations::of(namespace.annotations.as_ref());
        if let Some(name) = namespace.name.as_ref().filter(|_| !pools.is_empty()) {
            self.namespace_pools.insert(name.clone(), pools);
        }
    }

    fn take_pod(&mut self, said: &api::Pod, before: &Self) -> Result<(), ObjectError> {
        let namespace = said.metadata.namespace.as_deref().unwrap_or_default();
        let pod_name = pod_name(namespace, name("Pod", &said.metadata)?);
        let object = format!("Pod {}/{}", pod_name.0, pod_name.1);
        match pod(&object, said) {
            Ok(pod) => {
                self.pods.insert(pod_name, pod);
                Ok(())
            }
            Err(error) => {
                self.pods.extend(stays(&before.pods, &pod_name));
                Err(error)
            }
        }
    }
}

/// What something was before.
fn stays<K: Ord + Clone, V: Clone>(before: &BTreeMap<K, V>, of: &K) -> Option<(K, V)> {
    before.get_key_value(of).map(|(key, value)| (key.clone(), value.clone()))
}

fn pod_name(namespace: &str, name: &str) -> PodName {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    (namespace.to_owned(), name.to_owned())
}

/// Labels by the name of what has them.
type Labelled = BTreeMap<String, BTreeMap<String, String>>;

/// Takes in an object of which only its labels count.
fn take_labels(
    kind: &str,
    metadata: &ObjectMeta,
    into: &mut Labelled,
    before: &Labelled,
) -> Result<(), ObjectError> {
    let name = name(kind, metadata)?.to_owned();
    match labels(&format!("{kind} {name}"), metadata) {
        Ok(labels) => {
            into.insert(name, labels);
            Ok(())
        }
        Err(error) => {
            into.extend(stays(before, &name));
            Err(error)
        }
    }
}

fn name<'a>(kind: &str, metadata: &'a ObjectMeta) -> Result<&'a str, ObjectError> {
    let name = metadata.name.as_deref().filter(|name| !name.is_empty());
    name.ok_or_else(|| ObjectError::NoName { kind: kind.to_owned() })
}

fn pod(object: &str, pod: &api::Pod) -> Result<Pod, ObjectError> {
    let spec = pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.as_deref());
    let account = text(object, "spec.serviceAccountName", account)?.unwrap_or("default");
    let uid = text(object, "metadata.uid", pod.metadata.uid.as_deref())?.unwrap_or_default();
    Ok(Pod {
        uid: uid.to_owned(),
        labels: labels(object, &pod.metadata)?,
        account: account.to_owned(),
        named_ports: spec.map(|spec| ports(object, spec)).transpose()?.unwrap_or_default(),
        pools: PoolAnnotations::of(pod.metadata.annotations.as_ref()),
    })
}

/// A text that may be absent; an empty one is.
fn text<'a>(
    object: &str,
    field: &str,
    said: Option<&'a str>,
) -> Result<Option<&'a str>, ObjectError> {
    match said.filter(|text| !text.is_empty()) {
        Some(text) if text.len() > 253 => Err(ObjectError::Field {
            object: object.to_owned(),
            field: field.to_owned(),
            desired: "a text of at most 253 bytes",
        }),
        text => Ok(text),
    }
}

fn labels(object: &str, metadata: &ObjectMeta) -> Result<BTreeMap<String, String>, ObjectError> {
    let wrong = |field: &str, desired| ObjectError::Field {
        object: object.to_owned(),
        field: format!("metadata.labels{field}"),
        desired,
    };
    let all = metadata.labels.iter().flatten();
    for (key, value) in all.clone() {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(wrong("", "free of keys that are empty or over 317 bytes"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(wrong(&format!("[{key:?}]"), "a text of at most 63 bytes"));
        }
    }
    Ok(all.map(|(key, value)| (key.clone(), value.clone())).collect())
}
