//! What Prometheus reads: values are gathered when they are asked for, none is kept.

mod actors;
mod container_runtime;
mod datapath;
mod endpoints;
mod health;
mod kvstore;
mod mesh;
mod node;
mod process;
mod services;
mod sheet;
mod sources;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use volvox_actors::{
    cluster::container_runtime::RuntimeFollowerMsg,
    endpoints::{build_queue::BuildQueueMsg, ipam::IpamMsg, supervisor::EndpointsMsg},
    host::Waits,
    model::Labels,
    node::{auditor::AuditorMsg, conntrack::ConntrackMsg},
    node_supervisor::NodeSupervisor,
    policy::{identity::IdentityMsg, rules::PolicyMsg},
    restore::RestoreMsg,
};
use volvox_hubble::metrics::{Counted, FlowMetrics};
use volvox_inspect::http::ApiError;

use self::sheet::Sheet;
use super::{Api, sharing::Sharing};

/// OpenMetrics, which Prometheus asks for since version 2.5.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// What everybody else reads.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Answers `/metrics`, in OpenMetrics only if that is asked for.
pub(super) async fn serve(
    State(api): State<Api>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    answer(sheet(&api).await?, &headers)
}

/// Answers `/metrics` with what is counted of flows.
pub(super) async fn serve_flows(
    State(flows): State<FlowMetrics>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let mut sheet = Sheet::default();
    for Counted { name, help, series } in flows.show() {
        sheet.counter(name, help, series.into_iter().map(|(row, count)| (row, count as f64)));
    }
    answer(sheet, &headers)
}

fn answer(sheet: Sheet, headers: &HeaderMap) -> Result<Response, ApiError> {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let is_open = accepted.any(|it| it.contains("application/openmetrics-text"));
    let (kind, text) = match is_open {
        true => (OPEN_METRICS, sheet.text()),
        false => (PLAIN, sheet.plain()),
    };
    Ok(([(header::CONTENT_TYPE, kind)], text.map_err(ApiError::failed)?).into_response())
}

async fn sheet(api: &Api) -> Result<Sheet, ApiError> {
    let mut sheet = Sheet::default();
    let look = |node_supervisor: &NodeSupervisor| {
        let waits = |waits: &Waits| (waits.iter().count(), waits.cycle());
        (node_supervisor.host.cells(), node_supervisor.host.with_waits(waits))
    };
    let (cells, (waits, cycle)) = api.gateway.look(look).await?;
    actors::write(&mut sheet, &cells, waits, cycle.is_some());

    let what = "GET /metrics";
    let labels = Labels::default();
    let views = api
        .gateway
        .ask(what, |node| &node.endpoints, |reply| EndpointsMsg::List { labels, reply })
        .await?;
    let queue = api.gateway.ask(what, |node| &node.build_queue, BuildQueueMsg::Show).await?;
    endpoints::write(&mut sheet, &views, &queue);
    let regenerations =
        api.gateway.ask(what, |node| &node.endpoints, EndpointsMsg::Regenerations).await?;
    endpoints::write_regenerations(&mut sheet, &regenerations);
    let report = api.gateway.ask(what, |node| &node.restore, RestoreMsg::Report).await?;
    endpoints::write_restore(&mut sheet, &report, &api.spans.all());

    let leases = api.gateway.ask(what, |node| &node.ipam, IpamMsg::Dump).await?;
    node::write_addresses(&mut sheet, &leases, &api.facts);
    if let Some(pools) = super::pools::gather(api, what).await? {
        node::write_pools(&mut sheet, &pools);
    }
    let identities = api.gateway.ask(what, |node| &node.identities, IdentityMsg::List).await?;
    node::write_identities(&mut sheet, &identities);
    let endpoints = views.iter().map(|view| view.subject()).collect();
    let policy = api
        .gateway
        .ask(what, |node| &node.policy, |reply| PolicyMsg::Show { endpoints, reply })
        .await?;
    node::write_policy(&mut sheet, &policy);
    let conntrack = api.gateway.ask(what, |node| &node.conntrack, ConntrackMsg::Show).await?;
    node::write_conntrack(&mut sheet, &conntrack);

    let serving = super::services::gather(api, what).await?;
    services::write(&mut sheet, &serving);

    if let Some(report) = Sharing::gather(api, what).await? {
        kvstore::write(&mut sheet, &report);
    }
    if let Some(remotes) = super::mesh::gather(api, what).await? {
        mesh::write(&mut sheet, &remotes);
    }

    health::write(&mut sheet, &super::node_health::gather(api, what).await?);

    let runtime = api
        .gateway
        .ask_if(what, |node| node.container_runtime.as_ref(), RuntimeFollowerMsg::Show)
        .await?;
    if let Some(view) = runtime {
        container_runtime::write(&mut sheet, &view);
    }
    sources::write(&mut sheet, &super::sources::gather(api, what).await?);

    let audit = api.gateway.ask(what, |node| &node.auditor, AuditorMsg::Show).await?;
    node::write_audit(&mut sheet, &audit);

    let largest = views.iter().map(|view| view.realised.policy.len()).max().unwrap_or_default();
    datapath::write_maps(&mut sheet, &api.writes, largest, &serving);
    datapath::write(&mut sheet, &api.writes, &api.facts.bpf_root);
    process::write_recorder(&mut sheet, &api.flight);
    process::write(&mut sheet, &api.facts);
    Ok(sheet)
}
