//! How other clusters stand.

use volvox_actors::cluster::{
    clustermesh::{MeshMsg, RemoteView},
    remote_nodes::{RemoteNodesMsg, RemoteNodesView},
};
use volvox_rest::models::RemoteCluster;

use super::{Api, sharing::Sharing, troubles::Trouble};
use crate::gateway::GatewayError;

/// Asks who reads them and who owns what they say; none if none is read.
pub(super) async fn gather(
    api: &Api,
    what: &'static str,
) -> Result<Option<Vec<RemoteCluster>>, GatewayError> {
    let (remotes, sharing, nodes) = tokio::try_join!(
        api.gateway.ask_if(what, |node| node.mesh.as_ref(), MeshMsg::Show),
        Sharing::gather(api, what),
        api.gateway.ask_if(what, |node| node.nodes.as_ref(), RemoteNodesMsg::Show),
    )?;
    Ok(remotes.map(|remotes| status(&remotes, sharing.as_ref(), nodes.as_ref())))
}

/// How each stands, of what its readers say and of what is known by it.
pub(super) fn status(
    remotes: &[RemoteView],
    sharing: Option<&Sharing>,
    nodes: Option<&RemoteNodesView>,
) -> Vec<RemoteCluster> {
    let addresses = sharing.map(|sharing| sharing.addresses.clone()).unwrap_or_default();
    let nodes = nodes.cloned().unwrap_or_default();
    remotes.iter().map(|view| RemoteCluster::new(view, &addresses, &nodes)).collect()
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
