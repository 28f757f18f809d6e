//! The HTTP port that a kubelet probes. It says whether the actors answer, and nothing more.

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use volvox_inspect::http::{ApiError, json_response};

use super::{Api, bounds::addressed, handlers::health};

/// What is served on the port for probes, `--agent-health-port`: `/healthz` alone, 200 while the
/// actors answer and 503 otherwise. Nothing else is a reason, neither a dependency that is down nor
/// an endpoint that cannot be built: restarting the agent would not mend it.
pub fn health_router(api: Api) -> Router {
    let addressed = from_fn_with_state(api.clone(), addressed);
    Router::new().route("/healthz", get(healthz)).layer(addressed).with_state(api)
}

async fn healthz(State(api): State<Api>) -> Response {
    match health::status(&api, true).await {
        Ok(status) if status.cilium.state == health::FAILURE => unwell(&status.cilium.msg),
        Ok(status) => json_response(StatusCode::OK, &status),
        Err(error) => unwell(&error.text),
    }
}

fn unwell(text: &str) -> Response {
    ApiError::unavailable(text).into_response()
}
