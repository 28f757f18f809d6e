//! Which parts of an object are kept. All others are dropped as soon as it is read, to save memory: those of
//! Kubernetes' own objects where they get their types, those of others here.

use serde_json::{Map, Value, json};
use volvox_actors::{
    model::ApiObject,
    ports::{Object, ObjectKey, Reader, Resource},
};

/// What somebody reads of an object,
const PARTS: [&str; 5] = ["metadata", "security-labels", "spec", "specs", "status"];
/// of what every object has,
const METADATA: [&str; 4] = ["labels", "name", "namespace", "uid"];
/// of an identity,
const IDENTITY_METADATA: [&str; 2] = ["annotations", "name"];
/// of a pool,
const POOL_METADATA: [&str; 3] = ["annotations", "labels", "name"];
/// of what has an owner that counts, such as what this node keeps true,
const OWN_METADATA: [&str; 6] =
    ["annotations", "labels", "name", "namespace", "ownerReferences", "uid"];
/// of what an operator looks at,
const OPERATOR_METADATA: [&str; 6] =
    ["annotations", "name", "namespace", "ownerReferences", "resourceVersion", "uid"];
/// and of its annotations: that an identity is to go, and that a CiliumNode is to stay;
const OPERATOR_ANNOTATIONS: [&str; 3] = [HEARTBEAT, "cilium.io/do-not-gc", PREFIX_MARK];
/// that pods of a pool are not masqueraded,
const SKIP_MASQUERADE: &str = "ipam.cilium.io/skip-masquerade";
/// that an identity is to go,
const HEARTBEAT: &str = "io.cilium.heartbeat";
/// and which life of an agent looked first for prefixes of pools.
const PREFIX_MARK: &str = "volvox.io/prefixes-of";

/// As much of an object as is read; none if it has no name. Objects of a list do not say of what kind they are.
pub(super) fn object(resource: &Resource, text: &str) -> Result<Option<Object>, serde_json::Error> {
    let Resource { kind, api_version, .. } = resource;
    let mut read = ApiObject::of_server(kind, api_version, text, resource.readership())?;
    let Some((namespace, name)) = read.name() else {
        tracing::warn!(resource = resource.name, "an object without a name is left out");
        return Ok(None);
    };
    let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
    if let ApiObject::Json(Value::Object(object)) = &mut read {
        trim(resource, object);
    }
    Ok(Some(Object { key, value: read }))
}

/// The same of a list or of a watch, of which one object that cannot be read spoils nothing.
pub(super) fn one_of_many(resource: &Resource, text: &str) -> Option<Object> {
    object(resource, text).unwrap_or_else(|error| {
        let (resource, start) = (resource.name, text.chars().take(200).collect::<String>());
        tracing::warn!(resource, %error, start, "an object that cannot be read is left out");
        None
    })
}

/// Leaves out of an object that has no type what nobody reads.
fn trim(resource: &Resource, object: &mut Map<String, Value>) {
    match resource.reader {
        Reader::Operator => for_operator(resource, object),
        Reader::Agent => for_agent(resource, object),
    }
    object.insert("apiVersion".to_owned(), resource.api_version.into());
    object.insert("kind".to_owned(), resource.kind.into());
}

fn for_agent(resource: &Resource, object: &mut Map<String, Value>) {
    keep(object, &PARTS);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        match resource.kind {
            "CiliumNode" | "CiliumEndpoint" => keep(metadata, &OWN_METADATA),
            "CiliumIdentity" => keep(metadata, &IDENTITY_METADATA),
            "CiliumPodIPPool" => keep(metadata, &POOL_METADATA),
            _ => keep(metadata, &METADATA),
        }
        match (resource.kind, metadata.get_mut("annotations")) {
            ("CiliumIdentity", Some(Value::Object(annotations))) => keep(annotations, &[HEARTBEAT]),
            ("CiliumNode", Some(Value::Object(annotations))) => keep(annotations, &[PREFIX_MARK]),
            ("CiliumPodIPPool", Some(Value::Object(annotations))) => {
                keep(annotations, &[SKIP_MASQUERADE]);
            }
            _ => drop(metadata.remove("annotations")),
        }
    }
    if !["CiliumEndpoint", "CiliumIdentity"].contains(&resource.kind) {
        object.remove("status");
    }
}

/// As much as an operator reads: who it is, in which version, whose, and what is used by it.
fn for_operator(resource: &Resource, object: &mut Map<String, Value>) {
    let mut status = object.remove("status").unwrap_or_default();
    let mut spec = object.remove("spec").unwrap_or_default();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        keep(metadata, &OPERATOR_METADATA);
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => keep(annotations, &OPERATOR_ANNOTATIONS),
            _ => drop(metadata.remove("annotations")),
        }
    }
    keep(object, &["metadata"]);
    match resource.kind {
        "CiliumEndpoint" => {
            object.insert(
                "status".to_owned(),
                json!({ "identity": { "id": status["identity"]["id"] } }),
            );
        }
        "CiliumNode" => {
            let mut ipam = json!({ "ipam": { "podCIDRs": spec["ipam"]["podCIDRs"] } });
            if let Some(pools) = spec.pointer_mut("/ipam/pools") {
                ipam["ipam"]["pools"] = pools.take();
            }
            let error =
                json!({ "ipam": { "operator-status": status["ipam"]["operator-status"].take() } });
            object.insert("spec".to_owned(), ipam);
            object.insert("status".to_owned(), error);
        }
        "CiliumPodIPPool" => {
            object.insert("spec".to_owned(), spec.take());
        }
        _ => {}
    }
}

fn keep(map: &mut Map<String, Value>, names: &[&str]) {
    map.retain(|name, _| names.contains(&name.as_str()));
}
