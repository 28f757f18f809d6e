//! GC: compares the agent's endpoints with the runtime's list, and removes those that are left
//! over.

use volvox_rest::models::{Endpoint, ExternalIdentifiers};

use super::{CniError, ErrorCode, attachment, interface, run::Call};

/// Removes the endpoints that this plugin made and the runtime no longer knows.
///
/// Without the runtime's list nothing is removed. An endpoint is the plugin's if its interface has
/// the name that the plugin makes of the attachment; others have other owners. The list is one
/// network's: what was made for another one is not in it, and stays.
pub(super) async fn gc(call: &Call) -> Result<(), CniError> {
    let Some(valid) = &call.config.valid_attachments else {
        let why = "GC removes what is not in it: the runtime is to hand it on";
        return Err(CniError::new(
            ErrorCode::InvalidConfig,
            "cni.dev/valid-attachments is missing",
            why,
        ));
    };
    let endpoints: Vec<Endpoint> = call.client.get("/endpoint").await?;
    let mut failed = Vec::new();
    for endpoint in endpoints {
        let ExternalIdentifiers { cni_attachment_id: id, .. } =
            endpoint.status.external_identifiers;
        let host_name = interface::host_name(&id);
        if valid.contains(&id) || endpoint.status.networking.interface_name != host_name {
            continue;
        }
        if !attachment::is_of_network(call, &host_name)? {
            continue;
        }
        if let Err(error) = remove(call, &id, &host_name).await {
            tracing::error!(attachment = id, %error, "not collected");
            failed.push(format!("{id}: {error}"));
        } else {
            tracing::info!(attachment = id, endpoint = endpoint.id, "collected");
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(CniError::new(ErrorCode::TryLater, "not everything could be removed", failed.join("; ")))
}

async fn remove(call: &Call, attachment_id: &str, host_name: &str) -> Result<(), CniError> {
    attachment::remove_endpoint(call, &format!("cni-attachment-id:{attachment_id}")).await?;
    interface::remove(host_name)?;
    Ok(())
}
