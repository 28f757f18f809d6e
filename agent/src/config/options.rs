//! All settings of the agent: their flags, their defaults and their help texts.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Args};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::Serialize;
use volvox_actors::node::devices::DevicePattern;
use volvox_cluster::Servers;
use volvox_etcd::EtcdOptions;
use volvox_system::duration::{as_nanoseconds, parse_duration};

use super::{
    AllowLocalhost, AttachOptions, CniOptions, EnablePolicy, HubbleOptions, IdentityAllocationMode,
    Ipam, KubeProxyOptions, KvStoreKind, LbAlgorithm, LbMode, LogFormat, LogLevel, MetricsOptions,
    MonitorAggregation, NoBackendResponse, NodeAddress, NodeHealthOptions, PoolOptions, Range,
    RateLimits, RoutingMode, TakeoverOptions, TcpFlags, TunnelProtocol,
    aggregation::parse_interval,
    values::{
        OptionalAddress, RuntimeEndpoint, parse_lease_ttl, parse_list, parse_optional_address,
        parse_ratio, parse_runtime_endpoint, parse_table_size,
    },
};

/// All settings; serialised, by the names of Cilium's `daemonConfigurationMap`, in nanoseconds.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Config {
    /// Directory for what is kept until the node boots again; endpoint records are in `state`
    #[arg(
        id = "state_dir",
        long = "state-dir",
        value_name = "DIR",
        default_value = "/var/run/cilium"
    )]
    #[serde(rename = "RunDir")]
    pub run_dir: PathBuf,

    /// Directory for what outlives a boot of the node
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cilium")]
    pub lib_dir: PathBuf,

    /// Unix socket on which the API is served
    #[arg(long, value_name = "FILE", default_value = "/var/run/cilium/cilium.sock")]
    pub socket_path: PathBuf,

    /// Where the BPF file system is mounted
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf")]
    #[serde(rename = "BPFRoot")]
    pub bpf_root: PathBuf,

    /// Where the version 2 control group hierarchy is mounted
    #[arg(long, value_name = "DIR", default_value = "/run/cilium/cgroupv2")]
    #[serde(rename = "CGroupRoot")]
    pub cgroup_root: PathBuf,

    /// Where the proc file system is mounted
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    #[serde(rename = "ProcFs")]
    pub procfs: PathBuf,

    /// Directory with a file for each setting, such as a mounted ConfigMap
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,

    /// Whether a cluster is followed, if one is named or the agent runs in a pod of one
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableK8s")]
    pub enable_k8s: bool,

    /// Kubeconfig of the cluster to follow; in a pod its service account is used if not given
    #[arg(long, value_name = "FILE")]
    pub k8s_kubeconfig_path: Option<PathBuf>,

    /// Addresses of the API servers, with commas between, if not the one that the kubeconfig or the
    /// service account says; one is asked, and the next one once that cannot be reached
    #[arg(long, value_name = "URLS", alias = "k8s-api-server-urls")]
    #[serde(rename = "K8sAPIServer")]
    pub k8s_api_server: Option<Servers>,

    /// Time after which it is complained of a cluster that is not synced; nothing else depends on it
    #[arg(long, value_name = "DURATION", default_value = "3m0s", value_parser = parse_duration)]
    #[serde(rename = "K8sSyncTimeout", serialize_with = "as_nanoseconds")]
    pub k8s_sync_timeout: Duration,

    /// The same for resources that nobody defined; the longest of the three counts
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration, hide = true)]
    #[serde(rename = "CRDWaitTimeout", serialize_with = "as_nanoseconds")]
    pub crd_wait_timeout: Duration,

    /// The same for identities
    #[arg(long, value_name = "DURATION", default_value = "3m0s", value_parser = parse_duration, hide = true)]
    #[serde(rename = "AllocatorListTimeout", serialize_with = "as_nanoseconds")]
    pub allocator_list_timeout: Duration,

    /// Whether this node's Node is annotated with prefixes and router of its pods, and its prefixes
    /// may come from such annotations
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "AnnotateK8sNode")]
    pub annotate_k8s_node: bool,

    /// Whether CustomResourceDefinitions of Cilium's kinds are registered, if they are missing or older
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "RegisterCRDs")]
    pub register_crds: bool,

    /// Whether this node's CiliumNode is made and kept true
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub auto_create_cilium_node_resource: bool,

    /// Whether pods of this node have no CiliumEndpoint
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "DisableCiliumEndpointCRD")]
    pub disable_endpoint_crd: bool,

    /// Whether this node's Node says that its network is available, once pods can be programmed
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub set_cilium_is_up_condition: bool,

    /// Whether the taint that keeps pods away is removed then
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub remove_cilium_node_taints: bool,

    /// Key of that taint
    #[arg(long, value_name = "KEY", default_value = "node.cilium.io/agent-not-ready")]
    pub agent_not_ready_taint_key: String,

    /// Directory of manifests (policies, Pods, Namespaces) that is watched; none if not given, and
    /// not read if a cluster is followed
    #[arg(long, value_name = "DIR")]
    #[serde(rename = "StaticCNPPath")]
    pub static_cnp_path: Option<PathBuf>,

    /// Whether pods have IPv4 addresses
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableIPv4")]
    pub enable_ipv4: bool,

    /// Whether pods have IPv6 addresses
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableIPv6")]
    pub enable_ipv6: bool,

    /// Who gives this node the prefixes of its pods at its first start; if not given, its Node does
    /// where it has some. --ipv4-range and --ipv6-range count before all
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE")]
    #[serde(rename = "IPAM")]
    pub ipam: Option<Ipam>,

    /// Where prefixes come from otherwise, and several pools of addresses.
    #[command(flatten)]
    #[serde(flatten)]
    pub pod_pools: PoolOptions,

    /// IPv4 prefix of this node's pods, or auto
    #[arg(long, value_name = "PREFIX", default_value = "auto")]
    #[serde(rename = "IPv4Range")]
    pub ipv4_range: Range<Ipv4Net>,

    /// IPv6 prefix of this node's pods, or auto
    #[arg(long, value_name = "PREFIX", default_value = "auto")]
    #[serde(rename = "IPv6Range")]
    pub ipv6_range: Range<Ipv6Net>,

    /// IPv4 address by which other nodes reach this one, or auto: the one of the run before,
    /// otherwise that of the device that the default route leads to
    #[arg(long, value_name = "ADDRESS", default_value = "auto")]
    #[serde(rename = "IPv4NodeAddr")]
    pub ipv4_node: NodeAddress<Ipv4Addr>,

    /// The same by IPv6
    #[arg(long, value_name = "ADDRESS", default_value = "auto")]
    #[serde(rename = "IPv6NodeAddr")]
    pub ipv6_node: NodeAddress<Ipv6Addr>,

    /// Largest packet that the node's devices take, bytes; 0 is the least that one of them says
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_535))]
    #[serde(rename = "MTU")]
    pub mtu: u32,

    /// How packets reach other nodes
    #[arg(long, value_enum, ignore_case = true, default_value = "tunnel")]
    pub routing_mode: RoutingMode,

    /// How packets in tunnels look
    #[arg(long, value_enum, ignore_case = true, default_value = "vxlan")]
    pub tunnel_protocol: TunnelProtocol,

    /// UDP port of packets in tunnels, the same on every node
    #[arg(long, value_name = "PORT", default_value_t = 8472, value_parser = clap::value_parser!(u16).range(1..))]
    pub tunnel_port: u16,

    /// Whether native mode routes the prefixes of other nodes to them, where these are neighbours
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "EnableAutoDirectRouting")]
    pub auto_direct_node_routes: bool,

    /// Whether nodes that are no neighbours are left out then without a word
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub direct_routing_skip_unreachable: bool,

    /// Whether endpoints found on disk and in the kernel are restored
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL", hide = true)]
    #[serde(rename = "RestoreState")]
    pub restore: bool,

    /// Whether restored endpoints keep their own switches
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub keep_config: bool,

    /// Messages that wait for one endpoint at most
    #[arg(long, value_name = "NUMBER", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub endpoint_queue_size: u32,

    /// How often endpoints are looked for whose interface is gone; 0 never
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_duration)]
    #[serde(rename = "EndpointGCInterval", serialize_with = "as_nanoseconds")]
    pub endpoint_gc_interval: Duration,

    /// How often the programs of every endpoint are verified to be attached, and the rows of all maps
    /// to be as they were written; 0 never
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    #[serde(rename = "EndpointBPFProgWatchdogInterval", serialize_with = "as_nanoseconds")]
    pub endpoint_bpf_prog_watchdog_interval: Duration,

    /// Time for other nodes to learn a changed identity before it is used
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    #[serde(serialize_with = "as_nanoseconds")]
    pub identity_change_grace_period: Duration,

    /// Prefixes of labels that make an identity; one with ! before it does not
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_list)]
    pub labels: List,

    /// Which endpoints have their policy enforced
    #[arg(long, value_enum, ignore_case = true, default_value = "default")]
    pub enable_policy: EnablePolicy,

    /// Whether the node always reaches its pods
    #[arg(long, value_enum, ignore_case = true, default_value = "auto")]
    pub allow_localhost: AllowLocalhost,

    /// Name of the cluster
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cluster_name: String,

    /// Number of the cluster; other than 0 it wants a name of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8))]
    #[serde(rename = "ClusterID")]
    pub cluster_id: u8,

    /// Directory of the clusters that this one is meshed with, each a file of its name that says where
    /// its etcd is; none is read if not given
    #[arg(long, value_name = "DIR")]
    #[serde(rename = "ClusterMeshConfig")]
    pub clustermesh_config: Option<PathBuf>,

    /// Socket of containerd, as /run/containerd/containerd.sock, which says whose containers are gone;
    /// none is followed if not given
    #[arg(long, value_name = "SOCKET", default_value = "", hide_default_value = true, value_parser = parse_runtime_endpoint)]
    pub container_runtime_endpoint: RuntimeEndpoint,

    /// Whether rules that name no cluster mean pods of this one alone
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub policy_default_local_cluster: bool,

    /// Whether rules may select other nodes by their labels (fromNodes, toNodes)
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub enable_node_selector_labels: bool,

    /// Whether the node itself is held to policy: rules with a nodeSelector
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub enable_host_firewall: bool,

    /// Store that the nodes of the cluster share; none if not given
    #[arg(long, value_enum, ignore_case = true, value_name = "KIND")]
    #[serde(rename = "KVStore")]
    pub kvstore: Option<KvStoreKind>,

    /// Where the store is: `etcd.address=URL`, or `etcd.config=FILE` with certificates and a user
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    #[serde(rename = "KVStoreOpt")]
    pub kvstore_opt: EtcdOptions,

    /// Time that what this node announces in the store outlives it, at most 24h
    #[arg(long, value_name = "DURATION", default_value = "15m0s", value_parser = parse_lease_ttl)]
    #[serde(rename = "KVstoreLeaseTTL", serialize_with = "as_nanoseconds")]
    pub kvstore_lease_ttl: Duration,

    /// Where the nodes of the cluster agree on the numbers of identities
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE", default_value = "kvstore")]
    pub identity_allocation_mode: IdentityAllocationMode,

    /// Whether packets of a pod must have its address as their source
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableSourceIPVerification")]
    pub enable_source_ip_verification: bool,

    /// Whether drops are recorded
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "BPFEventsDropEnabled")]
    pub bpf_events_drop_enabled: bool,

    /// Whether verdicts of policies are recorded
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "BPFEventsPolicyVerdictEnabled")]
    pub bpf_events_policy_verdict_enabled: bool,

    /// Whether packets are recorded on their way
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "BPFEventsTraceEnabled")]
    pub bpf_events_trace_enabled: bool,

    /// How much the records of packets are thinned out
    #[arg(long, value_enum, ignore_case = true, default_value = "medium")]
    pub monitor_aggregation: MonitorAggregation,

    /// Time after which a connection is recorded again, from medium on; whole seconds
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_interval)]
    #[serde(serialize_with = "as_nanoseconds")]
    pub monitor_aggregation_interval: Duration,

    /// TCP flags that have a connection recorded when it shows them first, from medium on, or all
    #[arg(long, value_name = "LIST", default_value = "syn,fin,rst")]
    pub monitor_aggregation_flags: TcpFlags,

    /// Time between collections of expired connections; 0 adapts it to what is found
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    #[serde(rename = "ConntrackGCInterval", serialize_with = "as_nanoseconds")]
    pub conntrack_gc_interval: Duration,

    /// Rows of each map of TCP connections [default: by memory, at most 16777216]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1 << 10..=1 << 24))]
    #[serde(rename = "CTMapEntriesGlobalTCP")]
    pub bpf_ct_global_tcp_max: Option<u32>,

    /// Rows of each map of other connections [default: by memory, at most 16777216]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1 << 10..=1 << 24))]
    #[serde(rename = "CTMapEntriesGlobalAny")]
    pub bpf_ct_global_any_max: Option<u32>,

    /// Rows of each endpoint's policy map
    #[arg(long, value_name = "NUMBER", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1 << 8..=1 << 16))]
    #[serde(rename = "PolicyMapEntries")]
    pub bpf_policy_map_max: u32,

    /// Rows of each map that balances load: frontends with the slots of their backends, backends
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1 << 8..=1 << 24))]
    #[serde(rename = "LBMapEntries")]
    pub bpf_lb_map_max: u32,

    /// Where programs are attached, and by what.
    #[command(flatten)]
    #[serde(flatten)]
    pub attaching: AttachOptions,

    /// Whether the node is taken over from another agent.
    #[command(flatten)]
    #[serde(flatten)]
    pub takeover: TakeoverOptions,

    /// How backends of services that are reached from outside the cluster are chosen
    #[arg(long, value_enum, ignore_case = true, default_value = "random")]
    #[serde(rename = "LoadBalancerAlgorithm")]
    pub bpf_lb_algorithm: LbAlgorithm,

    /// Whether a service may say otherwise by its annotation service.cilium.io/lb-algorithm
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "LoadBalancerAlgorithmAnnotation")]
    pub bpf_lb_algorithm_annotation: bool,

    /// Whether clients outside the cluster reach services at their addresses inside it
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "ExternalClusterIP")]
    pub bpf_lb_external_clusterip: bool,

    /// What becomes of packets to a service that has no backend, or to a port that it does not serve
    #[arg(long, value_enum, ignore_case = true, default_value = "reject")]
    #[serde(rename = "ServiceNoBackendResponse")]
    pub service_no_backend_response: NoBackendResponse,

    /// Whom a backend on another node answers when clients come from outside the cluster
    #[arg(long, value_enum, ignore_case = true, default_value = "snat")]
    #[serde(rename = "LoadBalancerMode")]
    pub bpf_lb_mode: LbMode,

    /// Whether a service may say otherwise by its annotation service.cilium.io/forwarding-mode
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "LoadBalancerModeAnnotation")]
    pub bpf_lb_mode_annotation: bool,

    /// Places of a table by which Maglev chooses: a prime, some hundred times the backends
    #[arg(long, value_name = "NUMBER", default_value_t = 16_381, value_parser = parse_table_size)]
    #[serde(rename = "MaglevTableSize")]
    pub bpf_lb_maglev_table_size: u32,

    /// Rows of each map of address translation, two for each flow [default: by memory, at most
    /// 16777216]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1 << 10..=1 << 24))]
    #[serde(rename = "NATMapEntriesGlobal")]
    pub bpf_nat_global_max: Option<u32>,

    /// The node's interfaces that lead to the world: names, or with a + how names begin; if not
    /// given, those that default routes lead to or that have the node's address
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub devices: Vec<DevicePattern>,

    /// Whether what pods send to the world by IPv4 leaves with the node's address
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableIPv4Masquerade")]
    pub enable_ipv4_masquerade: bool,

    /// The same by IPv6
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableIPv6Masquerade")]
    pub enable_ipv6_masquerade: bool,

    /// Where pods go by IPv4 with their own addresses, besides the cluster [default: the pods'
    /// prefix of this node]
    #[arg(long, value_name = "CIDR")]
    #[serde(rename = "IPv4NativeRoutingCIDR")]
    pub ipv4_native_routing_cidr: Option<Ipv4Net>,

    /// The same by IPv6
    #[arg(long, value_name = "CIDR")]
    #[serde(rename = "IPv6NativeRoutingCIDR")]
    pub ipv6_native_routing_cidr: Option<Ipv6Net>,

    /// Share of the memory that maps without a given size get; 0 gives them fixed sizes
    #[arg(long, value_name = "RATIO", default_value_t = 0.0025, value_parser = parse_ratio)]
    #[serde(rename = "BPFMapsDynamicSizeRatio")]
    pub bpf_map_dynamic_size_ratio: f64,

    /// Limits of the API: `endpoint-create=rate-limit:10/s,rate-burst:4`; none if empty
    #[arg(long, value_name = "LIMITS", default_value = "", hide_default_value = true)]
    #[serde(rename = "APIRateLimit")]
    pub api_rate_limit: RateLimits,

    /// Metrics.
    #[command(flatten)]
    #[serde(flatten)]
    pub metrics: MetricsOptions,

    /// Port for health checks on the loopback address; 0 is none
    #[arg(long, value_name = "PORT", default_value_t = 9879)]
    pub agent_health_port: u16,

    /// Whether what the actors do is recorded, to be read by `volvox trace`
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    pub flight_recorder: bool,

    /// Size of that record's file in the state directory, bytes; the oldest goes
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = clap::value_parser!(u32).range(1 << 18..=1 << 30))]
    pub flight_recorder_size: u32,

    /// Address of the dashboard, loopback only: `:9880`; not served if empty
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9880", value_parser = parse_optional_address)]
    pub dashboard_addr: OptionalAddress,

    /// Flows.
    #[command(flatten)]
    #[serde(flatten)]
    pub hubble: HubbleOptions,

    /// How nodes are probed.
    #[command(flatten)]
    #[serde(flatten)]
    pub health: NodeHealthOptions,

    /// What it does in the place of a kube-proxy.
    #[command(flatten)]
    #[serde(flatten)]
    pub kube_proxy: KubeProxyOptions,

    /// The CNI configuration.
    #[command(flatten)]
    #[serde(flatten)]
    pub cni: CniOptions,

    /// Log more; as --log-level=debug
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub debug: bool,

    /// What is logged
    #[arg(long, value_enum, ignore_case = true, default_value = "info")]
    pub log_level: LogLevel,

    /// How it is logged
    #[arg(long, value_enum, ignore_case = true, default_value = "text")]
    pub log_format: LogFormat,
}

/// A list in one value: so named, because the derived parser would take a `Vec` as many values.
pub type List = Vec<String>;
