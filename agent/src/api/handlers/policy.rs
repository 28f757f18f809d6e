//! `/policy` and `/volvox/policy`: the rules, their selectors, how each policy stands, and where
//! the rules behind a verdict are written.

use axum::extract::State;
use volvox_actors::{
    model::Labels,
    policy::rules::{PolicyMsg, PolicySelector},
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{Policy, SelectorEntry};

use super::endpoint_list::views;
use crate::api::Api;

/// All rules as they were written.
pub(crate) async fn get(State(api): State<Api>) -> Answer {
    ok(&rules(&api).await?)
}

/// All rules as they were written.
pub(super) async fn rules(api: &Api) -> Result<Policy, ApiError> {
    let written = api.gateway.ask("GET /policy", |node| &node.policy, PolicyMsg::Written).await?;
    Ok(Policy::new(&written))
}

/// Selectors of peers, and whom they select.
pub(crate) async fn selectors(State(api): State<Api>) -> Answer {
    ok(&list(&api, "GET /policy/selectors", false).await?)
}

/// Selectors of the endpoints that rules are for, and whom they select.
pub(crate) async fn subject_selectors(State(api): State<Api>) -> Answer {
    ok(&list(&api, "GET /policy/subject-selectors", true).await?)
}

async fn list(
    api: &Api,
    what: &'static str,
    subjects: bool,
) -> Result<Vec<SelectorEntry>, ApiError> {
    let selectors: Vec<PolicySelector> = api
        .gateway
        .ask(what, |node| &node.policy, move |reply| PolicyMsg::Selectors { subjects, reply })
        .await?;
    Ok(selectors.iter().map(SelectorEntry::new).collect())
}

/// How each policy of each file stands.
pub(crate) async fn status(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/policy";
    let views = views(&api, what, Labels::default()).await?;
    let endpoints = views.iter().map(|view| view.subject()).collect();
    let status = api
        .gateway
        .ask(what, |node| &node.policy, move |reply| PolicyMsg::Show { endpoints, reply })
        .await?;
    ok(&status)
}

/// The clauses behind each cookie of verdict records.
pub(crate) async fn origins(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/policy/origins";
    ok(&api.gateway.ask(what, |node| &node.policy, PolicyMsg::Origins).await?)
}
