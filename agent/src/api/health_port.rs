use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::time::timeout;

use super::{Api, ApiError, error::json_response, handlers::health};

/// How long the actors may take to answer, shorter than a kubelet waits for its probes.
const PATIENCE: Duration = Duration::from_secs(4);

/// What is served on the port for probes, `--agent-health-port`: `/healthz` alone, 200 while the
/// actors answer and 503 otherwise. A dependency that is down is no reason: restarting the agent
/// would not mend it.
pub fn health_router(api: Api) -> Router {
    Router::new().route("/healthz", get(healthz)).with_state(api)
}

async fn healthz(State(api): State<Api>) -> Response {
    match timeout(PATIENCE, health::status(&api, true)).await {
        Ok(Ok(status)) => json_response(StatusCode::OK, &status),
        Ok(Err(error)) => unwell(&error.text),
        Err(_) => unwell("the agent's actors do not answer: a handler hangs"),
    }
}

fn unwell(text: &str) -> Response {
    ApiError::unavailable(text).into_response()
}
