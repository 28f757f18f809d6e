//! Samples for tests and the simulator: pods, nodes and policies.

use serde_json::{Value, json};

use crate::{
    endpoints::endpoint::EndpointSpec,
    model::{Addresses, Mac},
    ports::Link,
};

/// The host-side interface of the pod of that number.
pub fn link(number: u8) -> Link {
    let spec = spec(number);
    Link { ifindex: spec.ifindex, name: spec.ifname, mac: spec.node_mac, ..Link::default() }
}

/// What CNI says of the pod of that number: `ns/pod-<number>` at 10.0.0.`<number>`.
pub fn spec(number: u8) -> EndpointSpec {
    EndpointSpec {
        container_id: format!("{number:064x}"),
        container_ifname: "eth0".to_owned(),
        ifname: format!("lxc{number:04}"),
        ifindex: 100 + u32::from(number),
        mac: Mac([2, 0, 0, 0, 0, number]),
        node_mac: Mac([2, 0, 0, 0, 1, number]),
        addresses: Addresses {
            ipv4: format!("10.0.0.{number}").parse().ok(),
            ipv6: format!("fd00::{number:x}").parse().ok(),
        },
        namespace: "ns".to_owned(),
        pod_name: format!("pod-{number}"),
        pod_uid: format!("uid-{number}"),
        ..EndpointSpec::default()
    }
}

/// The manifest of the pod of that number, with the label `app`.
pub fn pod(number: u8, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("pod-{number}"), "namespace": "ns", "labels": { "app": app } },
    })
}

/// The manifest of this node, with that role as a label.
pub fn node(role: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "here", "labels": { "role": role } },
    })
}

/// A policy: nodes of that role get packets from these peers, and from nobody else.
pub fn allow_to_nodes(role: &str, ingress: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy",
        "metadata": { "name": format!("nodes-{role}") },
        "spec": { "nodeSelector": { "matchLabels": { "role": role } }, "ingress": [ingress] },
    })
}

/// The same of a pod that calls that port of its own `http`.
pub fn with_http(number: u8, app: &str, port: u16) -> Value {
    let mut pod = pod(number, app);
    let ports = json!([{ "name": "http", "containerPort": port }]);
    pod["spec"] = json!({ "containers": [{ "name": "main", "ports": ports }] });
    pod
}

/// A policy: `app` gets packets from these peers, and from nobody else.
pub fn allow_from(app: &str, ingress: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": format!("for-{app}"), "namespace": "ns" },
        "spec": { "endpointSelector": { "matchLabels": { "app": app } }, "ingress": [ingress] },
    })
}

/// A policy: `app` may send to port `http` of pods of `to`, and nothing else.
pub fn to_http(app: &str, to: &str) -> Value {
    let ports = json!([{ "ports": [{ "port": "http", "protocol": "TCP" }] }]);
    let to = json!([{ "matchLabels": { "app": to } }]);
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": format!("from-{app}"), "namespace": "ns" },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": app } },
            "egress": [{ "toEndpoints": to, "toPorts": ports }],
        },
    })
}
