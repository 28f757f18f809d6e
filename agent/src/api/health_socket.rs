//! `health.sock`: how nodes are reached, as clients of Cilium's health daemon ask for it (`/v1beta`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    extract::State,
    routing::{get, put},
};
use volvox_actors::{
    cluster::reachability::{AddressReach, NodeReach, ProbeResult, ReachabilityView},
    model::Timestamp,
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    ConnectivityStatus, HealthAnswer, HealthStatus, LocalNode, NodeHealthStatus, PathStatus,
    PathsStatus, SystemLoad,
};
use volvox_system::duration::format_duration;

use super::{Api, handlers::health, node_health};

/// Its name beside the API's socket.
const NAME: &str = "health.sock";

/// Where it is, beside the API's socket.
pub fn health_socket_beside(api: &Path) -> PathBuf {
    api.with_file_name(NAME)
}

/// What is served there.
pub fn health_socket_router(api: Api) -> Router {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/status", get(status))
        // As Cilium 1.19: no probe is sent for it, the latest results are answered.
        .route("/status/probe", put(status));
    Router::new().nest("/v1beta", routes).with_state(api)
}

async fn healthz(State(api): State<Api>) -> Answer {
    let cilium = health::status(&api, false).await?;
    let cilium = serde_json::to_value(cilium).map_err(ApiError::failed)?;
    let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(api.facts.began);
    let uptime = began.elapsed().unwrap_or_default();
    let uptime = format_duration(Duration::from_secs(uptime.as_secs()));
    ok(&HealthAnswer { cilium, system_load: load(&api.facts.procfs), uptime })
}

/// The last results: no probe is waited for.
async fn status(State(api): State<Api>) -> Answer {
    let views = node_health::gather(&api, "GET /status of health.sock").await?;
    let reach = views.reach.ok_or_else(|| {
        ApiError::unavailable("nodes are not probed: start the agent with --enable-health-checking")
    })?;
    ok(&shown(&reach))
}

fn shown(reach: &ReachabilityView) -> HealthStatus {
    HealthStatus {
        local: LocalNode { name: reach.local.clone() },
        nodes: reach.nodes.iter().map(node).collect(),
        probe_interval: format_duration(reach.interval),
        timestamp: Timestamp::from_nanos(reach.began).0,
    }
}

fn node(reach: &NodeReach) -> NodeHealthStatus {
    let health_endpoint = paths(&reach.endpoint);
    NodeHealthStatus {
        endpoint: health_endpoint.as_ref().map(|it| it.primary_address.clone()),
        health_endpoint,
        host: paths(&reach.host),
        name: reach.name.clone(),
    }
}

fn paths(all: &[AddressReach]) -> Option<PathsStatus> {
    let (primary, others) = all.split_first()?;
    let others: Vec<_> = others.iter().map(path).collect();
    Some(PathsStatus {
        primary_address: path(primary),
        secondary_addresses: Some(others).filter(|others| !others.is_empty()),
    })
}

fn path(reach: &AddressReach) -> PathStatus {
    let result = |result: &Option<ProbeResult>| {
        let ProbeResult { latency, error, probed } = result.as_ref()?;
        Some(ConnectivityStatus {
            last_probed: Timestamp::from_nanos(*probed).0,
            latency: u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX),
            status: error.clone().unwrap_or_default(),
        })
    };
    PathStatus { http: result(&reach.http), icmp: result(&reach.icmp), ip: reach.ip.to_string() }
}

fn load(procfs: &Path) -> SystemLoad {
    let text = fs::read_to_string(procfs.join("loadavg"));
    // Where only a part of it is mounted, the container's own says the same.
    let text = text.or_else(|_| fs::read_to_string("/proc/loadavg")).unwrap_or_default();
    let mut words = text.split_whitespace().map(str::to_owned);
    let mut next = || words.next().unwrap_or_default();
    SystemLoad { last1min: next(), last5min: next(), last15min: next() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shapes_are_cilium_s() {
        let result = |error: Option<&str>| {
            let error = error.map(str::to_owned);
            Some(ProbeResult { latency: Duration::from_micros(352), error, probed: 0 })
        };
        let reach = |last: u8, icmp, http| AddressReach { ip: [10, 0, 0, last].into(), icmp, http };
        let view = ReachabilityView {
            began: 0,
            interval: Duration::from_nanos(96_566_274_747),
            local: "vm".to_owned(),
            nodes: vec![NodeReach {
                name: "vm".to_owned(),
                local: true,
                host: vec![reach(1, result(None), result(None)), reach(2, None, None)],
                endpoint: vec![reach(3, result(Some("Connection timed out")), None)],
            }],
            ..ReachabilityView::default()
        };
        let good = json!({ "lastProbed": "1970-01-01T00:00:00Z", "latency": 352_000 });
        let mut bad = good.clone();
        bad["status"] = "Connection timed out".into();
        let endpoint = json!({ "ip": "10.0.0.3", "icmp": bad });
        let expected = json!({
            "local": { "name": "vm" },
            "nodes": [{
                "name": "vm",
                "host": {
                    "primary-address": { "ip": "10.0.0.1", "icmp": good, "http": good },
                    "secondary-addresses": [{ "ip": "10.0.0.2" }],
                },
                "health-endpoint": { "primary-address": endpoint, "secondary-addresses": null },
                "endpoint": endpoint,
            }],
            "probeInterval": "1m36.566274747s",
            "timestamp": "1970-01-01T00:00:00Z",
        });
        assert_eq!(serde_json::to_value(shown(&view)).unwrap(), expected);
    }
}
