//! The ports for Prometheus: where they are, how they are spoken to, and by whom.

use std::net::{SocketAddr, TcpListener};

use axum::Router;
use volvox_cluster::Connection;
use volvox_hubble::metrics::FlowMetrics;
use volvox_inspect::http::{Socket, Tls};

use crate::{
    api::{Api, Reviewer, flow_metrics_router, for_reviewed, metrics_router},
    config::Config,
    node_name::node_name,
    servers::listen,
};

/// What is spoken over TLS.
const HTTP: &[u8] = b"http/1.1";

/// Listens for whoever asks for metrics. A port that cannot be had is no reason to end.
pub(crate) fn sockets(
    config: &Config,
    api: &Api,
    flows: Option<FlowMetrics>,
) -> Vec<(Socket, Router)> {
    let options = &config.metrics;
    let reviewer = config
        .api_server()
        .filter(|_| options.prometheus_token_review)
        .map(|access| Reviewer::new(Connection::new(access)));
    let own = options
        .address(options.prometheus_serve_addr)
        .map(|address| ("--prometheus-serve-addr", address, metrics_router(api.clone())));
    let flows = options.address(options.hubble_metrics_server).zip(flows).map(|(at, flows)| {
        ("--hubble-metrics-server", at, flow_metrics_router(api.clone(), flows))
    });
    let served = |(flag, address, router): (_, SocketAddr, _)| {
        let socket = with_tls(config, listen(address, flag)?, address)?;
        Some(match &reviewer {
            Some(reviewer) => (socket, for_reviewed(router, reviewer.clone())),
            None => (socket, router),
        })
    };
    own.into_iter().chain(flows).filter_map(served).collect()
}

/// By the certificate that is named, or by one of its own where tokens are shown.
fn with_tls(config: &Config, listener: TcpListener, address: SocketAddr) -> Option<Socket> {
    let options = &config.metrics;
    let tls = match (options.tls_files(), options.prometheus_token_review) {
        (Some(files), _) => Tls::new(files, HTTP),
        (None, true) => {
            let own = Tls::own(vec![node_name(), address.ip().to_string()], HTTP);
            own.inspect_err(|error| tracing::error!(%error, "metrics are not served")).ok()?
        }
        (None, false) => return Some(Socket::Tcp(listener)),
    };
    Some(Socket::Tls(listener, tls))
}
