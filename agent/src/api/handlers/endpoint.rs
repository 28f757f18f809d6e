//! `/endpoint/{id}`: creates, shows, changes and deletes one endpoint. Other handlers of endpoints
//! share its helpers.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use volvox_actors::{
    endpoints::{
        endpoint::{CreateError, EndpointView, Patch, PatchError},
        supervisor::{DeleteError, EndpointReference, EndpointsMsg},
    },
    model::EndpointId,
    policy::rules::{DerivedFilter, PolicyMsg},
};
use volvox_inspect::http::{Answer, ApiError, json_response, ok};
use volvox_rest::models::{
    Endpoint, EndpointChangeRequest, L4Policy, StatusChange, endpoint_health,
};

use crate::api::{
    Api,
    endpoint_name::target,
    endpoint_spec::endpoint_spec,
    extract::{Json, Segment},
    limiter::call,
    verify::verify,
};

/// How a refusal to make an endpoint is told.
fn not_created(error: CreateError) -> ApiError {
    let status = match &error {
        CreateError::Invalid(_) | CreateError::InUse(_) => StatusCode::BAD_REQUEST,
        CreateError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
        CreateError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        CreateError::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiError::new(status, error)
}

/// How a refusal to change one is told.
pub(super) fn not_changed(error: PatchError) -> ApiError {
    match error {
        PatchError::NotFound => ApiError::not_found(error),
        PatchError::Invalid(_) => ApiError::bad_request(error),
        PatchError::Failed(_) => ApiError::failed(error),
    }
}

/// How a refusal to delete one is told.
fn not_deleted(error: DeleteError) -> ApiError {
    match error {
        DeleteError::NotFound => ApiError::not_found(error),
        DeleteError::Refused(_) => ApiError::bad_request(error),
        DeleteError::NotReady(_) => ApiError::unavailable(error),
    }
}

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let _passage = api.limiter.pass(call::GET).await?;
    let view = view(&api, &id).await?;
    let mut endpoint = Endpoint::new(&view, &api.facts.options);
    endpoint.status.policy.realized.l4 = L4Policy::derived(&derived(&api, &view).await?);
    ok(&endpoint)
}

pub(crate) async fn put(
    State(api): State<Api>,
    Segment(id): Segment,
    Json(request): Json<EndpointChangeRequest>,
) -> Answer {
    let expected = wanted_number(&id)?;
    api.opening.wait().await?;
    let _passage = api.limiter.pass(call::CREATE).await?;
    let sync = request.sync_build_endpoint;
    let mut spec = endpoint_spec(request)?;
    if let (Some(path), Some(body)) = (expected, spec.id)
        && path != body
    {
        return Err(ApiError::bad_request(format!(
            "id: the body says {body}, the path {path}: name one, or 0 for the agent to choose"
        )));
    }
    spec.id = spec.id.or(expected);
    if spec.addresses.iter().next().is_none() {
        return Err(ApiError::bad_request(
            "addressing: an endpoint needs an address: give ipv4, ipv6 or both, as POST /ipam \
             hands them out",
        ));
    }
    let pod = spec.pod().map(|pod| format!(" for {pod}")).unwrap_or_default();
    let made = api
        .gateway
        .ask(
            format!("PUT /endpoint/{id}{pod}"),
            |node| &node.endpoints,
            move |reply| EndpointsMsg::Create { spec: Box::new(spec), sync, reply },
        )
        .await?
        .map_err(not_created)?;
    let options = api.options.beyond(&api.facts.options);
    let made = match options.is_empty() {
        true => made,
        false => {
            let patch = Patch { options: Some(options), ..Patch::default() };
            change(&api, &id, EndpointReference::Id(made.id), patch).await?
        }
    };
    Ok(json_response(StatusCode::CREATED, &Endpoint::new(&made, &api.facts.options)))
}

pub(crate) async fn patch(
    State(api): State<Api>,
    Segment(id): Segment,
    Json(request): Json<EndpointChangeRequest>,
) -> Answer {
    let target = target(&api, &id).await?;
    let _passage = api.limiter.pass(call::PATCH).await?;
    let spec = endpoint_spec(request)?;
    let labels = (!spec.labels.is_empty()).then(|| spec.labels.clone());
    let patch = Patch { labels, interface: Some(spec), ..Patch::default() };
    ok(&Endpoint::new(&*change(&api, &id, target, patch).await?, &api.facts.options))
}

pub(crate) async fn delete(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let target = target(&api, &id).await?;
    let _passage = api.limiter.pass(call::DELETE).await?;
    Ok(deleted(remove(&api, &id, target).await?))
}

pub(crate) async fn health(State(api): State<Api>, Segment(id): Segment) -> Answer {
    ok(&endpoint_health(&*view(&api, &id).await?))
}

pub(crate) async fn log(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let view = view(&api, &id).await?;
    ok(&view.log.iter().map(StatusChange::new).collect::<Vec<_>>())
}

/// The endpoint of a path, as it is now.
pub(super) async fn view(api: &Api, id: &str) -> Result<Arc<EndpointView>, ApiError> {
    let target = target(api, id).await?;
    verify(api, Some(target.clone())).await;
    let found = api
        .gateway
        .ask(
            format!("GET /endpoint/{id}"),
            |node| &node.endpoints,
            |reply| EndpointsMsg::Get { target, reply },
        )
        .await?;
    found.map_err(ApiError::not_found)
}

/// The rules behind an endpoint's policy.
async fn derived(api: &Api, view: &EndpointView) -> Result<Vec<DerivedFilter>, ApiError> {
    let subject = view.subject();
    let what = format!("GET /endpoint/{}", view.id);
    Ok(api
        .gateway
        .ask(what, |node| &node.policy, |reply| PolicyMsg::Derived { subject, reply })
        .await?)
}

/// Changes an endpoint; comes back once the change is in force.
pub(super) async fn change(
    api: &Api,
    id: &str,
    target: EndpointReference,
    patch: Patch,
) -> Result<Arc<EndpointView>, ApiError> {
    let changed = api
        .gateway
        .ask(
            format!("PATCH /endpoint/{id}"),
            |node| &node.endpoints,
            move |reply| EndpointsMsg::Patch { target, patch: Box::new(patch), reply },
        )
        .await?;
    changed.map_err(not_changed)
}

/// Deletes an endpoint; the number of things that could not be cleaned up.
pub(super) async fn remove(
    api: &Api,
    id: &str,
    target: EndpointReference,
) -> Result<u32, ApiError> {
    let leftovers = api
        .gateway
        .ask(
            format!("DELETE /endpoint/{id}"),
            |node| &node.endpoints,
            |reply| EndpointsMsg::Delete { target, reply },
        )
        .await?;
    leftovers.map_err(not_deleted)
}

/// 200, or 206 with the number of things that could not be cleaned up.
pub(super) fn deleted(leftovers: u32) -> Response {
    match leftovers {
        0 => StatusCode::OK.into_response(),
        _ => json_response(StatusCode::PARTIAL_CONTENT, &leftovers),
    }
}

/// The number in the path of a new endpoint; 0 leaves the choice to the agent.
fn wanted_number(id: &str) -> Result<Option<EndpointId>, ApiError> {
    match id.parse::<EndpointReference>().map_err(ApiError::bad_request)? {
        EndpointReference::Id(EndpointId(0)) => Ok(None),
        EndpointReference::Id(id) => Ok(Some(id)),
        _ => Err(ApiError::bad_request(format!(
            "endpoint id {id:?}: a new endpoint is named by cilium-local:NUMBER, 0 for the agent \
             to choose"
        ))),
    }
}
