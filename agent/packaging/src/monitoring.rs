//! What Prometheus and Grafana need to watch agents: alerts, whom to scrape, and a dashboard.

use serde_json::{Value, json};
use volvox_inspect::manifests;

use crate::objects::NAME;

/// Alerts, as a file of rules.
pub const RULES: &str = include_str!("../monitoring/rules.yaml");
/// Objects by which the operator of Prometheus finds agents that serve metrics.
pub const SERVICE_MONITOR: &str = include_str!("../monitoring/service-monitor.yaml");
/// Grafana's dashboard, as JSON.
pub const DASHBOARD: &str = include_str!("../monitoring/dashboard.json");

/// Alerts, as an object of the operator of Prometheus.
pub fn prometheus_rule(namespace: &str) -> Value {
    // A file of this crate that cannot be read fails its test, not a cluster.
    let rules = manifests::objects(RULES).unwrap_or_default();
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": { "name": NAME, "namespace": namespace, "labels": { "k8s-app": NAME } },
        "spec": rules.first().cloned().unwrap_or_default(),
    })
}
