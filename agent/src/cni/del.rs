use super::{CniError, ErrorCode, delete::delete, interface, run::Call};
use crate::delete_queue::Deletion;

/// Disconnects the container. To ask again is to find nothing left, and succeeds.
///
/// It works with the agent dead: the interface goes at once, the rest of the endpoint when the
/// agent is back. It fails only where trying again can help.
pub(super) async fn del(call: &Call) -> Result<(), CniError> {
    let deleted = delete(call, &Deletion::Container(call.invocation.container_id.clone())).await;
    // One side takes the other along. The container's namespace is not entered: it may be gone,
    // and its file may by now name another container's, whose interface has the same name.
    interface::remove(&interface::host_name(&call.invocation.attachment_id()))?;
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
