//! `GET /volvox/desired`: what the actors want the kernel and the disk to be like, for who verifies the node
//! from outside.

use axum::extract::State;
use volvox_actors::{
    endpoints::{ipam::IpamMsg, supervisor::EndpointsMsg},
    model::Labels,
    node::{
        auditor::AuditorMsg,
        verification::{DesiredEndpoint, DesiredNode},
    },
    restore::RestoreMsg,
    services::service_cache::ServicesMsg,
};
use volvox_inspect::http::{Answer, ok};

use crate::api::Api;

pub(crate) async fn get(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/desired";
    let gateway = &api.gateway;
    let restored = gateway.ask(what, |node| &node.restore, RestoreMsg::Report).await?.finished;
    let services = gateway.ask(what, |node| &node.services, ServicesMsg::List).await?;
    let status = gateway.ask(what, |node| &node.services, ServicesMsg::Show).await?;
    let leases = gateway.ask(what, |node| &node.ipam, IpamMsg::Dump).await?;
    let audit = gateway.ask(what, |node| &node.auditor, AuditorMsg::Show).await?;
    let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
    let views = gateway.ask(what, |node| &node.endpoints, list).await?;
    let recorder = match api.flight.path() {
        None if !api.flight.is_off() => api.flight.troubles(),
        _ => Vec::new(),
    };
    let desired = DesiredNode {
        restored,
        endpoints: views.iter().map(|view| DesiredEndpoint::of(view)).collect(),
        broken: audit.broken.clone(),
        recorder,
        ..DesiredNode::default()
    };
    let known = status.awaited.is_empty() && status.open == 0;
    ok(&desired.with_leases(&leases).with_services(&services, known))
}
