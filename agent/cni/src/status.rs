//! STATUS: asks the agent how it is, and tells it in the codes of the specification.

use std::time::Duration;

use volvox_rest::models::StatusAnswer;

use super::{CniError, ErrorCode, run::Call};

/// Says whether ADD can be served.
pub(super) async fn status(call: &Call) -> Result<(), CniError> {
    // STATUS is asked often and answers what is now.
    let client = call.client.clone().patience(Duration::ZERO).deadline(Duration::from_secs(10));
    let status: StatusAnswer = client.get("/healthz").await.map_err(|error| {
        CniError::new(ErrorCode::NotAvailable, "the agent does not answer", error)
    })?;
    // What runs goes on without the agent; one that says that it fails may say so of pods too.
    match status.cilium.state.as_str() {
        "Failure" => Err(CniError::new(
            ErrorCode::LimitedConnectivity,
            "the agent says that it fails",
            status.cilium.msg,
        )),
        _ => Ok(()),
    }
}
