//! `/endpoint/{id}/labels`: shows an endpoint's labels, and changes those that its user added.

use axum::{extract::State, http::StatusCode, response::IntoResponse};
use volvox_actors::endpoints::endpoint::Patch;
use volvox_inspect::http::{Answer, ok};
use volvox_rest::models::{LabelConfiguration, LabelStatus, LabelsAnswer};

use super::endpoint::{change, view};
use crate::api::{
    Api,
    endpoint_name::target,
    endpoint_spec::given_labels,
    extract::{Json, Segment},
};

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let status = LabelStatus::new(&*view(&api, &id).await?);
    ok(&LabelsAnswer { spec: status.realized.clone(), status })
}

/// Replaces the labels that its user added.
pub(crate) async fn patch(
    State(api): State<Api>,
    Segment(id): Segment,
    Json(expected): Json<LabelConfiguration>,
) -> Answer {
    let target = target(&api, &id).await?;
    let custom = given_labels("user", &expected.user)?;
    change(&api, &id, target, Patch { custom: Some(custom), ..Patch::default() }).await?;
    Ok(StatusCode::OK.into_response())
}
