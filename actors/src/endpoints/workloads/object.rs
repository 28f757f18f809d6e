//! Reads pods, namespaces and nodes from the JSON of manifests or of the API server. An object that
//! cannot be read keeps its last good version.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{error::ObjectError, pools::PoolAnnotations, ports::ports};
use crate::model::NamedPorts;

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
    pub(super) fn take(&mut self, value: &Value, before: &Self, errors: &mut Vec<ObjectError>) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let read = match kind {
            "Pod" => self.take_pod(value, before),
            "Namespace" => {
                self.take_pools(value);
                take_labels(kind, value, &mut self.namespaces, &before.namespaces)
            }
            "Node" => take_labels(kind, value, &mut self.nodes, &before.nodes),
            "List" | "PodList" | "NamespaceList" | "NodeList" => {
                let items = value.get("items").and_then(Value::as_array);
                items.into_iter().flatten().for_each(|item| self.take(item, before, errors));
                Ok(())
            }
            _ => Ok(()),
        };
        errors.extend(read.err());
    }

    fn take_pools(&mut self, namespace: &Value) {
        let pools = PoolAnnotations::of(namespace);
        if let Some(name) = namespace["metadata"]["name"].as_str().filter(|_| !pools.is_empty()) {
            self.namespace_pools.insert(name.to_owned(), pools);
        }
    }

    fn take_pod(&mut self, value: &Value, before: &Self) -> Result<(), ObjectError> {
        let pod_name = (namespace(value)?, name("Pod", value)?);
        let object = format!("Pod {}/{}", pod_name.0, pod_name.1);
        match pod(&object, value) {
            Ok(pod) => {
                self.pods.insert(pod_name, pod);
                Ok(())
            }
            Err(error) => {
                let state = before.pods.get_key_value(&pod_name);
                self.pods.extend(state.map(|(name, pod)| (name.clone(), pod.clone())));
                Err(error)
            }
        }
    }
}

/// Labels by the name of what has them.
type Labelled = BTreeMap<String, BTreeMap<String, String>>;

/// Takes in an object of which only its labels count.
fn take_labels(
    kind: &str,
    value: &Value,
    into: &mut Labelled,
    before: &Labelled,
) -> Result<(), ObjectError> {
    let name = name(kind, value)?;
    match labels(&format!("{kind} {name}"), value) {
        Ok(labels) => {
            into.insert(name, labels);
            Ok(())
        }
        Err(error) => {
            let state = before.get_key_value(&name);
            into.extend(state.map(|(name, labels)| (name.clone(), labels.clone())));
            Err(error)
        }
    }
}

fn name(kind: &str, value: &Value) -> Result<String, ObjectError> {
    let name = value.pointer("/metadata/name").and_then(Value::as_str);
    match name {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(ObjectError::NoName { kind: kind.to_owned() }),
    }
}

fn namespace(value: &Value) -> Result<String, ObjectError> {
    let object = || format!("Pod {}", value.pointer("/metadata/name").unwrap_or(&Value::Null));
    let namespace = text(value, "/metadata/namespace", object)?;
    Ok(namespace.unwrap_or("default").to_owned())
}

fn pod(object: &str, value: &Value) -> Result<Pod, ObjectError> {
    let account = text(value, "/spec/serviceAccountName", || object.to_owned())?;
    let account = account.unwrap_or("default").to_owned();
    let uid = text(value, "/metadata/uid", || object.to_owned())?.unwrap_or_default().to_owned();
    Ok(Pod {
        uid,
        labels: labels(object, value)?,
        account,
        named_ports: ports(object, value)?,
        pools: PoolAnnotations::of(value),
    })
}

/// A text that may be absent; an empty one is.
fn text<'a>(
    value: &'a Value,
    pointer: &str,
    object: impl Fn() -> String,
) -> Result<Option<&'a str>, ObjectError> {
    let desired = "a text of at most 253 bytes";
    let field = || pointer[1..].replace('/', ".");
    match value.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= 253 => {
            Ok(Some(text.as_str()).filter(|text| !text.is_empty()))
        }
        Some(_) => Err(ObjectError::Field { object: object(), field: field(), desired }),
    }
}

fn labels(object: &str, value: &Value) -> Result<BTreeMap<String, String>, ObjectError> {
    let wrong = |field: &str, desired| ObjectError::Field {
        object: object.to_owned(),
        field: format!("metadata.labels{field}"),
        desired,
    };
    let all = match value.pointer("/metadata/labels") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(all)) => all,
        Some(_) => return Err(wrong("", "a map of texts")),
    };
    let mut labels = BTreeMap::new();
    for (key, value) in all {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(wrong("", "free of keys that are empty or over 317 bytes"));
        }
        match value {
            Value::String(text) if text.len() <= VALUE_BYTES_MAX => {
                labels.insert(key.clone(), text.clone());
            }
            _ => return Err(wrong(&format!("[{key:?}]"), "a text of at most 63 bytes")),
        }
    }
    Ok(labels)
}
