//! Deletions that were asked for while no agent lived.

use std::time::Duration;

use volvox_actors::{
    endpoints::supervisor::{DeleteError, EndpointReference, EndpointsMsg},
    node_supervisor::NodeSupervisor,
};
use volvox_rest::delete_queue::{Deletion, Exclusive};

/// How many endpoints a container may have.
const INTERFACES_MAX: usize = 64;
/// How long one deletion may take.
const DELETE_PATIENCE: Duration = Duration::from_secs(60);

/// Carries out what the queue has; what could not be done stays in it.
pub(crate) async fn carry_out(node_supervisor: &NodeSupervisor, queue: &Exclusive) {
    let (entries, bad) = match queue.read() {
        Ok(read) => read,
        Err(error) => return tracing::error!(%error, "queue of deletions cannot be read"),
    };
    for bad in bad {
        tracing::warn!(file = %bad.path.display(), cause = bad.cause, "deletion set aside");
    }
    for entry in entries {
        let target = match &entry.deletion {
            Deletion::Container(id) => Ok(EndpointReference::ContainerId(id.clone())),
            Deletion::Endpoint(id) => id.parse(),
        };
        let target = match target {
            Ok(target) => target,
            Err(error) => {
                tracing::warn!(%error, "deletion names no endpoint");
                continue;
            }
        };
        match delete_one(node_supervisor, &target).await {
            Ok(()) => {
                if let Err(error) = queue.done(&entry) {
                    tracing::warn!(%error, "deletion stays in the queue");
                }
            }
            Err(why) => tracing::warn!(why, %target, "deletion stays in the queue"),
        }
    }
}

/// Deletes what is meant; of a container each endpoint.
async fn delete_one(
    node_supervisor: &NodeSupervisor,
    target: &EndpointReference,
) -> Result<(), String> {
    let what = format!("queued deletion of {target}");
    for _ in 0..INTERFACES_MAX {
        let answer = node_supervisor.host.outside(&what, || {
            let target = target.clone();
            node_supervisor.host.ask(
                &node_supervisor.endpoints,
                DELETE_PATIENCE,
                what.clone(),
                |reply| EndpointsMsg::Delete { target, reply },
            )
        });
        match answer.await {
            Ok(Ok(_)) if matches!(target, EndpointReference::ContainerId(_)) => {}
            // What is left of it the endpoint itself goes on removing.
            Ok(Ok(_) | Err(DeleteError::NotFound)) => return Ok(()),
            Ok(Err(DeleteError::Refused(why))) => {
                tracing::warn!(why, what, "deletion is not carried out");
                return Ok(());
            }
            Ok(Err(DeleteError::NotReady(why))) => return Err(why),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
