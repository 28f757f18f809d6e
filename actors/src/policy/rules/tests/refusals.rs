//! Tests: a wrong document is refused, and the error names the field and the remedy.

use crate::policy::rules::PolicySettings;
use serde_json::{Value, json};

use crate::policy::rules::parse;

/// The one line that a document is refused with.
fn refusal(document: &Value) -> String {
    let read = parse("web.yaml", &document.clone().into(), &PolicySettings::default());
    let [Err(refused)] = read.as_slice() else { panic!("accepted: {document}") };
    refused.error.to_string()
}

fn cnp(spec: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": spec,
    })
}

fn ingress(rule: Value) -> Value {
    cnp(json!({ "endpointSelector": {}, "ingress": [rule] }))
}

fn network_policy(rule: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": "web" },
        "spec": { "podSelector": {}, "ingress": [rule] },
    })
}

#[test]
fn an_error_names_file_object_field_and_remedy() {
    let document = ingress(json!({ "toPorts": [{ "ports": [{ "port": "70000" }] }] }));
    assert_eq!(
        refusal(&document),
        "web.yaml: CiliumNetworkPolicy shop/web: spec.ingress[0].toPorts[0].ports[0].port: \
         \"70000\" is no port; write 0 to 65535, or a port's name"
    );
    assert_eq!(
        refusal(&json!("rubbish")),
        "web.yaml: text where a mapping is expected; write a mapping"
    );
}

#[test]
fn what_cannot_be_meant_is_refused_where_it_stands() {
    let ports = |port: Value| ingress(json!({ "toPorts": [{ "ports": [port] }] }));
    let selector = |value: Value| ingress(json!({ "fromEndpoints": [value] }));
    let cases = [
        (json!({ "kind": "Deployment", "metadata": {} }), "kind: unknown kind \"Deployment\""),
        (json!({ "metadata": { "name": "x" } }), "kind: field \"kind\" is missing"),
        (cnp(json!({ "ingress": [] })), "spec: the rule selects nobody"),
        (
            cnp(json!({ "endpointSelector": {}, "nodeSelector": {} })),
            "spec.nodeSelector: a rule is for endpoints or for nodes",
        ),
        (
            cnp(json!({ "nodeSelector": {} })),
            "spec.nodeSelector: a policy of a namespace cannot select nodes",
        ),
        (
            cnp(json!({ "endpointSelector": {}, "ingres": [] })),
            "spec.ingres: unknown field \"ingres\"",
        ),
        (
            cnp(json!({ "endpointSelector": { "matchLabels": {
                "k8s:io.kubernetes.pod.namespace": "bank" } } })),
            "spec.endpointSelector: a policy of namespace \"shop\" cannot select pods of \"bank\"",
        ),
        (
            ingress(json!({ "fromEndpoint": [] })),
            "spec.ingress[0].fromEndpoint: unknown field \"fromEndpoint\"",
        ),
        (
            ingress(json!({ "fromEndpoints": [{}], "fromCIDR": ["10.0.0.0/8"] })),
            "spec.ingress[0].fromCIDR: fromEndpoints and fromCIDR in one rule",
        ),
        (
            ingress(json!({ "fromRequires": [{}] })),
            "spec.ingress[0].fromRequires: fromRequires is not supported",
        ),
        (
            ingress(json!({ "fromEntities": ["moon"] })),
            "spec.ingress[0].fromEntities[0]: unknown entity \"moon\"",
        ),
        (
            ingress(json!({ "fromCIDR": ["10.0.0.0/33"] })),
            "spec.ingress[0].fromCIDR[0]: \"10.0.0.0/33\" is no prefix",
        ),
        (
            ingress(json!({ "fromCIDRSet": [{ "cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"] }] })),
            "spec.ingress[0].fromCIDRSet[0].except[0]: the exception 11.0.0.0/9 is outside",
        ),
        (
            ingress(json!({ "fromCIDRSet": [{ "cidr": "10.0.0.0/8", "except": ["10.1.2.3/8"] }] })),
            "spec.ingress[0].fromCIDRSet[0].except[0]: the exception is all of 10.0.0.0/8",
        ),
        (
            selector(json!({ "matchLabels": { "version": 1 } })),
            "spec.ingress[0].fromEndpoints[0].matchLabels.version: 1 is no text; \
             put it in quotes: \"1\"",
        ),
        (
            selector(json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] })),
            "spec.ingress[0].fromEndpoints[0].matchExpressions[0].operator: unknown operator",
        ),
        (
            selector(json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] })),
            "spec.ingress[0].fromEndpoints[0].matchExpressions[0].operator: the operator compares",
        ),
        (
            selector(json!({ "matchExpressions": [
                { "key": "a", "operator": "Exists", "values": ["b"] }] })),
            "spec.ingress[0].fromEndpoints[0].matchExpressions[0].values: the operator takes no",
        ),
        (
            ports(json!({ "port": "80", "endPort": 79 })),
            "spec.ingress[0].toPorts[0].ports[0].endPort: endPort 79 comes before port 80",
        ),
        (
            ports(json!({ "port": "http", "endPort": 90 })),
            "spec.ingress[0].toPorts[0].ports[0].endPort: endPort beside the name \"http\"",
        ),
        (
            ports(json!({ "port": "80", "protocol": "GRE" })),
            "spec.ingress[0].toPorts[0].ports[0].protocol: unknown protocol \"GRE\"",
        ),
        (
            ingress(json!({ "toPorts": [{}], "icmps": [{}] })),
            "spec.ingress[0].icmps: icmps and toPorts in one rule",
        ),
        (
            ingress(json!({ "icmps": [{ "fields": [{ "type": "Hello" }] }] })),
            "spec.ingress[0].icmps[0].fields[0].type: \"Hello\" is no ICMP type",
        ),
        (network_policy(json!({ "from": [{}] })), "spec.ingress[0].from[0]: the peer names nobody"),
        (
            network_policy(json!({ "from": [{
                "podSelector": {}, "ipBlock": { "cidr": "10.0.0.0/8" } }] })),
            "spec.ingress[0].from[0].ipBlock: ipBlock beside podSelector",
        ),
        (
            network_policy(json!({ "ports": [{ "endPort": 80 }] })),
            "spec.ingress[0].ports[0].endPort: endPort without port",
        ),
    ];
    for (document, expected) in cases {
        let refusal = refusal(&document);
        assert!(refusal.contains(&format!(" {expected}")), "{refusal}\nwants {expected}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
}

#[test]
fn another_version_of_the_format_is_refused() {
    let mut document = cnp(json!({ "endpointSelector": {} }));
    document["apiVersion"] = json!("cilium.io/v1");
    assert!(refusal(&document).contains("apiVersion: CiliumNetworkPolicy of version"));
}

#[test]
fn lists_are_taken_apart_and_other_kinds_left_alone() {
    let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "web" } });
    let list = json!({ "kind": "List", "items": [
        pod, cnp(json!({ "endpointSelector": {} })), network_policy(json!({})),
    ] });
    let read = parse("web.yaml", &list.into(), &PolicySettings::default());
    let names: Vec<String> = read.into_iter().map(|it| it.unwrap().name.to_string()).collect();
    assert_eq!(names, ["CiliumNetworkPolicy shop/web", "NetworkPolicy default/web"]);
}
