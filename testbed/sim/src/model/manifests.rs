//! The objects that a cluster has of pods, policies, services and the node: as an API server serves them
//! and a directory of manifests holds them.

use serde_json::{Value, json};
use volvox_actors_simulated::model::{Frontend, L4Address};

use super::{
    NAMESPACE, RANKED_SOURCES,
    policies::App,
    service_members::Members,
    services::{Face, HEALTH_PORT, frontend, is_local},
};

/// The manifest of the node's own policy.
pub(crate) const HOST_POLICY: &str = "guard";
/// Who may reach the node.
pub(crate) const HOST_CLIENT: App = App::Web;

/// The manifest of a pod.
pub(crate) fn pod_document(name: &str, app: App) -> Value {
    let labels = if app == App::None { json!({}) } else { json!({ "app": app.name() }) };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels },
    })
}

/// One object for all policies of a source: they change together. Of those with an order a source has one.
pub(crate) fn policy_object(name: &str, policies: &[Value]) -> Value {
    let number = name.strip_prefix("policies-").and_then(|number| number.parse().ok());
    if number.is_some_and(|number: u8| RANKED_SOURCES.contains(&number)) {
        return json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": { "name": name },
            "spec": policies.first().map(|policy| &policy["spec"]),
        });
    }
    let specs: Vec<&Value> = policies.iter().map(|policy| &policy["spec"]).collect();
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "specs": specs,
    })
}

/// If a manifest is of the node's policy, of a service or of an Ingress, all objects that it may have.
pub(crate) fn all_objects(name: &str) -> Option<Vec<Value>> {
    host_policy(name).map(|object| vec![object]).or_else(|| service_objects(name))
}

/// If a manifest is of the node's policy, the object that it may have.
pub(crate) fn host_policy(name: &str) -> Option<Value> {
    (name == HOST_POLICY).then(|| {
        json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy",
            "metadata": { "name": HOST_POLICY },
            "spec": {
                "nodeSelector": {},
                "ingress": [{ "fromEndpoints": [{ "matchLabels": { "app": HOST_CLIENT.name() } }] }],
            },
        })
    })
}

/// If it is of a service or of an Ingress, all objects that it may have.
fn service_objects(name: &str) -> Option<Vec<Value>> {
    let (kind, number) = name.split_once('-')?;
    let number = number.parse().ok()?;
    match kind {
        "service" => Some(service_documents(number, Members::all()).to_vec()),
        "ingress" => Some(vec![ingress_document(number)]),
        _ => None,
    }
}

/// The objects of a service, and of who serves it, on two slices.
pub(crate) fn service_documents(number: u8, members: Members) -> [Value; 3] {
    let name = format!("service-{number}");
    let slice = |part: u8| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{part}"), "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4", "ports": [{ "port": 8080 }],
            "endpoints": members.endpoints(part),
        })
    };
    let Frontend { at: L4Address { address, port, .. }, .. } = frontend(number, Face::Service);
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "clusterIPs": [address], "ports": [{ "port": port }] },
    });
    if is_local(number) {
        service["spec"]["type"] = json!("LoadBalancer");
        service["spec"]["externalTrafficPolicy"] = json!("Local");
        service["spec"]["healthCheckNodePort"] = json!(HEALTH_PORT + u16::from(number));
    }
    [service, slice(0), slice(1)]
}

/// The object of an Ingress that leads to a service.
pub(crate) fn ingress_document(number: u8) -> Value {
    let port = frontend(number, Face::Ingress).at.port;
    let service = json!({ "name": format!("service-{number}"), "port": { "number": port } });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": format!("ingress-{number}"), "namespace": NAMESPACE },
        "spec": { "defaultBackend": { "service": service } },
    })
}
