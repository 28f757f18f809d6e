//! How the API refuses a request, and how each failure to ask an actor becomes an HTTP code.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use volvox_actors::host::AskError;

use crate::gateway::GatewayError;

/// A refusal: an HTTP code and, as the body, one JSON string that names the thing and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP code.
    pub status: StatusCode,
    /// What is wrong and what to do.
    pub text: String,
}

impl ApiError {
    /// A refusal of any code.
    pub fn new(status: StatusCode, text: impl ToString) -> Self {
        Self { status, text: text.to_string() }
    }

    /// 400: what was asked makes no sense.
    pub fn bad_request(text: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404: there is no such thing.
    pub fn not_found(text: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 500: it was tried and failed.
    pub fn failed(text: impl ToString) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 503: not yet, or not any more.
    pub fn unavailable(text: impl ToString) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        let status = match error {
            GatewayError::Busy | GatewayError::Ask(AskError::Full) => StatusCode::TOO_MANY_REQUESTS,
            GatewayError::Ask(AskError::Crashed) => StatusCode::INTERNAL_SERVER_ERROR,
            GatewayError::Down | GatewayError::Hung | GatewayError::Ask(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self::new(status, error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        json_response(self.status, &self.text)
    }
}

/// A response of that code whose body is `value` as JSON.
pub(super) fn json_response(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let json = HeaderValue::from_static("application/json");
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, json)], body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The body of refusals that the router itself makes, as Cilium's frame makes them.
#[derive(Debug, serde::Serialize)]
pub(super) struct Framed {
    /// The HTTP code again.
    pub(super) code: u16,
    /// What is wrong.
    pub(super) message: String,
}
