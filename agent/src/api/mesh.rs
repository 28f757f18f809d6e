//! How other clusters stand.

use volvox_actors::{
    clustermesh::{MeshMsg, RemoteView},
    nodes::{NodesMsg, NodesView},
};

use super::{Api, models::RemoteCluster, sharing::Sharing, troubles::Trouble};
use crate::gateway::GatewayError;

/// Asks who reads them and who owns what they say; none if none is read.
pub(super) async fn gather(
    api: &Api,
    what: &'static str,
) -> Result<Option<Vec<RemoteCluster>>, GatewayError> {
    let remotes = api.gateway.ask_if(what, |colony| colony.mesh.as_ref(), MeshMsg::Show).await?;
    let Some(remotes): Option<Vec<RemoteView>> = remotes else { return Ok(None) };
    let sharing = Sharing::gather(api, what).await?;
    let addresses = sharing.map(|sharing| sharing.addresses).unwrap_or_default();
    let nodes = api.gateway.ask_if(what, |colony| colony.nodes.as_ref(), NodesMsg::Show).await?;
    let nodes: NodesView = nodes.unwrap_or_default();
    let status = |view: &RemoteView| RemoteCluster::new(view, &addresses, &nodes);
    Ok(Some(remotes.iter().map(status).collect()))
}

/// A cluster of which not all is known, or that is not followed.
pub(super) fn trouble(remote: &RemoteCluster) -> Option<Trouble> {
    if remote.ready {
        return None;
    }
    let text =
        format!("cluster {}: {}; what it said before stays in force", remote.name, remote.status);
    Some(Trouble::new(format!("remote-cluster-{}", remote.name), 1, text))
}
