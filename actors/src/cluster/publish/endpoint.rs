//! What the CiliumEndpoint of a pod is to say.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::{difference::differing, node::DesiredNodeObject};
use crate::{
    cluster::kvstore::named_ports,
    endpoints::{endpoint::EndpointView, workloads},
    ports::Verb,
};

/// What is wrong with a pod's CiliumEndpoint. One of an earlier pod of that name goes first.
pub(super) fn desired(
    view: &EndpointView,
    address: IpAddr,
    there: Option<&Value>,
) -> Option<DesiredNodeObject> {
    let what = document(view, address);
    let Some(there) = there else {
        return Some(DesiredNodeObject {
            verb: Verb::Create(what.clone()),
            what,
            there: Value::Null,
        });
    };
    if owner(there) != Some(view.spec.pod_uid.as_str()) {
        return removal(there).filter(|_| is_of(there, address));
    }
    let mut patch = Map::new();
    let labels = there["metadata"].get("labels").cloned().unwrap_or_else(|| json!({}));
    if let Some(labels) = differing(&labels, &what["metadata"]["labels"]) {
        patch.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    if let Some(status) = differing(&there["status"], &what["status"]) {
        patch.insert("status".to_owned(), status);
    }
    let verb = Verb::Merge(Value::Object(patch.clone()));
    (!patch.is_empty()).then(|| DesiredNodeObject { what, there: there.clone(), verb })
}

/// That it goes, if nobody made another one meanwhile.
pub(super) fn removal(there: &Value) -> Option<DesiredNodeObject> {
    let uid = there["metadata"]["uid"].as_str()?.to_owned();
    Some(DesiredNodeObject {
        what: Value::Null,
        there: there.clone(),
        verb: Verb::Delete { uid, version: None },
    })
}

/// Whether it is of the node of that address.
pub(super) fn is_of(there: &Value, address: IpAddr) -> bool {
    let node = there["status"]["networking"]["node"].as_str();
    node.and_then(|text| text.parse().ok()) == Some(address)
}

/// UID of the pod that it belongs to.
pub(super) fn owner(there: &Value) -> Option<&str> {
    let owners = there["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["kind"] == "Pod")?["uid"].as_str()
}

/// As much as is looked at of what belongs to others.
pub(super) fn trimmed(there: Value) -> Value {
    json!({
        "metadata": {
            "uid": there["metadata"]["uid"],
            "ownerReferences": there["metadata"]["ownerReferences"],
        },
        "status": { "networking": { "node": there["status"]["networking"]["node"] } },
    })
}

/// Member for member what Cilium's agent writes; a state is told only when it is in force.
fn document(view: &EndpointView, address: IpAddr) -> Value {
    let spec = &view.spec;
    let labels = view.identity_labels.iter().chain(view.info_labels.iter());
    let labels: Map<String, Value> = labels
        .filter(|label| label.source == "k8s" && !workloads::is_given_by_the_cluster(&label.key))
        .map(|label| (label.key.clone(), label.value.clone().into()))
        .collect();
    let mut addressing = Map::new();
    if let Some(ipv4) = spec.addresses.ipv4 {
        addressing.insert("ipv4".to_owned(), json!(ipv4));
    }
    if let Some(ipv6) = spec.addresses.ipv6 {
        addressing.insert("ipv6".to_owned(), json!(ipv6));
    }
    let mut status = json!({
        "encryption": {},
        "external-identifiers": {
            "cni-attachment-id": spec.attachment_id(),
            "container-id": spec.container_id,
            "k8s-namespace": spec.namespace,
            "k8s-pod-name": spec.pod_name,
            "pod-name": format!("{}/{}", spec.namespace, spec.pod_name),
        },
        "id": view.id,
        "identity": { "id": view.identity, "labels": view.identity_labels.to_texts() },
        "networking": { "addressing": [addressing], "node": address },
        "state": "ready",
    });
    let ports = named_ports(&spec.named_ports);
    if !ports.is_empty() {
        let port = |port: crate::cluster::kvstore::PortPair| json!({ "name": port.name, "port": port.port, "protocol": port.protocol });
        status["named-ports"] = ports.into_iter().map(port).collect();
    }
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint",
        "metadata": {
            "name": spec.pod_name, "namespace": spec.namespace, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": spec.pod_name, "uid": spec.pod_uid,
            }],
        },
        "status": status,
    })
}
