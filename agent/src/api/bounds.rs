//! What is refused before anybody handles a request: bodies that are too large or too slow, and browsers
//! that were led here.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt;
use tokio::time::timeout;
use volvox_inspect::http::{
    ApiError,
    host_header::{is_address_or, text},
};

use super::Api;

/// Largest body that is read.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// Largest body that is heard out, unread, so that its sender can read the refusal: who closes a
/// socket on data not read takes back what it has just answered.
const BODY_BYTES_HEARD_MAX: u64 = 256 << 20;
/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Refuses what a page of somebody else has a browser ask at a TCP port. Whoever is no browser may leave out
/// what browsers always send.
pub(super) async fn addressed(State(api): State<Api>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = text(headers, "host");
    let meant = host.is_none_or(|host| is_address_or(host, &api.facts.node_name));
    let own = text(headers, "origin")
        .is_none_or(|origin| origin.strip_prefix("http://") == Some(host.unwrap_or_default()));
    match (meant, own) {
        (true, true) => next.run(request).await,
        (false, _) => refused(
            "this port answers to addresses, to localhost and to the node's name only, as others can \
             be pointed here by anybody",
        ),
        (true, false) => refused("this port answers to no other page's scripts"),
    }
}

fn refused(text: &str) -> Response {
    ApiError::new(StatusCode::FORBIDDEN, text).into_response()
}

/// Reads a request's body, bounded in size and time, before anybody handles the request.
pub(super) async fn bound_body(request: Request, next: Next) -> Response {
    let waits_for_go = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let announced = body.size_hint().exact().unwrap_or(0);
    if announced > BODY_BYTES_HEARD_MAX || (announced > BODY_BYTES_MAX && waits_for_go) {
        return too_large().into_response();
    }
    match timeout(BODY_PATIENCE, collect(body)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(error)) => error.into_response(),
        Err(_) => ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the request's body did not arrive within {BODY_PATIENCE:?}"),
        )
        .into_response(),
    }
}

async fn collect(mut body: Body) -> Result<Vec<u8>, ApiError> {
    let mut retained = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::bad_request(format!("the request's body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len() as u64;
        if seen <= BODY_BYTES_MAX {
            retained.extend_from_slice(&data);
        } else {
            retained = Vec::new();
            if seen > BODY_BYTES_HEARD_MAX {
                break;
            }
        }
    }
    if seen > BODY_BYTES_MAX { Err(too_large()) } else { Ok(retained) }
}

fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the request's body is larger than the {BODY_BYTES_MAX} bytes that are read"),
    )
}
