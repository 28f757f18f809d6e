//! How each failure to ask an actor becomes an HTTP code, and how the router itself refuses.

use axum::http::StatusCode;
use volvox_actors::host::AskError;
use volvox_inspect::http::ApiError;

use crate::gateway::GatewayError;

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

/// The body of refusals that the router itself makes, as Cilium's frame makes them.
#[derive(Debug, serde::Serialize)]
pub(super) struct Framed {
    /// The HTTP code again.
    pub(super) code: u16,
    /// What is wrong.
    pub(super) message: String,
}
