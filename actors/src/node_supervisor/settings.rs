//! How the node is to be run and what it asks of the world, and what each supervisor is told of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use ipnet::IpNet;
use serde_json::Value;

use crate::{
    cluster::{
        allocator, api_server::ClusterSettings, clustermesh::MeshSettings,
        health_endpoint::HealthEndpointSettings, kvstore::KvSettings, publish::PublishSettings,
        reachability::ReachabilitySettings, remote_nodes::RemoteNodesSettings,
    },
    endpoints::{ipam::Pools, supervisor::Schedule},
    model::NodeKey,
    node::{
        devices::DevicesSettings,
        local_node::NodeSettings,
        routes::{RoutesSettings, RoutingMode},
    },
    policy::{identity::LabelFilter, rules::PolicySettings},
    ports::{
        AgentNotices, Cluster, ContainerRuntime, Disk, HealthListeners, HealthPlaces, Kernel,
        KvStore, Probes, RemoteClusters,
    },
    services::service_cache::{Balancing, ServiceSource, ServicesSettings},
};

/// What the actors ask of the world.
#[derive(Clone)]
pub struct Ports {
    /// BPF maps, programs, interfaces and routes.
    pub kernel: Rc<dyn Kernel>,
    /// The state and library directories.
    pub disk: Rc<dyn Disk>,
    /// The store that the nodes of the cluster share, if there is one.
    pub kvstore: Option<Rc<dyn KvStore>>,
    /// The API server, if a cluster is followed.
    pub cluster: Option<Rc<dyn Cluster>>,
    /// Other clusters, if this one is meshed with them.
    pub clusters: Option<Rc<dyn RemoteClusters>>,
    /// Where load balancers ask for services, if they are answered.
    pub health_listeners: Option<Rc<dyn HealthListeners>>,
    /// Where the health endpoint is, if there may be one.
    pub health_places: Option<Rc<dyn HealthPlaces>>,
    /// Who sends probes to nodes, if any are sent.
    pub probes: Option<Rc<dyn Probes>>,
    /// The node's container runtime, if one is followed.
    pub container_runtime: Option<Rc<dyn ContainerRuntime>>,
    /// Who hears of what happens on the node, if anybody does.
    pub notices: Option<Rc<dyn AgentNotices>>,
}

/// How services are served on this node.
#[derive(Clone, Copy, Debug)]
pub struct ServingChoices {
    /// How their load is balanced.
    pub balancing: Balancing,
    /// Whether sockets connect to backends themselves.
    pub sockets: bool,
    /// Whether TCP connections by services end with their backend.
    pub ends_tcp: bool,
}

/// How this node is to be run.
#[derive(Clone, Debug)]
pub struct NodeSupervisorSettings {
    /// Name of the cluster.
    pub cluster: String,
    /// What applies to all policies, address families among it.
    pub policy: PolicySettings,
    /// Addresses that are handed out.
    pub pools: Pools,
    /// Which labels count for an identity.
    pub label_filter: LabelFilter,
    /// Options of a new endpoint, by Cilium's names.
    pub options: BTreeMap<String, i64>,
    /// Builds that run at the same time.
    pub permits: usize,
    /// How often endpoints are looked after, and how much each may queue.
    pub schedule: Schedule,
    /// Time between two collections of connections; `None` adapts it to what is found.
    pub conntrack_interval: Option<Duration>,
    /// How services are served.
    pub serving: ServingChoices,
    /// What is this node's own.
    pub node: NodeSettings,
    /// How its devices are used.
    pub devices: DevicesSettings,
    /// How packets of pods reach other nodes.
    pub routing: RoutingMode,
    /// The largest packet that the node's own devices take, bytes.
    pub mtu: u32,
    /// How it takes part in what the nodes of the cluster share.
    pub kvstore: KvSettings,
    /// Who has numbers of identities handed out.
    pub identity_allocation: allocator::Mode,
    /// How the cluster is followed, if one is.
    pub follow: ClusterSettings,
    /// CustomResourceDefinitions that are brought to the cluster, if one is followed.
    pub definitions: Vec<Value>,
    /// What the node says of itself in the cluster, if one is followed; `None` is nothing.
    pub publish: Option<PublishSettings>,
    /// How its health endpoint is to be, if there is to be one.
    pub health_endpoint: Option<HealthEndpointSettings>,
    /// How nodes are probed, if they are.
    pub reachability: Option<ReachabilitySettings>,
}

/// Prefixes of pools that the node has at its start.
pub(super) fn own_prefixes(settings: &NodeSupervisorSettings) -> BTreeSet<IpNet> {
    let pools = settings.follow.pod_pools.iter();
    pools.flat_map(|pools| pools.prefixes.prefixes().into_keys()).collect()
}

/// What this node is to the others of its cluster.
pub(super) fn nodes_settings(
    settings: &NodeSupervisorSettings,
    has_node: bool,
) -> RemoteNodesSettings {
    let KvSettings { cluster, cluster_id, meshed, node, address, other_address, boot_id, .. } =
        &settings.kvstore;
    RemoteNodesSettings {
        key: NodeKey { cluster: cluster.clone(), name: node.clone() },
        cluster_id: *cluster_id,
        meshed: *meshed,
        by_labels: settings.policy.node_selectors,
        addresses: [Some(*address), *other_address].into_iter().flatten().collect(),
        router: settings.node.router,
        pools: settings.pools,
        own_prefixes: own_prefixes(settings),
        boot_id: boot_id.clone(),
        health: settings.health_endpoint.as_ref().map(|it| it.before).unwrap_or_default(),
        has_node,
    }
}

/// How it reaches them. Outside a cluster there are none.
pub(super) fn routes_settings(
    settings: &NodeSupervisorSettings,
    in_cluster: bool,
) -> RoutesSettings {
    let KvSettings { address, other_address, .. } = &settings.kvstore;
    RoutesSettings {
        mode: settings.routing,
        families: settings.policy.families,
        addresses: [Some(*address), *other_address].into_iter().flatten().collect(),
        router: settings.node.router,
        pools: settings.pools,
        own_prefixes: own_prefixes(settings),
        mtu: settings.mtu,
        records: settings.devices.records,
        alone: !in_cluster,
    }
}

/// How services are served, and who says something of them.
pub(super) fn services_settings(
    settings: &NodeSupervisorSettings,
    ports: &Ports,
) -> ServicesSettings {
    let said = [
        (ServiceSource::Cluster, ports.cluster.is_some()),
        (ServiceSource::Ingresses, ports.cluster.is_some()),
        (ServiceSource::Pods, ports.cluster.is_some()),
        // A cluster says all there is itself.
        (ServiceSource::Manifests, ports.cluster.is_none()),
        (ServiceSource::Node, true),
        (ServiceSource::Mesh, ports.clusters.is_some()),
    ];
    ServicesSettings {
        node: settings.kvstore.node.clone(),
        families: settings.policy.families,
        balancing: settings.serving.balancing,
        ends_tcp: settings.serving.ends_tcp,
        sources: said.into_iter().filter(|(_, is)| *is).map(|(source, _)| source).collect(),
    }
}

/// What it is to other clusters.
pub(super) fn mesh_settings(settings: &NodeSupervisorSettings) -> MeshSettings {
    let KvSettings { cluster, cluster_id, seed, .. } = &settings.kvstore;
    MeshSettings { cluster: cluster.clone(), id: *cluster_id, seed: *seed }
}
