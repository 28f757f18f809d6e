//! DEL: removes the interface, and has the endpoint deleted now or by the next agent.

use std::time::Duration;

use volvox_rest::delete_queue::Deletion;
use volvox_system::netns::Netns;

use super::{CniError, ErrorCode, attachment, delete::delete, interface, run::Call};

/// How long an ADD of the same container is waited for.
const ADD_PATIENCE: Duration = Duration::from_secs(10);

/// Takes one interface of the container away; others of it stay. To ask again is to find nothing left, and succeeds.
///
/// It works with the agent dead: the interface goes at once, the rest of the endpoint when the
/// agent is back. It fails only where trying again can help.
pub(super) async fn del(call: &Call) -> Result<(), CniError> {
    // An ADD that was given up may still be at it.
    let netns = call.invocation.netns.as_deref().and_then(|path| Netns::open(path).ok());
    if let Some(netns) = &netns
        && !attachment::take_turn(netns, ADD_PATIENCE).await
    {
        tracing::warn!("an ADD of this container is still under way");
    }
    let attachment_id = call.invocation.attachment_id();
    let endpoint = Deletion::Endpoint(format!("cni-attachment-id:{attachment_id}"));
    let deleted = delete(call, &endpoint).await;
    // One side takes the other along. The container's namespace is not entered: it may be gone,
    // and its file may by now name another container's, whose interface has the same name.
    // Another plugin's is that plugin's to remove.
    if !call.config.chained {
        interface::remove(&interface::host_name(&attachment_id))?;
    }
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if error.code == ErrorCode::Rejected => {
            // It will not take the request any better the next time.
            tracing::error!(%error, "the agent refused the deletion for good");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
