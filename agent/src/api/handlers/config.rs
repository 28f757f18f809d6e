//! `GET` and `PATCH /config`: the agent's configuration, and the options that all endpoints share.

use std::collections::BTreeMap;

use axum::extract::State;
use tokio::task::JoinSet;
use volvox_actors::{
    endpoints::{
        endpoint::{Patch, PatchError},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::{EndpointId, Labels},
    node::local_node::NodeMsg,
    policy::rules::{Enforcement, PolicyMsg},
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    Configuration, ConfigurationSpec, ConfigurationStatus, DEBUG, KvstoreConfiguration, OptionsOf,
    option_texts, parse_options,
};

use super::{endpoint::not_changed, endpoint_list::views, node::addressing};
use crate::{
    api::{Api, extract::Json, features},
    logging,
};

/// Largest packets that Linux offloads unless told otherwise, bytes.
const OFFLOAD_BYTES_MAX: u32 = 65536;
/// How many endpoints are changed at a time.
const CHANGES_MAX: usize = 64;

pub(crate) async fn get(State(api): State<Api>) -> Answer {
    let facts = &api.facts;
    let spec = spec(&api);
    let own = api.gateway.ask("GET /config", |node| &node.node, NodeMsg::Show).await?;
    let node = &own.facts;
    ok(&Configuration {
        status: ConfigurationStatus {
            gro_ipv4_max_size: OFFLOAD_BYTES_MAX,
            gro_max_size: OFFLOAD_BYTES_MAX,
            gso_ipv4_max_size: OFFLOAD_BYTES_MAX,
            gso_max_size: OFFLOAD_BYTES_MAX,
            addressing: addressing(&api, &own),
            daemon_configuration_map: facts.settings.clone(),
            datapath_mode: "veth".to_owned(),
            device_mtu: node.mtu,
            ipam_mode: facts.ipam_mode.clone(),
            kvstore_configuration: (facts.features.kvstore.clone())
                .map(|(kind, options)| KvstoreConfiguration { kind, options })
                .unwrap_or_default(),
            masquerade_protocols: features::protocols(&facts.features),
            realized: spec.clone(),
            route_mtu: facts.routing.route_mtu(node.mtu, node.addresses.iter().next()),
        },
        spec,
    })
}

/// Changes the options of every endpoint, living and to come, and when they are held to policy; comes back once that is in force.
pub(crate) async fn patch(
    State(api): State<Api>,
    Json(expected): Json<ConfigurationSpec>,
) -> Answer {
    let turn = api.options.turn().await?;
    // Whoever asked may go away. What began is finished all the same, and others wait for that.
    let carried_out = tokio::spawn(async move {
        let answer = carry_out(&api, &expected).await;
        drop(turn);
        answer
    });
    carried_out.await.map_err(ApiError::failed)?
}

async fn carry_out(api: &Api, expected: &ConfigurationSpec) -> Answer {
    let now = spec(api);
    let mut options = parse_options(&expected.options, &now.options, OptionsOf::Node)
        .map_err(ApiError::bad_request)?;
    // The agent's own: programs write no debug records.
    if let Some(debug) = options.remove(DEBUG) {
        logging::set_debug(debug != 0);
        api.options.set(&BTreeMap::from([(DEBUG.to_owned(), debug)]));
    }
    let enforcement = expected_enforcement(&expected.policy_enforcement)?;
    let changed = change_options(api, &options).await;
    // Also if it is said to be so: one that was not answered in time may have come true since.
    let enforced = match enforcement {
        Some(enforcement) => enforce(api, enforcement).await,
        None => Ok(()),
    };
    // An endpoint that does not take its options keeps nothing else from coming true.
    changed.and(enforced)?;
    ok(&spec(api))
}

async fn change_options(api: &Api, options: &BTreeMap<String, i64>) -> Result<(), ApiError> {
    if options.is_empty() {
        return Ok(());
    }
    // First those to come, so that none slips through.
    api.options.set(options);
    let views = views(api, "PATCH /config", Labels::default()).await?;
    change_all(api, views.iter().map(|view| view.id), options).await
}

fn spec(api: &Api) -> ConfigurationSpec {
    ConfigurationSpec {
        options: option_texts(&api.options.now(), &BTreeMap::new()),
        policy_enforcement: api.options.enforcement().name().to_owned(),
    }
}

/// When endpoints are to be held to policy, if that is said.
fn expected_enforcement(name: &str) -> Result<Option<Enforcement>, ApiError> {
    match Enforcement::named(name) {
        None if name.is_empty() => Ok(None),
        None => Err(ApiError::bad_request(format!(
            "policy-enforcement: {name:?} is none; use {}",
            Enforcement::ALL.map(Enforcement::name).join(", ")
        ))),
        some => Ok(some),
    }
}

/// Holds all endpoints to policy at other times; comes back once that is in force.
async fn enforce(api: &Api, enforcement: Enforcement) -> Result<(), ApiError> {
    let change = move |reply| PolicyMsg::Enforcement { enforcement, reply };
    api.gateway.ask("PATCH /config", |node| &node.policy, change).await?;
    // It comes true from here on, whether or not it is waited for.
    api.options.set_enforcement(enforcement);
    let in_force = api.gateway.ask("PATCH /config", |node| &node.policy, PolicyMsg::Idle).await;
    in_force.map_err(|error| {
        ApiError::failed(format!(
            "policy-enforcement is {}, but not every endpoint has that yet: {error}",
            enforcement.name()
        ))
    })
}

async fn change_all(
    api: &Api,
    ids: impl Iterator<Item = EndpointId>,
    options: &BTreeMap<String, i64>,
) -> Result<(), ApiError> {
    let mut failed = Vec::new();
    let mut under_way = JoinSet::new();
    for id in ids {
        if under_way.len() >= CHANGES_MAX {
            failed.extend(under_way.join_next().await.and_then(failure));
        }
        let (api, options) = (api.clone(), options.clone());
        under_way.spawn(async move { (id, change(&api, id, options).await) });
    }
    while let Some(ended) = under_way.join_next().await {
        failed.extend(failure(ended));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(ApiError::failed(format!(
            "options are set, but not every endpoint has them: {}",
            failed.join("; ")
        ))),
    }
}

async fn change(api: &Api, id: EndpointId, options: BTreeMap<String, i64>) -> Result<(), ApiError> {
    let patch = Patch { shared_options: Some(options), ..Patch::default() };
    let target = EndpointReference::Id(id);
    let what = format!("PATCH /config for endpoint {id}");
    let patch = move |reply| EndpointsMsg::Patch { target, patch: Box::new(patch), reply };
    match api.gateway.ask(what, |node| &node.endpoints, patch).await? {
        // It went meanwhile.
        Ok(_) | Err(PatchError::NotFound) => Ok(()),
        Err(error) => Err(not_changed(error)),
    }
}

type Changed = Result<(EndpointId, Result<(), ApiError>), tokio::task::JoinError>;

fn failure(ended: Changed) -> Option<String> {
    match ended {
        Ok((_, Ok(()))) => None,
        Ok((id, Err(error))) => Some(format!("endpoint {id}: {}", error.text)),
        Err(error) => Some(error.to_string()),
    }
}
