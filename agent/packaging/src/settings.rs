//! The values that an installation may set: their names, which are those of Cilium's chart, what they
//! mean, and where each goes.

pub use crate::kinds::Setting;
use crate::kinds::{
    CLUSTER_MAX, EMPTY, FALSE, NO_ITEMS, NO_MEMBERS, OPERATORS_MAX, PORT_MAX, ROWS_MAX, TRUE, flag,
    setting,
};
pub(crate) use crate::kinds::{Initial, Kind, Place};

use Initial::{Json, Template};
use Kind::{Choice, Document, List, Number, Quantities, Switch, Text, Texts, Tree};

/// Which container runtime is followed; its socket; and the agent's flag for that.
pub(crate) const RUNTIME: &str = "containerRuntime.integration";
pub(crate) const RUNTIME_SOCKET: &str = "containerRuntime.socketPath";
pub(crate) const RUNTIME_FLAG: &str = "container-runtime-endpoint";
pub(crate) const NO_RUNTIME: &str = "none";

/// All values that may be set, in the order in which they are shown.
pub const SETTINGS: &[Setting] = &[
    setting(
        "namespace",
        Text,
        Place::Namespace,
        Template,
        "Namespace of the objects; it has to exist",
    ),
    setting(
        "image.repository",
        Text,
        Place::Image,
        Template,
        "Image of the agent, without its tag",
    ),
    setting("image.tag", Text, Place::Image, Template, "Tag of the image"),
    setting(
        "image.pullPolicy",
        Choice(&["Always", "IfNotPresent", "Never"]),
        Place::EveryContainer("imagePullPolicy"),
        Json("\"IfNotPresent\""),
        "When nodes pull the image",
    ),
    setting(
        "imagePullSecrets",
        List,
        Place::Pod("imagePullSecrets"),
        NO_ITEMS,
        "Secrets that the registry asks for, each {name: NAME}",
    ),
    setting(
        "k8sServiceHost",
        Text,
        Place::Variable("KUBERNETES_SERVICE_HOST"),
        EMPTY,
        "Address of the API server; if it is empty, that of the Service kubernetes, which needs kube-proxy",
    ),
    setting(
        "k8sServicePort",
        Text,
        Place::Variable("KUBERNETES_SERVICE_PORT"),
        EMPTY,
        "Port of the API server; goes with k8sServiceHost",
    ),
    flag(
        "k8s.apiServerURLs",
        "k8s-api-server",
        Text,
        EMPTY,
        "Addresses of several API servers, separated by spaces; they go over k8sServiceHost",
    ),
    flag("cluster.name", "cluster-name", Text, Json("\"default\""), "Name of the cluster"),
    flag(
        "cluster.id",
        "cluster-id",
        Number(CLUSTER_MAX),
        Json("0"),
        "Number of the cluster in a mesh",
    ),
    flag("ipv4.enabled", "enable-ipv4", Switch, TRUE, "Whether pods have IPv4 addresses"),
    flag("ipv6.enabled", "enable-ipv6", Switch, Template, "Whether pods have IPv6 addresses"),
    flag(
        "ipam.mode",
        "ipam",
        Choice(&["kubernetes", "cluster-pool", "multi-pool"]),
        Template,
        "Who gives nodes their pod prefixes: the Node objects, or the operator, one or of several pools",
    ),
    flag(
        "ipam.multiPoolPreAllocation",
        "ipam-multi-pool-pre-allocation",
        Text,
        EMPTY,
        "With multi-pool, how many addresses of each pool a node has free, as default=8",
    ),
    flag(
        "ipam.operator.autoCreateCiliumPodIPPools",
        "auto-create-cilium-pod-ip-pools",
        Document,
        NO_MEMBERS,
        "With multi-pool, pools that the operator makes: {default: {ipv4: {cidrs: [10.0.0.0/8], maskSize: 24}}}",
    ),
    flag(
        "identityAllocationMode",
        "identity-allocation-mode",
        Choice(&["crd", "kvstore"]),
        Template,
        "Where nodes agree on numbers of identities: CiliumIdentities, or etcd",
    ),
    flag(
        "routingMode",
        "routing-mode",
        Choice(&["tunnel", "native"]),
        Json("\"tunnel\""),
        "How packets reach other nodes",
    ),
    flag(
        "tunnelProtocol",
        "tunnel-protocol",
        Choice(&["vxlan"]),
        Json("\"vxlan\""),
        "How tunnels look",
    ),
    flag("tunnelPort", "tunnel-port", Number(PORT_MAX), Json("8472"), "UDP port of tunnels"),
    flag(
        "autoDirectNodeRoutes",
        "auto-direct-node-routes",
        Switch,
        FALSE,
        "Whether native mode makes routes to neighbouring nodes",
    ),
    flag(
        "ipv4NativeRoutingCIDR",
        "ipv4-native-routing-cidr",
        Text,
        EMPTY,
        "Where pods go by IPv4 with their own addresses, besides the cluster",
    ),
    flag("ipv6NativeRoutingCIDR", "ipv6-native-routing-cidr", Text, EMPTY, "The same by IPv6"),
    flag(
        "enableIPv4Masquerade",
        "enable-ipv4-masquerade",
        Switch,
        TRUE,
        "Whether pods reach the world by IPv4 with the node's address",
    ),
    flag("enableIPv6Masquerade", "enable-ipv6-masquerade", Switch, TRUE, "The same by IPv6"),
    flag(
        "devices",
        "devices",
        Text,
        EMPTY,
        "Interfaces that lead to the world, separated by commas",
    ),
    flag("MTU", "mtu", Number(65535), Json("0"), "Largest packet of the devices; 0 asks them"),
    flag(
        "policyEnforcementMode",
        "enable-policy",
        Choice(&["default", "always", "never"]),
        Json("\"default\""),
        "Which endpoints have their policy enforced",
    ),
    flag(
        "hostFirewall.enabled",
        "enable-host-firewall",
        Switch,
        FALSE,
        "Whether nodes are held to policy",
    ),
    flag("hubble.enabled", "enable-hubble", Switch, FALSE, "Whether flows are kept and served"),
    flag(
        "hubble.listenAddress",
        "hubble-listen-address",
        Text,
        EMPTY,
        "Where a relay asks for flows, as :4244; it wants certificates, see the page about flows",
    ),
    flag(
        "hubble.eventBufferCapacity",
        "hubble-event-buffer-capacity",
        Number(65535),
        Json("4095"),
        "Flows that are kept on each node: 2^n - 1",
    ),
    flag(
        "prometheus.serveAddress",
        "prometheus-serve-addr",
        Text,
        Template,
        "Where metrics are served; :9962 is every address of the node, with tokenReview",
    ),
    flag(
        "prometheus.tokenReview",
        "prometheus-token-review",
        Switch,
        FALSE,
        "Whether whoever asks for metrics shows a token of an account that may get /metrics",
    ),
    flag(
        "healthChecking",
        "enable-health-checking",
        Switch,
        TRUE,
        "Whether nodes probe each other; ICMP and TCP port 4240 have to pass between them",
    ),
    flag(
        "endpointHealthChecking.enabled",
        "enable-endpoint-health-checking",
        Switch,
        TRUE,
        "Whether each node has a health endpoint that others probe",
    ),
    flag(
        "kubeProxyReplacement",
        "kube-proxy-replacement",
        Switch,
        Template,
        "Whether the agent serves what a kube-proxy would; with false one has to run on every node",
    ),
    flag(
        "kubeProxyReplacementHealthzBindAddr",
        "kube-proxy-replacement-healthz-bind-address",
        Text,
        EMPTY,
        "Where load balancers ask whether a node serves services, as 0.0.0.0:10256",
    ),
    flag(
        "loadBalancer.mode",
        "bpf-lb-mode",
        Choice(&["snat", "dsr"]),
        Json("\"snat\""),
        "Whom a backend on another node answers",
    ),
    flag(
        "loadBalancer.algorithm",
        "bpf-lb-algorithm",
        Choice(&["random", "maglev"]),
        Json("\"random\""),
        "How backends are chosen for clients outside the cluster",
    ),
    flag(
        "socketLB.enabled",
        "bpf-lb-sock",
        Switch,
        Template,
        "Whether sockets of nodes and pods choose backends themselves",
    ),
    flag(
        "bpf.enableTCX",
        "enable-tcx",
        Switch,
        TRUE,
        "Whether programs are attached by TCX links, by filters otherwise",
    ),
    flag(
        "takeOver.from",
        "take-over",
        Choice(&["none", "cilium"]),
        Json("\"none\""),
        "Whose nodes are taken over as they are, with their pods",
    ),
    flag(
        "takeOver.withoutFeatures",
        "take-over-without-features",
        Switch,
        FALSE,
        "Whether nodes are taken over on which something is in force that the agent does not have",
    ),
    flag(
        "bpf.ctTcpMax",
        "bpf-ct-global-tcp-max",
        Number(ROWS_MAX),
        Template,
        "Rows for TCP connections",
    ),
    flag(
        "bpf.ctAnyMax",
        "bpf-ct-global-any-max",
        Number(ROWS_MAX),
        Template,
        "Rows for other connections",
    ),
    flag(
        "bpf.natMax",
        "bpf-nat-global-max",
        Number(ROWS_MAX),
        Template,
        "Rows for translated addresses",
    ),
    flag(
        "bpf.lbMapMax",
        "bpf-lb-map-max",
        Number(ROWS_MAX),
        Json("65536"),
        "Rows of maps of services",
    ),
    flag(
        "bpf.policyMapMax",
        "bpf-policy-map-max",
        Number(65536),
        Json("16384"),
        "Rows of an endpoint's policy",
    ),
    flag(
        "bpf.monitorAggregation",
        "monitor-aggregation",
        Choice(&["none", "lowest", "low", "medium", "maximum"]),
        Json("\"medium\""),
        "How much records of packets are thinned out",
    ),
    flag("debug.enabled", "debug", Switch, FALSE, "Whether the agent logs more"),
    flag(
        "cni.exclusive",
        "cni-exclusive",
        Switch,
        Template,
        "Whether other CNI configurations are set aside",
    ),
    flag(
        "cni.chainingMode",
        "cni-chaining-mode",
        Choice(&["none", "portmap", "generic-veth", "aws-cni", "azure", "flannel"]),
        Json("\"none\""),
        "With which other CNI plugins volvox-cni goes together",
    ),
    flag(
        "cni.chainingTarget",
        "cni-chaining-target",
        Text,
        EMPTY,
        "The CNI network into whose list of plugins volvox-cni is put",
    ),
    setting(
        "cni.confPath",
        Text,
        Place::Volume("cni-conf"),
        Template,
        "The runtime's directory of CNI configurations",
    ),
    setting(
        "cni.binPath",
        Text,
        Place::Volume("cni-bin"),
        Template,
        "The runtime's directory of CNI plugins",
    ),
    setting(
        RUNTIME,
        Choice(&[NO_RUNTIME, "containerd"]),
        Place::Runtime,
        Json("\"none\""),
        "Whose events the agent follows; with containerd its pod has what containerd has",
    ),
    flag(
        RUNTIME_SOCKET,
        RUNTIME_FLAG,
        Text,
        Json("\"/run/containerd/containerd.sock\""),
        "The runtime's socket; its directory is mounted if the runtime is followed",
    ),
    setting(
        "operator.replicas",
        Number(OPERATORS_MAX),
        Place::Operators,
        Template,
        "How many operators run, of which one leads; 0 where Cilium's operator runs",
    ),
    setting(
        "operator.image.repository",
        Text,
        Place::OperatorImage,
        Template,
        "Image of the operator, without its tag",
    ),
    setting(
        "operator.image.tag",
        Text,
        Place::OperatorImage,
        Template,
        "Tag of the operator's image",
    ),
    setting(
        "operator.extraVolumes",
        List,
        Place::OperatorPodItems("volumes"),
        NO_ITEMS,
        "Further volumes of the operators' pods",
    ),
    setting(
        "operator.extraVolumeMounts",
        List,
        Place::OperatorContainerItems("volumeMounts"),
        NO_ITEMS,
        "Where the operator has further volumes",
    ),
    setting("extraConfig", Texts, Place::Flags, Template, "Further flags of the agent, by name"),
    setting(
        "extraArgs",
        List,
        Place::ContainerItems("args"),
        NO_ITEMS,
        "Further arguments of the agent",
    ),
    setting(
        "extraEnv",
        List,
        Place::ContainerItems("env"),
        NO_ITEMS,
        "Further variables of the agent's environment",
    ),
    setting(
        "extraVolumes",
        List,
        Place::PodItems("volumes"),
        NO_ITEMS,
        "Further volumes of the agents' pods, as certificates of etcd",
    ),
    setting(
        "extraVolumeMounts",
        List,
        Place::ContainerItems("volumeMounts"),
        NO_ITEMS,
        "Where the agent has further volumes",
    ),
    setting(
        "resources",
        Quantities,
        Place::Container("resources"),
        Template,
        "What the agent's container asks for",
    ),
    setting(
        "tolerations",
        List,
        Place::Pod("tolerations"),
        Template,
        "Taints that the pods tolerate",
    ),
    setting(
        "nodeSelector",
        Texts,
        Place::Pod("nodeSelector"),
        Template,
        "Labels of the nodes that get a pod",
    ),
    setting("affinity", Tree, Place::Pod("affinity"), NO_MEMBERS, "Affinity of the pods"),
    setting(
        "priorityClassName",
        Text,
        Place::Pod("priorityClassName"),
        Template,
        "Priority class of the pods",
    ),
    setting(
        "updateStrategy",
        Tree,
        Place::Set("updateStrategy"),
        Template,
        "How pods are replaced",
    ),
    setting(
        "podAnnotations",
        Texts,
        Place::PodMetadata("annotations"),
        NO_MEMBERS,
        "Further annotations of the pods",
    ),
    setting(
        "podLabels",
        Texts,
        Place::PodMetadata("labels"),
        NO_MEMBERS,
        "Further labels of the pods",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flag_is_one_of_the_agents() {
        let flags = include_str!("../../docs/flags.md");
        // What is about pools, its operator reads in the same ConfigMap.
        let of_operator = include_str!("../../docs/operator.md");
        let names: BTreeSet<_> = SETTINGS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
        for setting in SETTINGS {
            if let Place::Flag(flag) = setting.place {
                let known =
                    [' ', '=', '`'].iter().any(|end| flags.contains(&format!("`--{flag}{end}")));
                let known = known || of_operator.contains(&format!("`--{flag}`"));
                assert!(known, "--{flag} of {}", setting.name);
            }
        }
    }
}
