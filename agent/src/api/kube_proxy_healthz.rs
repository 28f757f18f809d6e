//! The port at which load balancers outside ask whether this node serves services, as kube-proxy answers
//! them: `--kube-proxy-replacement-healthz-bind-address`.
//!
//! The world may ask. So whoever asks hears what was found in the same second, and one looks at a time.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use volvox_actors::{host::Clock, model::Timestamp, node::devices::DevicesMsg};
use volvox_system::SystemClock;

use super::{Api, handlers::health, services};

/// For how long what was found is said again.
const LASTS: Duration = Duration::from_secs(1);
/// How long the actors may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// What is served there: `/healthz` alone, 503 unless services are served.
pub fn kube_proxy_healthz_router(api: Api) -> Router {
    let healthz = Healthz { api, last: Arc::new(Mutex::new(Last::default())) };
    Router::new().route("/healthz", get(answer)).with_state(healthz)
}

#[derive(Clone)]
struct Healthz {
    api: Api,
    last: Arc<Mutex<Last>>,
}

/// What was found last, and when it was well last.
#[derive(Clone, Debug, Default)]
struct Last {
    looked: Option<Instant>,
    serves: bool,
    updated: Option<Timestamp>,
}

/// The body, by the names that kube-proxy gives.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    last_updated: Timestamp,
    current_time: Timestamp,
}

async fn answer(State(Healthz { api, last }): State<Healthz>) -> Response {
    let mut last = last.lock().await;
    let now = Timestamp::from_nanos(SystemClock.wall());
    if last.looked.is_none_or(|at| at.elapsed() >= LASTS) {
        last.serves = serves(&api).await;
        if last.serves {
            last.updated = Some(now.clone());
        }
        last.looked = Some(Instant::now());
    }
    let last_updated = last.updated.clone().unwrap_or_else(|| Timestamp::from_nanos(0));
    let status = if last.serves { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = Body { last_updated, current_time: now };
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))];
    (status, nosniff, Json(body)).into_response()
}

/// Whether the actors answer, services are known, from this life or the one before, and programs run at a
/// device.
async fn serves(api: &Api) -> bool {
    const WHAT: &str = "GET /healthz of services";
    let known = async {
        tokio::join!(
            health::unwell(api, false),
            services::gather(api, WHAT),
            api.gateway.ask(WHAT, |node| &node.devices, DevicesMsg::Show),
        )
    };
    let Ok((Ok(unwell), Ok(services), Ok(devices))) = timeout(PATIENCE, known).await else {
        return false;
    };
    let is_known = services.frontends > 0 || services.awaited.iter().all(|it| it.is_apart());
    let leads_out = devices.devices.iter().any(|device| device.attached);
    unwell.is_none() && is_known && leads_out
}
