//! `GET /debuginfo`: status, endpoints, settings and policy in one answer.

use axum::extract::State;
use volvox_actors::model::Labels;
use volvox_inspect::http::{Answer, ok};
use volvox_rest::models::{DebugInfo, Endpoint};

use super::{endpoint_list::views, health, policy};
use crate::api::Api;

/// What a bug report needs.
pub(crate) async fn get(State(api): State<Api>) -> Answer {
    let facts = &api.facts;
    let views = views(&api, "GET /debuginfo", Labels::default()).await?;
    let settings = facts.settings.iter().map(|(name, value)| format!("{name}:{value}"));
    ok(&DebugInfo {
        cilium_status: health::status(&api, false).await?,
        cilium_version: facts.version.clone(),
        endpoint_list: views.iter().map(|view| Endpoint::new(view, &facts.options)).collect(),
        environment_variables: settings.collect(),
        kernel_version: rustix::system::uname().release().to_string_lossy().into_owned(),
        policy: policy::rules(&api).await?,
    })
}
