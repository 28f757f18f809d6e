//! `/service`, `/volvox/services` and `/volvox/backends`: frontends and backends; an operator can
//! put a backend into quarantine and release it.

use axum::extract::State;
use volvox_actors::services::service_cache::{ServiceView, ServicesMsg, UnknownBackend};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{Backend, BackendAddress, Service, ServicesSummary};

use crate::{
    api::{
        Api,
        extract::{Json, Segment},
        services,
    },
    gateway::GatewayError,
};

/// Every frontend, by number.
pub(crate) async fn list(State(api): State<Api>) -> Answer {
    ok(&all(&api).await?)
}

/// Every frontend, by number.
pub(super) async fn all(api: &Api) -> Result<Vec<Service>, GatewayError> {
    Ok(views(api, "GET /service").await?.iter().map(Service::from).collect())
}

/// One frontend.
pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let number: i64 = id.parse().map_err(|_| {
        ApiError::bad_request(format!("id: {id:?} is no service's number: 1 to 65535"))
    })?;
    let views = views(&api, "GET /service/id").await?;
    match views.iter().find(|view| i64::from(view.id.0) == number) {
        Some(view) => ok(&Service::from(view)),
        None => Err(ApiError::not_found(format!("service {number} is not known"))),
    }
}

async fn views(api: &Api, what: &'static str) -> Result<Vec<ServiceView>, GatewayError> {
    let mut views = api.gateway.ask(what, |node| &node.services, ServicesMsg::List).await?;
    views.sort_by_key(|view| view.id);
    Ok(views)
}

/// Every backend, by number.
pub(crate) async fn backends(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/backends";
    let views = api.gateway.ask(what, |node| &node.services, ServicesMsg::ListBackends).await?;
    let mut backends: Vec<_> = views.iter().map(Backend::from).collect();
    backends.sort_by_key(|backend| backend.id);
    ok(&backends)
}

/// Keeps a backend from new connections, or does not any more.
pub(crate) async fn patch_backend(
    State(api): State<Api>,
    Json(desired): Json<BackendAddress>,
) -> Answer {
    let backend = desired.at().map_err(ApiError::bad_request)?;
    let desired = match &*desired.state {
        "quarantined" => true,
        "active" => false,
        other => {
            let what = format!("state: {other:?} is neither \"quarantined\" nor \"active\"");
            return Err(ApiError::bad_request(what));
        }
    };
    let what = "PATCH /volvox/backends";
    let make = move |reply| ServicesMsg::Quarantine { backend, desired, reply };
    api.gateway.ask(what, |node| &node.services, make).await?.map_err(ApiError::not_found)?;
    let views = api.gateway.ask(what, |node| &node.services, ServicesMsg::ListBackends).await?;
    match views.iter().find(|view| view.at == backend) {
        Some(view) => ok(&Backend::from(view)),
        None => Err(ApiError::not_found(UnknownBackend(backend))),
    }
}

/// How services stand.
pub(crate) async fn summary(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/services";
    ok(&ServicesSummary::from(services::gather(&api, what).await?))
}
