//! Metrics of the cluster mesh: how each remote cluster stands.

use volvox_rest::models::RemoteCluster;

use super::sheet::{Sheet, bare, row};

pub(super) fn write(sheet: &mut Sheet, remotes: &[RemoteCluster]) {
    let help = "Other clusters that are read";
    sheet.gauge("cilium_clustermesh_remote_clusters", help, bare(remotes.len() as f64));
    let each = |value: fn(&RemoteCluster) -> f64| {
        remotes.iter().map(move |it| row([("target_cluster", &*it.name)], value(it)))
    };
    let help = "Whether all that a cluster has is known";
    let ready = each(|it| f64::from(u8::from(it.ready)));
    sheet.gauge("cilium_clustermesh_remote_cluster_readiness_status", help, ready);
    let help = "Nodes of a cluster";
    sheet.gauge("cilium_clustermesh_remote_cluster_nodes", help, each(|it| it.num_nodes as f64));
    let help = "Addresses that a cluster names";
    let endpoints = each(|it| it.num_endpoints as f64);
    sheet.gauge("cilium_clustermesh_remote_cluster_endpoints", help, endpoints);
}
