//! What a handler comes to: a success, or a refusal with its words.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// What a handler comes to.
pub type Answer = Result<Response, ApiError>;

/// A success.
pub fn ok(value: &impl Serialize) -> Answer {
    Ok(json_response(StatusCode::OK, value))
}

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

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        json_response(self.status, &self.text)
    }
}

/// A response of that code whose body is `value` as JSON.
pub fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    let json = HeaderValue::from_static("application/json");
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, json)], body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
