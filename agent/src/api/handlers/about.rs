//! Who an endpoint is, for its page of the dashboard: its pod, labels, addresses, and the policies that are
//! for it.

use axum::extract::State;
use serde::Serialize;
use volvox_actors::policy::rules::{PolicyMsg, PolicyStatus};
use volvox_inspect::http::{Answer, ok};

use super::endpoint::view;
use crate::api::{Api, extract::Segment};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct About {
    id: u16,
    pod: Option<String>,
    identity: u32,
    /// Labels that its identity is of,
    labels: Vec<String>,
    /// and others.
    further_labels: Vec<String>,
    addresses: Vec<String>,
    interface: String,
    container: String,
    ingress_enforced: bool,
    egress_enforced: bool,
    policy_revision: u64,
    policies: Vec<Selecting>,
}

/// A policy that selects it.
#[derive(Debug, Serialize)]
struct Selecting {
    kind: String,
    /// Its name, within its namespace if it has one.
    name: String,
    /// File, or whatever else it comes from.
    source: String,
    /// Why its newest version is not in force.
    error: Option<String>,
}

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let view = view(&api, &id).await?;
    let endpoints = vec![view.subject()];
    let what = format!("GET /endpoint/{}/about", view.id);
    let show = |reply| PolicyMsg::Show { endpoints, reply };
    let policies = api.gateway.ask(what, |node| &node.policy, show).await?;
    let spec = &view.spec;
    ok(&About {
        id: view.id.0,
        pod: spec.pod(),
        identity: view.identity.0,
        labels: view.identity_labels.to_texts(),
        further_labels: view.info_labels.to_texts(),
        addresses: spec.addresses.iter().map(|address| address.to_string()).collect(),
        interface: spec.interface(),
        container: spec.container_id.clone(),
        ingress_enforced: view.realised.ingress_enforced,
        egress_enforced: view.realised.egress_enforced,
        policy_revision: policies.revision,
        policies: policies.policies.iter().filter_map(selecting).collect(),
    })
}

fn selecting(status: &PolicyStatus) -> Option<Selecting> {
    let policy = status.policy.as_ref().filter(|_| status.selects > 0)?;
    let name = match &policy.namespace {
        Some(namespace) => format!("{namespace}/{}", policy.name),
        None => policy.name.clone(),
    };
    let error = status.error.as_ref().map(ToString::to_string);
    Some(Selecting { kind: policy.kind.to_string(), name, source: status.source.clone(), error })
}
