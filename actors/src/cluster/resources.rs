//! The list of Kubernetes and Cilium resources to watch: their API paths, versions and feeds.

use crate::{
    model::Feed,
    ports::{Reader, Resource},
};

fn plain(
    name: &'static str,
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
) -> Resource {
    Resource {
        name,
        path,
        api_version,
        kind,
        fields: None,
        labels: None,
        definition: None,
        reader: Reader::Agent,
    }
}

fn custom(
    name: &'static str,
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
    definition: &'static str,
) -> Resource {
    Resource { definition: Some(definition), ..plain(name, path, api_version, kind) }
}

/// What is watched, in every version that is understood, newest first; and who hears of it. Of pods
/// only those of this node.
pub fn resources(node: &str) -> Vec<(Feed, Vec<Resource>)> {
    let pods = Resource {
        fields: Some(format!("spec.nodeName={node}")),
        ..plain("pods", "/api/v1/pods", "v1", "Pod")
    };
    let namespaces = plain("namespaces", "/api/v1/namespaces", "v1", "Namespace");
    let network_policies = plain(
        "networkpolicies",
        "/apis/networking.k8s.io/v1/networkpolicies",
        "networking.k8s.io/v1",
        "NetworkPolicy",
    );
    let cilium_policies = custom(
        "ciliumnetworkpolicies",
        "/apis/cilium.io/v2/ciliumnetworkpolicies",
        "cilium.io/v2",
        "CiliumNetworkPolicy",
        "ciliumnetworkpolicies.cilium.io",
    );
    let clusterwide_policies = custom(
        "ciliumclusterwidenetworkpolicies",
        "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies",
        "cilium.io/v2",
        "CiliumClusterwideNetworkPolicy",
        "ciliumclusterwidenetworkpolicies.cilium.io",
    );
    let ranked_policies = custom(
        "clusternetworkpolicies",
        "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
        "policy.networking.k8s.io/v1alpha2",
        "ClusterNetworkPolicy",
        "clusternetworkpolicies.policy.networking.k8s.io",
    );
    let groups = |path, api_version| {
        let definition = "ciliumcidrgroups.cilium.io";
        custom("ciliumcidrgroups", path, api_version, "CiliumCIDRGroup", definition)
    };
    let groups = vec![
        groups("/apis/cilium.io/v2/ciliumcidrgroups", "cilium.io/v2"),
        groups("/apis/cilium.io/v2alpha1/ciliumcidrgroups", "cilium.io/v2alpha1"),
    ];
    let services = plain("services", "/api/v1/services", "v1", "Service");
    let slices = |path, api_version| plain("endpointslices", path, api_version, "EndpointSlice");
    let slices = vec![
        slices("/apis/discovery.k8s.io/v1/endpointslices", "discovery.k8s.io/v1"),
        slices("/apis/discovery.k8s.io/v1beta1/endpointslices", "discovery.k8s.io/v1beta1"),
        plain("endpoints", "/api/v1/endpoints", "v1", "Endpoints"),
    ];
    vec![
        (Feed::Workloads, vec![pods]),
        (Feed::Workloads, vec![namespaces]),
        (Feed::Policies, vec![network_policies]),
        (Feed::Policies, vec![cilium_policies]),
        (Feed::Policies, vec![clusterwide_policies]),
        (Feed::Policies, vec![ranked_policies]),
        (Feed::Policies, groups),
        (Feed::Services, vec![services]),
        (Feed::Services, slices),
    ]
}

/// CustomResourceDefinitions, each of which is looked at alone.
pub fn definitions() -> Resource {
    plain(
        "customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
}

/// What is watched as well if somebody wants to hear of it: what this node says of itself, as it is
/// there, so that it can be kept true, what the nodes tell each other, and what is served beside
/// services.
pub fn further(node: &str) -> Vec<(Feed, Vec<Resource>)> {
    let own = Some(format!("metadata.name={node}"));
    let nodes = |name| plain(name, "/api/v1/nodes", "v1", "Node");
    let cilium_nodes = custom(
        "ciliumnodes",
        "/apis/cilium.io/v2/ciliumnodes",
        "cilium.io/v2",
        "CiliumNode",
        "ciliumnodes.cilium.io",
    );
    let cilium_endpoints = custom(
        "ciliumendpoints",
        "/apis/cilium.io/v2/ciliumendpoints",
        "cilium.io/v2",
        "CiliumEndpoint",
        "ciliumendpoints.cilium.io",
    );
    let cilium_identities = custom(
        "ciliumidentities",
        "/apis/cilium.io/v2/ciliumidentities",
        "cilium.io/v2",
        "CiliumIdentity",
        "ciliumidentities.cilium.io",
    );
    let pod_pools = custom(
        "ciliumpodippools",
        "/apis/cilium.io/v2alpha1/ciliumpodippools",
        "cilium.io/v2alpha1",
        "CiliumPodIPPool",
        "ciliumpodippools.cilium.io",
    );
    let ingresses = |path, api_version| plain("ingresses", path, api_version, "Ingress");
    let ingresses = vec![
        ingresses("/apis/networking.k8s.io/v1/ingresses", "networking.k8s.io/v1"),
        ingresses("/apis/networking.k8s.io/v1beta1/ingresses", "networking.k8s.io/v1beta1"),
        ingresses("/apis/extensions/v1beta1/ingresses", "extensions/v1beta1"),
    ];
    vec![
        (Feed::Node, vec![Resource { fields: own.clone(), ..nodes("nodes") }]),
        (Feed::CiliumNode, vec![Resource { fields: own, ..cilium_nodes }]),
        (Feed::CiliumEndpoints, vec![cilium_endpoints]),
        (Feed::CiliumIdentities, vec![cilium_identities]),
        (Feed::Ingresses, ingresses),
        (Feed::PodPools, vec![pod_pools]),
        (Feed::Nodes, vec![nodes("other nodes")]),
    ]
}
