//! `volvox metrics`: prints the agent's metrics.

use hyper::Method;
use serde_json::Value;
use volvox_rest::RestClient;

use super::{error::ClientError, output::Output};

/// Metrics as they are; the same for people and programs.
pub(super) async fn run(client: &RestClient, out: &mut Output<'_>) -> Result<(), ClientError> {
    let answer = client.send(Method::GET, "/volvox/metrics", &[], None::<&Value>).await?;
    out.line(String::from_utf8_lossy(&answer.body).trim_end())
}
