//! The HTTP port that a kubelet probes. It says whether the actors answer, and nothing more.

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::any,
};
use volvox_inspect::http::ApiError;

use super::{Api, bounds::addressed, handlers::health};

/// What is served on the port for probes, `--agent-health-port`: `/healthz` alone, 200 and an empty body while
/// the actors answer, and 503 otherwise. Nothing else is a reason, neither a dependency that is down nor an
/// endpoint that cannot be built: restarting the agent would not mend it. Who says `require-k8s-connectivity: true`
/// hears of Kubernetes, too.
pub fn health_router(api: Api) -> Router {
    let addressed = from_fn_with_state(api.clone(), addressed);
    Router::new().route("/healthz", any(healthz)).layer(addressed).with_state(api)
}

async fn healthz(State(api): State<Api>, headers: HeaderMap) -> Response {
    // As Cilium 1.19: only who says so wants Kubernetes to be reached.
    let wants_kubernetes = health::said(&headers, health::KUBERNETES_HEADER).unwrap_or(false);
    match health::unwell(&api, wants_kubernetes).await {
        Ok(Some(why)) => unwell(&why),
        Ok(None) => StatusCode::OK.into_response(),
        Err(error) => unwell(&error.text),
    }
}

fn unwell(text: &str) -> Response {
    ApiError::unavailable(text).into_response()
}
