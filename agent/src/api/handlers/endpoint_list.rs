//! `/endpoint`: lists endpoints by labels, and deletes all those of one container.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::State,
    http::{StatusCode, Uri},
};
use volvox_actors::{
    endpoints::{
        endpoint::EndpointView,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::Labels,
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{Endpoint, EndpointBatchDeleteRequest};

use super::{
    endpoint::{deleted, remove},
    query::expected_labels,
};
use crate::api::{Api, endpoint_spec::parse_labels, extract::Json, limiter::call, verify::verify};

pub(crate) async fn list(State(api): State<Api>, uri: Uri, body: Bytes) -> Answer {
    let expected = expected_labels(&uri, &body)?;
    let labels = parse_labels("labels", &expected)?;
    let _passage = api.limiter.pass(call::LIST).await?;
    let views = views(&api, "GET /endpoint", labels).await?;
    if views.is_empty() && !expected.is_empty() {
        return Err(ApiError::not_found(format!("no endpoint has all of {}", expected.join(", "))));
    }
    ok(&views.iter().map(|view| Endpoint::new(view, &api.facts.options)).collect::<Vec<_>>())
}

/// Deletes every endpoint of a container.
pub(crate) async fn delete(
    State(api): State<Api>,
    Json(request): Json<EndpointBatchDeleteRequest>,
) -> Answer {
    let container = request.container_id;
    if container.is_empty() {
        return Err(ApiError::bad_request("container-id: it must say whose endpoints to delete"));
    }
    let _passage = api.limiter.pass(call::DELETE).await?;
    let views = views(&api, "DELETE /endpoint", Labels::default()).await?;
    let mine = views.iter().filter(|view| view.spec.container_id == container);
    let ids: Vec<_> = mine.map(|view| view.id).collect();
    if ids.is_empty() {
        // Asking all the same tells one that never was from one that is not restored yet.
        let name = format!("container-id:{container}");
        return Ok(deleted(remove(&api, &name, EndpointReference::ContainerId(container)).await?));
    }
    let mut leftovers = 0;
    for id in ids {
        leftovers += match remove(&api, &id.to_string(), EndpointReference::Id(id)).await {
            Ok(left) => left,
            // Somebody else was quicker.
            Err(error) if error.status == StatusCode::NOT_FOUND => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(deleted(leftovers))
}

/// Every endpoint that has all these labels.
pub(super) async fn views(
    api: &Api,
    what: &str,
    labels: Labels,
) -> Result<Vec<Arc<EndpointView>>, ApiError> {
    verify(api, None).await;
    Ok(api
        .gateway
        .ask(what, |node| &node.endpoints, |reply| EndpointsMsg::List { labels, reply })
        .await?)
}
