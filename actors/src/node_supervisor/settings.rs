//! What supervisors are told of how the node is to be run.

use super::{NodeSupervisorSettings, Ports};
use crate::{
    cluster::{clustermesh::MeshSettings, kvstore::KvSettings, remote_nodes::RemoteNodesSettings},
    model::NodeKey,
    node::routes::RoutesSettings,
    services::service_cache::{ServiceSource, ServicesSettings},
};

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
        boot_id: boot_id.clone(),
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
        balancing: settings.balancing,
        sources: said.into_iter().filter(|(_, is)| *is).map(|(source, _)| source).collect(),
    }
}

/// What it is to other clusters.
pub(super) fn mesh_settings(settings: &NodeSupervisorSettings) -> MeshSettings {
    let KvSettings { cluster, cluster_id, seed, .. } = &settings.kvstore;
    MeshSettings { cluster: cluster.clone(), id: *cluster_id, seed: *seed }
}
