//! `/endpoint/{id}/config`: the options of one endpoint, and the labels that its user added.

use axum::{extract::State, http::StatusCode, response::IntoResponse};
use serde::Deserialize;
use volvox_actors::endpoints::{endpoint::Patch, supervisor::EndpointReference};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    ConfigurationAnswer, EndpointConfiguration, LabelConfiguration, OptionTexts, OptionsOf,
    option_texts, parse_options,
};

use super::endpoint::{change, view};
use crate::api::{
    Api,
    endpoint_spec::given_labels,
    extract::{Json, Segment},
};

/// A change of what is set of an endpoint; what is absent stays.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Change {
    label_configuration: Option<LabelConfiguration>,
    options: OptionTexts,
}

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let realized = EndpointConfiguration::new(&*view(&api, &id).await?, &api.facts.options);
    ok(&ConfigurationAnswer { realized })
}

pub(crate) async fn patch(
    State(api): State<Api>,
    Segment(id): Segment,
    Json(expected): Json<Change>,
) -> Answer {
    let view = view(&api, &id).await?;
    let now = option_texts(&api.facts.options, &view.options);
    let options = parse_options(&expected.options, &now, OptionsOf::Endpoint)
        .map_err(ApiError::bad_request)?;
    let custom = match expected.label_configuration {
        Some(labels) if !labels.user.is_empty() => {
            Some(given_labels("label-configuration.user", &labels.user)?)
        }
        _ => None,
    };
    if !options.is_empty() || custom.is_some() {
        let patch = Patch { options: Some(options), custom, ..Patch::default() };
        change(&api, &id, EndpointReference::Id(view.id), patch).await?;
    }
    Ok(StatusCode::OK.into_response())
}
