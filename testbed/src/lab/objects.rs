//! Objects of the lab's cluster.

use std::net::{IpAddr, SocketAddr};

use super::ApiClient;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The namespace of all.
pub const NAMESPACE: &str = "shop";
/// Where its policies are.
pub const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies";
/// Where its policies of Cilium's kind are.
pub const CILIUM_POLICIES: &str = "/apis/cilium.io/v2/namespaces/shop/ciliumnetworkpolicies";

/// Where its policies in tiers are.
pub const RANKED_POLICIES: &str = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies";
/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A service of one port.
pub fn service(name: &str, at: SocketAddr, transport: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "clusterIPs": [at.ip()],
            "ports": [{ "port": at.port(), "protocol": transport }],
        },
    })
}

/// Backends of a service, all with that port.
pub fn slice(name: &str, of: &str, transport: &str, port: u16, backends: &[IpAddr]) -> Value {
    let kind = if backends.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": NAMESPACE, "name": name,
            "labels": { "kubernetes.io/service-name": of },
        },
        "addressType": kind,
        "ports": [{ "port": port, "protocol": transport }],
        "endpoints": backends.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
    })
}

/// A manifest of these.
pub fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

/// Makes the namespace.
pub fn namespace(client: &ApiClient) -> Result<()> {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    client.create("/api/v1/namespaces", &namespace)
}

/// Makes a pod that is called as its app, and scheduled to that node; its UID.
pub fn pod(client: &ApiClient, app: &str, node: &str) -> Result<String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": app, "namespace": NAMESPACE, "labels": { "app": app } },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "lab" }] },
    });
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    client.create(&pods, &pod)?;
    let made = client.get(&format!("{pods}/{app}"))?;
    Ok(made["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// Makes a node from which pods are kept away until its agent is ready.
pub fn node(client: &ApiClient, name: &str) -> Result<()> {
    let taint = json!({ "key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule" });
    let other = json!({ "key": "example.com/mine", "effect": "NoSchedule" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "spec": { "podCIDR": "10.44.0.0/24", "podCIDRs": ["10.44.0.0/24"], "taints": [taint, other] },
    });
    client.create("/api/v1/nodes", &node)
}

/// Who reaches `web`.
fn from(apps: &[&str]) -> Value {
    let peer = |app: &&str| json!({ "podSelector": { "matchLabels": { "app": app } } });
    json!([{ "from": apps.iter().map(peer).collect::<Vec<_>>() }])
}

/// Lets only these reach `web`.
pub fn policy(client: &ApiClient, apps: &[&str]) -> Result<()> {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": { "app": "web" } },
            "policyTypes": ["Ingress"],
            "ingress": from(apps),
        },
    });
    client.create(POLICIES, &policy)
}

/// Lets only these reach `web` from now on.
pub fn change_policy(client: &ApiClient, apps: &[&str]) -> Result<()> {
    let path = format!("{POLICIES}/web");
    client.patch(&path, &json!({ "spec": { "ingress": from(apps) } }))
}

/// Has Cilium's policies defined, with a schema that takes everything.
pub fn define(client: &ApiClient, plural: &str, kind: &str, scope: &str) -> Result<()> {
    client.create(DEFINITIONS, &definition("cilium.io", "v2", [plural, kind, scope]))
}

/// Has ClusterNetworkPolicy defined, with a schema that takes everything.
pub fn define_ranked(client: &ApiClient) -> Result<()> {
    let names = ["clusternetworkpolicies", "ClusterNetworkPolicy", "Cluster"];
    let mut definition = definition("policy.networking.k8s.io", "v1alpha2", names);
    // A server takes no definition of Kubernetes' own groups that does not say who approved it.
    definition["metadata"]["annotations"] =
        json!({ "api-approved.kubernetes.io": "unapproved, for a test" });
    client.create(DEFINITIONS, &definition)
}

/// In which version a server has EndpointSlices.
pub fn discovery(client: &ApiClient) -> Result<String> {
    let versions = ["v1", "v1beta1"].into_iter();
    let mut served =
        versions.filter(|version| client.get(&format!("/apis/discovery.k8s.io/{version}")).is_ok());
    Ok(served.next().context("the server has no EndpointSlices")?.to_owned())
}

fn definition(group: &str, version: &str, [plural, kind, scope]: [&str; 3]) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": scope,
            "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// A ClusterNetworkPolicy for every pod, with these rules as members of its `spec`.
pub fn ranked_policy(name: &str, tier: &str, priority: u16, rules: Value) -> Value {
    let mut spec = rules;
    spec["tier"] = json!(tier);
    spec["priority"] = json!(priority);
    spec["subject"] = json!({ "namespaces": {} });
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// A policy of Cilium's kind that denies `web` what that app sends.
pub fn denial(app: &str) -> Value {
    let selected = json!({ "matchLabels": { "app": app } });
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "denied", "namespace": NAMESPACE },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "web" } },
            "enableDefaultDeny": { "ingress": false },
            "ingressDeny": [{ "fromEndpoints": [selected] }],
        },
    })
}
