//! How a failed ADD is undone: its interface, its endpoint and its addresses go.

use std::{net::IpAddr, time::Duration};

use hyper::Method;
use serde_json::Value;
use volvox_rest::{delete_queue::Deletion, escape};

use super::{
    delete::{Deleted, delete},
    interface,
    run::Call,
};

/// How long undoing waits for one answer: the runtime waits for us meanwhile.
const DEADLINE: Duration = Duration::from_secs(10);

/// What an ADD has made so far, and is to vanish should it fail.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// Name of the host side.
    pub(super) link: Option<String>,
    /// Addresses that no endpoint has claimed yet.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether the agent may have made the endpoint.
    pub(super) endpoint: bool,
}

impl Undo {
    /// Removes what was made. What cannot be removed now is logged; nothing here hides the error
    /// that led to it.
    pub(super) async fn roll_back(self, call: &Call) {
        if let Some(link) = &self.link
            && let Err(error) = interface::remove(link)
        {
            tracing::error!(link, %error, "interface not removed");
        }
        // An endpoint takes its addresses with it; to release them again could take them from
        // a pod that got them meanwhile.
        if self.endpoint && delete_endpoint(call).await {
            return;
        }
        let client = call.client.clone().patience(Duration::ZERO).deadline(DEADLINE);
        for address in self.addresses {
            let path = format!("/ipam/{}", escape(&address.to_string()));
            match client.send(Method::DELETE, &path, &[], None::<&Value>).await {
                Ok(_) => {}
                Err(error) if error.status() == Some(404) => {}
                // An agent that is gone has forgotten it, one that is not lets it expire.
                Err(error) => tracing::warn!(%address, %error, "address left to expire"),
            }
        }
    }
}

/// Sees to it that the endpoint goes that the agent may have made. False if it made none.
async fn delete_endpoint(call: &Call) -> bool {
    let id = format!("cni-attachment-id:{}", call.invocation.attachment_id());
    match delete(call, &Deletion::Endpoint(id)).await {
        Ok(deleted) => deleted != Deleted::Absent,
        Err(error) => {
            tracing::warn!(%error, "endpoint left to the runtime's DEL");
            true
        }
    }
}
