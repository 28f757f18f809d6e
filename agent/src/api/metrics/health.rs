//! Metrics of the health of nodes, by Cilium's names.

use volvox_actors::cluster::reachability::{BUCKETS_US, LatencyHistogram, LatencyKey};

use super::{
    super::node_health::NodeHealthViews,
    sheet::{Histogram, Row, Sheet, bare, row},
};

pub(super) fn write(sheet: &mut Sheet, views: &NodeHealthViews) {
    if let Some(endpoint) = &views.endpoint {
        sheet.counter(
            "cilium_subprocess_start",
            "How often the health endpoint was made anew",
            [row([("subsystem", "cilium-health")], endpoint.made as f64)],
        );
    }
    let Some(reach) = &views.reach else { return };
    let counts = [("node", false), ("endpoint", true)].into_iter().flat_map(|(of, endpoints)| {
        reach
            .counts(endpoints)
            .map(|(status, count)| row([("type", of), ("status", status)], count as f64))
    });
    sheet.gauge(
        "cilium_node_health_connectivity_status",
        "Addresses of nodes and of their health endpoints by whether they are reached",
        counts,
    );
    let latencies: Vec<_> = reach.latencies.iter().map(latency).collect();
    if !latencies.is_empty() {
        sheet.histogram(
            "cilium_node_health_connectivity_latency_seconds",
            "How long nodes and their health endpoints took to answer; 10 s if they did not",
            latencies,
        );
    }
    let unreached = reach.nodes.iter().filter(|node| node.problem().is_some()).count();
    sheet.gauge(
        "volvox_nodes_unreached",
        "Nodes of which an address or the health endpoint is not reached",
        bare(unreached as f64),
    );
}

fn latency((key, histogram): (&LatencyKey, &LatencyHistogram)) -> (Row, Histogram) {
    let labels = [("type", key.of), ("protocol", key.protocol), ("address_type", key.address)];
    let bounds = BUCKETS_US.iter().map(|bound| *bound as f64 / 1e6);
    let values = Histogram {
        sum: histogram.sum.as_secs_f64(),
        count: histogram.count,
        buckets: bounds.zip(histogram.buckets).collect(),
    };
    (labels.map(|(name, value)| (name, value.to_owned())).to_vec(), values)
}
