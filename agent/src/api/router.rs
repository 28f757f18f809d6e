//! Which path and method leads to which handler, for the unix socket, the metrics port and the
//! dashboard.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{MethodRouter, get, post},
};

use volvox_actors::host::Beat;
use volvox_hubble::metrics::FlowMetrics;
use volvox_inspect::{flight::FlightView, http::json_response};

use super::{
    Facts, KubeProxyLook, Limiter, Opening, RuntimeOptions, StatusCollector,
    bounds::{addressed, bound_body},
    error::Framed,
    handlers::{
        about, config, debug_info, desired, endpoint, endpoint_config, endpoint_labels,
        endpoint_list, health, identity, ip, ipam, lacking, map, node, policy, rows, service,
        traffic, volvox,
    },
    metrics,
    reviewed::{Reviewer, reviewed},
};
use crate::{
    datapath::Writes,
    gateway::Gateway,
    ports::{DiskTrouble, Ears},
    spans::Spans,
};

/// What the handlers have.
#[derive(Clone, Debug)]
pub struct Api {
    /// The way to the actors.
    pub gateway: Gateway,
    /// What does not change.
    pub facts: Arc<Facts>,
    /// How often and how much at a time.
    pub limiter: Arc<Limiter>,
    /// Options of every endpoint.
    pub options: Arc<RuntimeOptions>,
    /// What was written to the kernel.
    pub writes: Writes,
    /// What was recorded.
    pub flight: FlightView,
    /// What the actors' thread is at.
    pub beat: Arc<Beat>,
    /// What keeps the state directory from being written.
    pub disk: DiskTrouble,
    /// Whether new endpoints may be made.
    pub opening: Opening,
    /// What sources said that no actor follows.
    pub ears: Ears,
    /// What was seen of a kube-proxy.
    pub kube_proxy: KubeProxyLook,
    /// How long parts of the start took.
    pub spans: Spans,
    /// Who looks after the state of the agent's parts.
    pub collector: StatusCollector,
}

/// What is served on the port for Prometheus, `--prometheus-serve-addr`.
pub fn metrics_router(api: Api) -> Router {
    let addressed = from_fn_with_state(api.clone(), addressed);
    Router::new().merge(metrics()).fallback(not_found).layer(addressed).with_state(api)
}

/// What is counted of flows, served on a port of its own, `--hubble-metrics-server`.
pub fn flow_metrics_router(api: Api, flows: FlowMetrics) -> Router {
    let addressed = from_fn_with_state(api, addressed);
    Router::new()
        .route("/metrics", get(metrics::serve_flows).with_state(flows))
        .fallback(not_found)
        .layer(addressed)
}

/// Only for whom the API server vouches.
pub fn for_reviewed(router: Router, reviewer: Arc<Reviewer>) -> Router {
    router.layer(from_fn_with_state(reviewer, reviewed))
}

/// What the dashboard asks of the running agent, below its `/api`.
pub fn dashboard_router(api: Api) -> Router {
    Router::new()
        .route("/actors", get(volvox::actors))
        .route("/actors/{id}", get(volvox::actor))
        .route("/endpoint/{id}", get(rows::compare))
        .route("/endpoint/{id}/about", get(about::get))
        .with_state(api)
}

fn metrics() -> Router<Api> {
    Router::new().route("/metrics", only(&[Method::GET], get(metrics::serve)))
}

/// Everything that is served on the unix socket.
pub fn router(api: Api) -> Router {
    Router::new()
        .merge(metrics())
        .nest("/v1", cilium().merge(endpoints()).nest("/volvox", own()))
        .fallback(not_found)
        .layer(from_fn(bound_body))
        .with_state(api)
}

fn endpoints() -> Router<Api> {
    Router::new()
        .route(
            "/endpoint",
            only(&[Method::GET, Method::DELETE], get(endpoint_list::list))
                .delete(endpoint_list::delete),
        )
        .route(
            "/endpoint/{id}",
            only(
                &[Method::GET, Method::PUT, Method::PATCH, Method::DELETE],
                get(endpoint::get).put(endpoint::put),
            )
            .patch(endpoint::patch)
            .delete(endpoint::delete),
        )
        .route("/endpoint/{id}/healthz", only(&[Method::GET], get(endpoint::health)))
        .route("/endpoint/{id}/log", only(&[Method::GET], get(endpoint::log)))
        .route(
            "/endpoint/{id}/labels",
            only(&[Method::GET, Method::PATCH], get(endpoint_labels::get))
                .patch(endpoint_labels::patch),
        )
        .route(
            "/endpoint/{id}/config",
            only(&[Method::GET, Method::PATCH], get(endpoint_config::get))
                .patch(endpoint_config::patch),
        )
}

fn cilium() -> Router<Api> {
    Router::new()
        .route("/healthz", only(&[Method::GET], get(health::get)))
        .route(
            "/config",
            only(&[Method::GET, Method::PATCH], get(config::get)).patch(config::patch),
        )
        .route("/identity", only(&[Method::GET], get(identity::list)))
        .route("/identity/endpoints", only(&[Method::GET], get(identity::endpoints)))
        .route("/identity/{id}", only(&[Method::GET], get(identity::get)))
        .route("/ipam", only(&[Method::POST], post(ipam::allocate)))
        .route(
            "/ipam/{ip}",
            only(&[Method::POST, Method::DELETE], post(ipam::reserve)).delete(ipam::release),
        )
        .route("/policy", only(&[Method::GET], get(policy::get)))
        .route("/policy/selectors", only(&[Method::GET], get(policy::selectors)))
        .route("/policy/subject-selectors", only(&[Method::GET], get(policy::subject_selectors)))
        .route("/service", only(&[Method::GET], get(service::list)))
        .route("/service/{id}", only(&[Method::GET], get(service::get)))
        .route("/map", only(&[Method::GET], get(map::list)))
        .route("/map/{name}", only(&[Method::GET], get(map::get)))
        .merge(lacking())
        .route("/ip", only(&[Method::GET], get(ip::list)))
        .route("/node/ids", only(&[Method::GET], get(node::ids)))
        .route("/cluster/nodes", only(&[Method::GET], get(node::cluster)))
        .route("/debuginfo", only(&[Method::GET], get(debug_info::get)))
}

/// What Cilium has, and there is nothing to say about.
fn lacking() -> Router<Api> {
    use lacking::{
        bgp, control_groups, forget_names, map_events, name_cache, names, prefilter,
        redirect_policies,
    };
    let mut router = Router::new()
        .route("/lrp", only(&[Method::GET], get(redirect_policies)))
        .route("/fqdn/names", only(&[Method::GET], get(names)))
        .route(
            "/fqdn/cache",
            only(&[Method::GET, Method::DELETE], get(name_cache)).delete(forget_names),
        )
        .route("/fqdn/cache/{id}", only(&[Method::GET], get(name_cache)))
        .route("/cgroup-dump-metadata", only(&[Method::GET], get(control_groups)))
        .route(
            "/prefilter",
            only(&[Method::GET, Method::PATCH, Method::DELETE], get(prefilter))
                .patch(prefilter)
                .delete(prefilter),
        )
        .route("/map/{name}/events", only(&[Method::GET], get(map_events)));
    for of in ["peers", "routes", "route-policies"] {
        router = router.route(&format!("/bgp/{of}"), only(&[Method::GET], get(bgp)));
    }
    router
}

/// What Cilium has not.
fn own() -> Router<Api> {
    Router::new()
        .route("/actors", only(&[Method::GET], get(volvox::actors)))
        .route("/actors/{id}", only(&[Method::GET], get(volvox::actor)))
        .route("/waits", only(&[Method::GET], get(volvox::waits)))
        .route("/policy", only(&[Method::GET], get(policy::status)))
        .route("/policy/origins", only(&[Method::GET], get(policy::origins)))
        .route("/traffic", only(&[Method::GET], get(traffic::get)))
        .route("/services", only(&[Method::GET], get(service::summary)))
        .route(
            "/backends",
            only(&[Method::GET, Method::PATCH], get(service::backends))
                .patch(service::patch_backend),
        )
        .route("/restore", only(&[Method::GET], get(volvox::restore)))
        .route("/build-queue", only(&[Method::GET], get(volvox::build_queue)))
        .route("/conntrack", only(&[Method::GET], get(volvox::conntrack)))
        .route("/devices", only(&[Method::GET], get(volvox::devices)))
        .route("/sources", only(&[Method::GET], get(volvox::sources)))
        .route("/ipam", only(&[Method::GET], get(volvox::ipam)))
        .route("/pools", only(&[Method::GET], get(volvox::pools)))
        .route("/desired", only(&[Method::GET], get(desired::get)))
        .route("/flight", only(&[Method::GET], get(volvox::flight)))
        .route("/endpoint-states", only(&[Method::GET], get(volvox::endpoint_states)))
        .merge(metrics())
        .route("/endpoint/{id}/why", only(&[Method::GET], get(volvox::why)))
        .route("/endpoint/{id}/rows", only(&[Method::GET], get(rows::compare)))
        .route("/endpoint/{id}/regenerate", only(&[Method::POST], post(volvox::regenerate)))
}

/// Answers every other method with the methods there are.
fn only(methods: &'static [Method], router: MethodRouter<Api>) -> MethodRouter<Api> {
    router.fallback(move |method: Method| async move {
        let names: Vec<_> = methods.iter().map(Method::as_str).collect();
        let message = format!("method {method} is not allowed, but [{}] are", names.join(","));
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let mut response = json_response(status, &Framed { code: status.as_u16(), message });
        if let Ok(allowed) = HeaderValue::from_str(&names.join(",")) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        response
    })
}

async fn not_found(request: Request) -> Response {
    let status = StatusCode::NOT_FOUND;
    let message = format!("path {} was not found", request.uri().path());
    json_response(status, &Framed { code: status.as_u16(), message })
}
