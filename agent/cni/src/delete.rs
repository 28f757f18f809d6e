//! How the plugin has endpoints deleted: by the agent, or through the queue if there is none.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use volvox_rest::{
    RestError, client::Answer, delete_queue::Deletion, escape, models::EndpointBatchDeleteRequest,
};

use super::{CniError, run::Call};

/// How a deletion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    /// The agent did it.
    Now,
    /// There was nothing to delete.
    Absent,
    /// The next agent will do it.
    Queued,
}

/// How long an agent that listens may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Has the agent delete endpoints, or queues it if there is none.
///
/// An agent that is starting holds the queue's lock until it answers. So once the lock is had, a
/// second attempt reaches the agent, or there is none and the next one will find the entry.
pub(super) async fn delete(call: &Call, deletion: &Deletion) -> Result<Deleted, CniError> {
    if let Some(outcome) = outcome(ask(call, deletion).await) {
        return outcome;
    }
    let queue = call.share_queue().await?;
    if let Some(outcome) = outcome(ask(call, deletion).await) {
        return outcome;
    }
    queue.put(deletion)?;
    tracing::info!(?deletion, "agent is away: deletion queued");
    Ok(Deleted::Queued)
}

async fn ask(call: &Call, deletion: &Deletion) -> Result<Answer, RestError> {
    let client = call.client.clone().patience(Duration::ZERO).deadline(DEADLINE);
    match deletion {
        Deletion::Container(id) => {
            let body = EndpointBatchDeleteRequest { container_id: id.clone() };
            client.send(Method::DELETE, "/endpoint", &[], Some(&body)).await
        }
        Deletion::Endpoint(id) => {
            let path = format!("/endpoint/{}", escape(id));
            client.send(Method::DELETE, &path, &[], None::<&Value>).await
        }
    }
}

/// How an attempt ended; `None` if there is no agent to answer.
fn outcome(result: Result<Answer, RestError>) -> Option<Result<Deleted, CniError>> {
    match result {
        Ok(answer) => {
            if answer.status == 206 {
                let errors = String::from_utf8_lossy(&answer.body);
                tracing::warn!(%errors, "endpoint deleted, not without errors");
            }
            Some(Ok(Deleted::Now))
        }
        Err(RestError::Refused { status: 404, .. }) => Some(Ok(Deleted::Absent)),
        Err(RestError::Unreachable { .. } | RestError::Broken { .. }) => None,
        Err(error) => Some(Err(error.into())),
    }
}
