//! Default settings of an agent in tests.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    cluster::{allocator, api_server::ClusterSettings, kvstore::KvSettings},
    endpoints::{ipam::Pools, supervisor::Schedule},
    model::{Addresses, ClusterId, Families},
    node::{devices::DevicesSettings, local_node::NodeSettings, routes::RoutingMode},
    node_supervisor::{NodeSupervisorSettings, ServingChoices},
    policy::{
        identity::LabelFilter,
        rules::{OwnCluster, PolicySettings},
    },
    services::service_cache::Balancing,
};

/// How the agent of a node in memory is run.
pub(super) fn settings() -> NodeSupervisorSettings {
    NodeSupervisorSettings {
        cluster: "default".to_owned(),
        policy: PolicySettings {
            cluster: Some(OwnCluster::new("default")),
            ..PolicySettings::default()
        },
        pools: Pools { ipv4: "10.0.0.0/24".parse().ok(), ipv6: "fd00::/112".parse().ok() },
        label_filter: LabelFilter::new([]).unwrap(),
        options: BTreeMap::from([("SourceIPVerification".to_owned(), 1)]),
        permits: 2,
        schedule: Schedule {
            sweep: Duration::from_secs(30),
            collect: Duration::from_secs(300),
            queue: 25,
        },
        conntrack_interval: None,
        serving: ServingChoices { balancing: Balancing::default(), sockets: true, ends_tcp: false },
        follow: ClusterSettings {
            node_name: "node-1".to_owned(),
            seed: 1,
            sync_timeout: Duration::from_secs(180),
            further: Vec::new(),
            plain_nodes_after: Duration::ZERO,
            pod_pools: None,
            before: None,
        },
        definitions: Vec::new(),
        publish: None,
        health_endpoint: None,
        reachability: None,
        node: NodeSettings {
            families: Families::DUAL,
            router: Addresses { ipv4: "10.0.0.254".parse().ok(), ipv6: None },
            pod_interfaces: "lxc".to_owned(),
            facts: Default::default(),
        },
        devices: DevicesSettings {
            patterns: Vec::new(),
            pod_interfaces: "lxc".to_owned(),
            node_addresses: ["192.0.2.1".parse().unwrap()].into(),
            families: Families::DUAL,
            masquerade: Families::DUAL,
            unmasqueraded: ["10.0.0.0/8".parse().unwrap()].into(),
            own_prefixes: Default::default(),
            records: 0,
        },
        routing: RoutingMode::Tunnel { port: 8472 },
        mtu: 1500,
        kvstore: KvSettings {
            cluster: "default".to_owned(),
            cluster_id: ClusterId(0),
            node: "here".to_owned(),
            address: "192.0.2.1".parse().unwrap(),
            other_address: None,
            before: None,
            meshed: false,
            boot_id: "7af8560e-12b9-4753-bdec-52b254fe026f".to_owned(),
            lease_ttl: Duration::from_secs(900),
            seed: 1,
        },
        identity_allocation: allocator::Mode::Kvstore,
    }
}
