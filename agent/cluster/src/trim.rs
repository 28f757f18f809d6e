//! Which parts of an object are kept. All others are dropped as soon as it is parsed, to save
//! memory.

use serde_json::{Map, Value, json};
use volvox_actors::ports::{Object, ObjectKey, Reader, Resource};

/// What somebody reads of an object,
const PARTS: [&str; 9] = [
    "addressType",
    "endpoints",
    "metadata",
    "ports",
    "security-labels",
    "spec",
    "specs",
    "status",
    "subsets",
];
/// of what every object has,
const METADATA: [&str; 4] = ["labels", "name", "namespace", "uid"];
/// of a service, a pod and a namespace,
const SERVICE_METADATA: [&str; 5] = ["annotations", "labels", "name", "namespace", "uid"];
/// of an identity,
const IDENTITY_METADATA: [&str; 2] = ["annotations", "name"];
/// of what has an owner that counts, such as what this node keeps true,
const OWN_METADATA: [&str; 6] =
    ["annotations", "labels", "name", "namespace", "ownerReferences", "uid"];
/// of what an operator looks at,
const OPERATOR_METADATA: [&str; 6] =
    ["annotations", "name", "namespace", "ownerReferences", "resourceVersion", "uid"];
/// of pods that are chosen by their labels also this,
const CHOSEN_METADATA: [&str; 2] = ["deletionTimestamp", "labels"];
/// and of its annotations: that an identity is to go, that a CiliumNode is to stay, and what the Lease
/// says of prefixes;
const OPERATOR_ANNOTATIONS: [&str; 4] =
    ["io.cilium.heartbeat", "cilium.io/do-not-gc", "volvox.io/prefixes", PREFIX_MARK];
/// which life of an agent looked first for prefixes of pools;
const PREFIX_MARK: &str = "volvox.io/prefixes-of";
/// of annotations of pods and namespaces, of which pool addresses are;
const POOL_ANNOTATIONS: &str = "ipam.cilium.io/";
/// of a Node,
const NODE: [&str; 3] = ["podCIDR", "podCIDRs", "taints"];
/// of its annotations, and those of an identity,
const ANNOTATIONS: [&str; 3] = ["network.cilium.io/", "io.cilium.network.", "io.cilium.heartbeat"];
/// and of its conditions, of which most tell the time;
const CONDITION: [&str; 3] = ["reason", "status", "type"];
/// of a pod,
const POD: [&str; 3] = ["containers", "initContainers", "serviceAccountName"];
/// of its containers,
const CONTAINER: [&str; 3] = ["name", "ports", "restartPolicy"];
/// of one that wants ports of its node also this, which changes more often,
const HOST_PORT_POD: [&str; 2] = ["hostNetwork", "nodeName"];
const HOST_PORT_STATUS: [&str; 3] = ["phase", "podIP", "podIPs"];
/// of a service,
const SERVICE: [&str; 12] = [
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "loadBalancerSourceRanges",
    "ports",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "type",
];
/// of its annotations,
const SERVICE_ANNOTATIONS: [&str; 2] = ["service.cilium.io/", "io.cilium/"];
/// of its ports and those of who serves it,
const PORT: [&str; 4] = ["name", "nodePort", "port", "protocol"];
/// of an endpoint of an EndpointSlice, which of older ones has its node elsewhere,
const ENDPOINT: [&str; 5] = ["addresses", "conditions", "hints", "nodeName", "topology"];
/// of an address of Endpoints,
const ADDRESS: [&str; 2] = ["ip", "nodeName"];
/// of an Ingress,
const INGRESS: [&str; 5] = ["backend", "defaultBackend", "ingressClassName", "rules", "tls"];
/// and of its annotations.
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Which object it is; `None` if it does not say so.
pub(super) fn key(value: &Value) -> Option<ObjectKey> {
    let text = |name| value.get("metadata")?.get(name)?.as_str();
    let name = text("name").filter(|name| !name.is_empty())?.to_owned();
    Some(ObjectKey { namespace: text("namespace").unwrap_or_default().to_owned(), name })
}

/// As much of an object as is read. Objects of a list do not say of what kind they are.
pub(super) fn object(resource: &Resource, mut value: Value) -> Option<Object> {
    let Some(key) = key(&value) else {
        tracing::warn!(resource = resource.name, "an object without a name is left out");
        return None;
    };
    let object = value.as_object_mut()?;
    if resource.reader == Reader::Operator {
        return Some(Object { key, value: for_operator(resource, object) });
    }
    keep(object, &PARTS);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        match resource.kind {
            "Node" | "CiliumNode" | "CiliumEndpoint" | "EndpointSlice" => {
                keep(metadata, &OWN_METADATA);
            }
            "CiliumIdentity" => keep(metadata, &IDENTITY_METADATA),
            "Service" | "Ingress" | "Pod" | "Namespace" => keep(metadata, &SERVICE_METADATA),
            _ => keep(metadata, &METADATA),
        }
        match (resource.kind, metadata.get_mut("annotations")) {
            ("Node" | "CiliumIdentity", Some(Value::Object(annotations))) => {
                annotations.retain(|name, _| ANNOTATIONS.iter().any(|it| name.starts_with(it)));
            }
            ("CiliumNode", Some(Value::Object(annotations))) => keep(annotations, &[PREFIX_MARK]),
            ("Pod" | "Namespace", Some(Value::Object(annotations))) => {
                annotations.retain(|name, _| name.starts_with(POOL_ANNOTATIONS));
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
            ("Service", Some(Value::Object(annotations))) => {
                annotations
                    .retain(|name, _| SERVICE_ANNOTATIONS.iter().any(|it| name.starts_with(it)));
            }
            ("Ingress", Some(Value::Object(annotations))) => {
                keep(annotations, &[INGRESS_ANNOTATION]);
            }
            _ => drop(metadata.remove("annotations")),
        }
    }
    parts(resource.kind, object);
    object.insert("apiVersion".to_owned(), resource.api_version.into());
    object.insert("kind".to_owned(), resource.kind.into());
    Some(Object { key, value })
}

/// Of each kind, what of its parts is read.
fn parts(kind: &str, object: &mut Map<String, Value>) {
    match kind {
        "Node" => node(object),
        "CiliumIdentity" => {}
        "CiliumEndpoint" => {}
        "Namespace" => keep(object, &["metadata"]),
        "Service" => {
            keep(object, &["metadata", "spec", "status"]);
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                keep(spec, &SERVICE);
                members(spec.get_mut("ports")).for_each(|it| keep(it, &PORT));
            }
            if let Some(Value::Object(status)) = object.get_mut("status") {
                keep(status, &["loadBalancer"]);
            }
        }
        "EndpointSlice" => {
            keep(object, &["addressType", "endpoints", "metadata", "ports"]);
            members(object.get_mut("ports")).for_each(|it| keep(it, &PORT));
            members(object.get_mut("endpoints")).for_each(|it| keep(it, &ENDPOINT));
        }
        "Ingress" => {
            keep(object, &["metadata", "spec"]);
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                keep(spec, &INGRESS);
                ["rules", "tls"].iter().for_each(|name| only_that_there_are(spec.get_mut(*name)));
            }
        }
        "Endpoints" => {
            keep(object, &["metadata", "subsets"]);
            for subset in members(object.get_mut("subsets")) {
                keep(subset, &["addresses", "ports"]);
                members(subset.get_mut("ports")).for_each(|it| keep(it, &PORT));
                members(subset.get_mut("addresses")).for_each(|it| keep(it, &ADDRESS));
            }
        }
        "Pod" => {
            let has_host_ports = has_host_ports(object.get("spec"));
            match object.get_mut("status") {
                Some(Value::Object(status)) if has_host_ports => keep(status, &HOST_PORT_STATUS),
                _ => drop(object.remove("status")),
            }
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                spec.retain(|name, _| {
                    let is_of = |names: &[&str]| names.contains(&name.as_str());
                    is_of(&POD) || has_host_ports && is_of(&HOST_PORT_POD)
                });
                let lists = spec.values_mut().filter_map(Value::as_array_mut);
                lists
                    .flatten()
                    .filter_map(Value::as_object_mut)
                    .for_each(|it| keep(it, &CONTAINER));
            }
        }
        _ => drop(object.remove("status")),
    }
}

/// As much as an operator reads: who it is, in which version, whose, and what is used by it.
fn for_operator(resource: &Resource, object: &mut Map<String, Value>) -> Value {
    let mut status = object.remove("status").unwrap_or_default();
    let mut spec = object.remove("spec").unwrap_or_default();
    let is_chosen = resource.labels.is_some();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|name, _| {
            let is_of = |names: &[&str]| names.contains(&name.as_str());
            is_of(&OPERATOR_METADATA) || is_chosen && is_of(&CHOSEN_METADATA)
        });
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) if resource.kind != "Pod" => {
                annotations.retain(|name, _| OPERATOR_ANNOTATIONS.iter().any(|it| name == it));
            }
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
        "Pod" if is_chosen => {
            let ready = one_condition(&mut status, "Ready");
            object.insert("spec".to_owned(), json!({ "nodeName": spec["nodeName"].take() }));
            object.insert("status".to_owned(), json!({ "conditions": ready }));
        }
        "Pod" => {
            object.insert("status".to_owned(), json!({ "phase": status["phase"].take() }));
        }
        "Node" => {
            let network = one_condition(&mut status, "NetworkUnavailable");
            object.insert("spec".to_owned(), json!({ "taints": spec["taints"].take() }));
            object.insert("status".to_owned(), json!({ "conditions": network }));
        }
        "Lease" | "CiliumPodIPPool" => {
            object.insert("spec".to_owned(), spec.take());
        }
        _ => {}
    }
    object.insert("apiVersion".to_owned(), resource.api_version.into());
    object.insert("kind".to_owned(), resource.kind.into());
    Value::Object(std::mem::take(object))
}

/// Whether a pod of this `spec` wants ports of its node.
fn has_host_ports(spec: Option<&Value>) -> bool {
    fn all<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        of.get(name).and_then(Value::as_array).into_iter().flatten()
    }
    let containers = spec.into_iter().flat_map(|it| POD.iter().flat_map(|name| all(it, name)));
    let mut ports = containers.flat_map(|it| all(it, "ports"));
    ports.any(|port| port.get("hostPort").is_some())
}

/// The conditions of one type, of which most tell the time.
fn one_condition(status: &mut Value, named: &str) -> Vec<Value> {
    match status["conditions"].take() {
        Value::Array(mut conditions) => {
            keep_condition(&mut conditions, named);
            conditions
        }
        _ => Vec::new(),
    }
}

fn keep_condition(conditions: &mut Vec<Value>, named: &str) {
    conditions.retain(|condition| condition["type"] == named);
    let all = conditions.iter_mut().filter_map(Value::as_object_mut);
    all.for_each(|condition| keep(condition, &CONDITION));
}

/// The condition and the taint that an agent writes, and the addresses.
fn node(object: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        keep(spec, &NODE);
    }
    let Some(Value::Object(status)) = object.get_mut("status") else { return };
    keep(status, &["addresses", "conditions"]);
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        keep_condition(conditions, "NetworkUnavailable");
    }
}

/// Of a list nobody reads more than whether there is anything on it.
fn only_that_there_are(list: Option<&mut Value>) {
    if let Some(Value::Array(list)) = list {
        list.truncate(1);
        list.iter_mut().for_each(|one| *one = Value::Object(Map::new()));
    }
}

/// The objects of a list.
fn members(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn keep(map: &mut Map<String, Value>, names: &[&str]) {
    map.retain(|name, _| names.contains(&name.as_str()));
}
