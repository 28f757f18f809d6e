//! `/endpoint/{id}/labels`: shows an endpoint's labels, and changes those that its user added.

use axum::{extract::State, http::StatusCode, response::IntoResponse};
use volvox_actors::endpoints::{endpoint::Patch, supervisor::Target};

use super::{
    Answer,
    endpoint::{change, view},
    ok,
};
use crate::api::{
    Api,
    extract::{Json, Segment},
    models::{LabelConfiguration, LabelStatus, LabelsAnswer, given_labels},
};

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let status = LabelStatus::new(&*view(&api, &id).await?);
    ok(&LabelsAnswer { spec: status.realized.clone(), status })
}

/// Replaces the labels that its user added.
pub(crate) async fn patch(
    State(api): State<Api>,
    Segment(id): Segment,
    Json(wanted): Json<LabelConfiguration>,
) -> Answer {
    let target = id.parse::<Target>()?;
    let custom = given_labels("user", &wanted.user)?;
    change(&api, &id, target, Patch { custom: Some(custom), ..Patch::default() }).await?;
    Ok(StatusCode::OK.into_response())
}
