//! From flags to what the actors are told.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    process, thread,
    time::Duration,
};

use anyhow::Context;
use ipnet::IpNet;
use volvox_actors::{
    cluster::{
        allocator,
        api_server::ClusterSettings,
        health_endpoint::HealthEndpointSettings,
        kvstore::KvSettings,
        own_prefixes::{OwnPrefixesSettings, PodPoolsSettings},
        publish::{InNode, PublishSettings},
        reachability::ReachabilitySettings,
    },
    endpoints::{ipam::Pools, supervisor::Schedule},
    host::Clock,
    model::{ClusterId, Families, NodeFacts, NodeKey},
    node::{
        devices::DevicesSettings,
        local_node::{IpamMode, NodeSettings},
        routes::RoutingMode as Routing,
    },
    node_supervisor::{NodeSupervisorSettings, ServingChoices},
    policy::{
        identity::LabelFilter,
        rules::{Enforcement, OwnCluster, PolicySettings},
    },
    ports::device_flags,
    services::service_cache::{Balancing, Choice},
};
use volvox_inspect::flight::boot_id;
use volvox_system::SystemClock;

use crate::{
    boot::{FoundPools, NodeNumbers, POD_INTERFACES},
    config::{
        AllowLocalhost, Config, EnablePolicy, IdentityAllocationMode, Ipam, LbMode,
        MonitorAggregation, Range, RoutingMode,
    },
    node_information::life,
    node_name::node_name,
};

/// When endpoints are held to policy, until `PATCH /config` says otherwise.
pub fn enforcement(config: &Config) -> Enforcement {
    match config.enable_policy {
        EnablePolicy::Default => Enforcement::Default,
        EnablePolicy::Always => Enforcement::Always,
        EnablePolicy::Never => Enforcement::Never,
    }
}

/// How the actors are to run this node.
pub fn node_supervisor(
    config: &Config,
    node: &NodeNumbers,
) -> anyhow::Result<NodeSupervisorSettings> {
    let families = Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 };
    let labels = config.labels.iter().map(String::as_str);
    let policy = PolicySettings {
        enforcement: enforcement(config),
        allow_localhost: config.allow_localhost != AllowLocalhost::Policy,
        cluster: Some(OwnCluster {
            name: config.cluster_name.clone(),
            by_default: config.policy_default_local_cluster,
        }),
        node_selectors: config.enable_node_selector_labels,
        host_firewall: config.enable_host_firewall,
        families,
        rows_max: config.bpf_policy_map_max,
    };
    Ok(NodeSupervisorSettings {
        cluster: config.cluster_name.clone(),
        policy,
        pools: Pools { ipv4: node.ipv4_range, ipv6: node.ipv6_range },
        label_filter: LabelFilter::new(labels).context("--labels")?,
        options: options(config),
        permits: thread::available_parallelism().map_or(1, usize::from).max(2),
        schedule: Schedule {
            sweep: config.endpoint_bpf_prog_watchdog_interval,
            collect: config.endpoint_gc_interval,
            queue: config.endpoint_queue_size as usize,
        },
        conntrack_interval: Some(config.conntrack_gc_interval).filter(|span| !span.is_zero()),
        serving: serving(config),
        node: NodeSettings {
            families,
            router: node.router,
            pod_interfaces: POD_INTERFACES.to_owned(),
            facts: NodeFacts { addresses: node.own, mtu: node.mtu, trouble: None },
        },
        devices: devices(config, node),
        routing: routing(config),
        mtu: node.mtu,
        kvstore: KvSettings {
            cluster: config.cluster_name.clone(),
            cluster_id: ClusterId(config.cluster_id),
            node: node_name(),
            address: address(node),
            other_address: other_address(node),
            boot_id: boot_id(),
            before: None,
            meshed: config.clustermesh_config.is_some(),
            lease_ttl: config.kvstore_lease_ttl,
            seed: SystemClock.wall() ^ u64::from(process::id()),
        },
        identity_allocation: match config.identity_allocation_mode {
            IdentityAllocationMode::Kvstore => allocator::Mode::Kvstore,
            IdentityAllocationMode::Crd => allocator::Mode::Crd,
        },
        follow: ClusterSettings {
            seed: seed(),
            node_name: node_name(),
            sync_timeout: config.sync_timeout(),
            further: Vec::new(),
            plain_nodes_after: Duration::ZERO,
            pod_pools: (config.ipam == Some(Ipam::MultiPool)).then(|| pod_pools(config, node)),
            before: None,
        },
        definitions: match config.register_crds {
            true => volvox_packaging::definitions(),
            false => Vec::new(),
        },
        publish: Some(publish(config, node)),
        health_endpoint: config.health.has_endpoint().then(|| health_endpoint(config, node)),
        reachability: config.health.enable_health_checking.then(|| reachability(config, node)),
    })
}

/// How services are served.
fn serving(config: &Config) -> ServingChoices {
    ServingChoices {
        balancing: Balancing {
            algorithm: Choice {
                usual: config.bpf_lb_algorithm.into(),
                by_annotation: config.bpf_lb_algorithm_annotation,
            },
            direct: Choice {
                usual: config.bpf_lb_mode == LbMode::Dsr,
                by_annotation: config.bpf_lb_mode_annotation,
            },
            external_cluster_ip: config.bpf_lb_external_clusterip,
            inside_only: !config.kube_proxy.replacement,
        },
        sockets: config.attaching.bpf_lb_sock,
        ends_tcp: config.attaching.lb_sock_terminate_all_protos,
    }
}

/// How the node's health endpoint is to be.
fn health_endpoint(config: &Config, node: &NodeNumbers) -> HealthEndpointSettings {
    let (before, generation) = node.health;
    HealthEndpointSettings {
        node: node_name(),
        families: Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 },
        router: node.router,
        mtu: routing(config).route_mtu(node.mtu, node.own.iter().next()),
        before,
        generation,
    }
}

/// How nodes are probed.
fn reachability(config: &Config, node: &NodeNumbers) -> ReachabilitySettings {
    ReachabilitySettings {
        key: NodeKey { cluster: config.cluster_name.clone(), name: node_name() },
        families: Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 },
        addresses: node.own,
        health: if config.health.has_endpoint() { node.health.0 } else { Default::default() },
        endpoints: config.health.enable_endpoint_health_checking,
        requests: config.health.health_check_icmp_failure_threshold,
        ratio: config.health.connectivity_probe_frequency_ratio,
    }
}

/// What the node has of several pools.
fn pod_pools(config: &Config, node: &NodeNumbers) -> PodPoolsSettings {
    let FoundPools { record, generation, trusted } = node.pools.clone();
    PodPoolsSettings {
        prefixes: OwnPrefixesSettings {
            node: node_name(),
            default_pool: config.pod_pools.ipam_default_ip_pool.clone(),
            home: Pools { ipv4: node.ipv4_range, ipv6: node.ipv6_range },
            record,
            trusted,
            generation,
            mark: life(),
            seed: seed(),
        },
        pre_allocation: config.pod_pools.pre_allocation(),
        unmasqueraded: Families {
            ipv4: config.enable_ipv4
                && config.enable_ipv4_masquerade
                && config.ipv4_native_routing_cidr.is_none(),
            ipv6: config.enable_ipv6
                && config.enable_ipv6_masquerade
                && config.ipv6_native_routing_cidr.is_none(),
        },
    }
}

/// How the node's interfaces that lead to the world are used.
fn devices(config: &Config, node: &NodeNumbers) -> DevicesSettings {
    let own = (node.ipv4_range.map(IpNet::from), node.ipv6_range.map(IpNet::from));
    let ipv4 = config.ipv4_native_routing_cidr.map(IpNet::from).or(own.0);
    let ipv6 = config.ipv6_native_routing_cidr.map(IpNet::from).or(own.1);
    // What comes and goes there is recorded once more at its endpoint.
    let each_packet = config.monitor_aggregation == MonitorAggregation::None;
    let records = [
        (config.bpf_events_trace_enabled && each_packet, device_flags::TRACE),
        (config.bpf_events_drop_enabled, device_flags::DROP),
    ];
    let masquerade = Families {
        ipv4: config.enable_ipv4 && config.enable_ipv4_masquerade,
        ipv6: config.enable_ipv6 && config.enable_ipv6_masquerade,
    };
    let records = records.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
    DevicesSettings {
        patterns: config.devices.clone(),
        pod_interfaces: POD_INTERFACES.to_owned(),
        node_addresses: node.own.iter().collect(),
        families: Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 },
        masquerade,
        // Where nothing is masqueraded there is no map of what is spared.
        unmasqueraded: [(ipv4, masquerade.ipv4), (ipv6, masquerade.ipv6)]
            .into_iter()
            .filter_map(|(prefix, on)| prefix.filter(|_| on).map(|prefix| prefix.trunc()))
            .collect(),
        own_prefixes: Default::default(),
        records,
    }
}

/// How packets of pods reach other nodes.
pub fn routing(config: &Config) -> Routing {
    match config.routing_mode {
        RoutingMode::Tunnel => Routing::Tunnel { port: config.tunnel_port },
        RoutingMode::Native => Routing::Native {
            direct: config.auto_direct_node_routes,
            skip_unreachable: config.direct_routing_skip_unreachable,
        },
    }
}

/// What the node says of itself in a cluster.
pub fn publish(config: &Config, node: &NodeNumbers) -> PublishSettings {
    // What flags choose is not for the cluster to say.
    let followed = Pools {
        ipv4: node.ipv4_range.filter(|_| config.ipv4_range == Range::Auto),
        ipv6: node.ipv6_range.filter(|_| config.ipv6_range == Range::Auto),
    };
    let taint = config.remove_cilium_node_taints.then(|| config.agent_not_ready_taint_key.clone());
    PublishSettings {
        node_name: node_name(),
        address: address(node),
        router: node.router,
        health: config.health.has_endpoint().then_some(node.health.0),
        pools: Pools { ipv4: node.ipv4_range, ipv6: node.ipv6_range },
        followed,
        ipam: config.ipam.map(IpamMode::from),
        boot_id: boot_id(),
        in_node: InNode {
            annotate: config.annotate_k8s_node,
            condition: config.set_cilium_is_up_condition,
            taint,
        },
        cilium_node: config.auto_create_cilium_node_resource,
        cilium_endpoints: !config.disable_endpoint_crd,
        seed: seed(),
    }
}

/// By which other nodes reach this one.
fn address(node: &NodeNumbers) -> IpAddr {
    node.own.iter().next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The same in the other family, if it has both.
fn other_address(node: &NodeNumbers) -> Option<IpAddr> {
    node.own.iter().nth(1)
}

/// Another number on every node.
fn seed() -> u64 {
    crc32fast::hash(node_name().as_bytes()).into()
}

/// Options of endpoints that say nothing else, by Cilium's names.
pub fn options(config: &Config) -> BTreeMap<String, i64> {
    [
        ("ConntrackAccounting", false),
        ("Debug", config.debug),
        ("DebugLB", false),
        ("DebugPolicy", false),
        ("DropNotification", config.bpf_events_drop_enabled),
        ("PolicyAccounting", true),
        ("PolicyAuditMode", false),
        ("PolicyVerdictNotification", config.bpf_events_policy_verdict_enabled),
        ("SourceIPVerification", config.enable_source_ip_verification),
        ("TraceNotification", config.bpf_events_trace_enabled),
    ]
    .into_iter()
    .map(|(name, on)| (name.to_owned(), i64::from(on)))
    .chain([("MonitorAggregationLevel".to_owned(), config.monitor_aggregation as i64)])
    .collect()
}
