//! Waits until a DaemonSet is ready on each node, tells progress, and in the end what is wrong.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{InstallError, Say, kinds::DAEMON_SET, nodes::Sight, server::Server};

/// How often the server is asked.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits for the DaemonSet of that name.
pub(crate) async fn wait(
    server: &Server,
    namespace: &str,
    name: &str,
    patience: Duration,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let until = Instant::now() + patience;
    let mut told = None;
    loop {
        let sight = look(server, namespace, name).await?;
        let counts = sight.counts();
        if sight.is_ready() {
            say(&match counts {
                (_, 0) => "no node gets a pod: see the value nodeSelector".to_owned(),
                (ready, wanted) => format!("{ready} of {wanted} nodes are ready"),
            });
            return Ok(());
        }
        if counts.1 > 0 && told != Some(counts) {
            say(&format!("{} of {} nodes are ready", counts.0, counts.1));
            told = Some(counts);
        }
        if Instant::now() >= until {
            let seconds = patience.as_secs();
            let mut lines = vec![match counts {
                (_, 0) => format!("no node has a pod after {seconds} s:"),
                (ready, wanted) => {
                    let missing = wanted.saturating_sub(ready);
                    format!("{missing} of {wanted} nodes are not ready after {seconds} s:")
                }
            }];
            lines.extend(sight.troubles());
            lines.extend(refusals(server, namespace, name).await?);
            lines.push(format!(
                "the objects stay and nodes go on: kubectl -n {namespace} logs ds/{name} says more, \
                 and kubectl -n {namespace} rollout status ds/{name} waits on"
            ));
            return Err(InstallError::NotReady(lines));
        }
        sleep(PAUSE).await;
    }
}

async fn look(server: &Server, namespace: &str, name: &str) -> Result<Sight, InstallError> {
    let set = server.get(&DAEMON_SET.path(namespace, name)).await?.ok_or_else(|| {
        InstallError::Refused(format!("DaemonSet {namespace}/{name} is gone: somebody removed it"))
    })?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=k8s-app%3D{name}");
    let (nodes, pods) = (server.list("/api/v1/nodes").await?, server.list(&pods).await?);
    Ok(Sight { set, nodes, pods })
}

/// Why the server did not let the DaemonSet make pods, as its events say.
async fn refusals(
    server: &Server,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, InstallError> {
    let fields = format!("involvedObject.kind%3DDaemonSet,involvedObject.name%3D{name}");
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={fields}");
    let events = server.list(&path).await?;
    let last = events.iter().rfind(|it| it["reason"] == "FailedCreate");
    let message = last.and_then(|it| it["message"].as_str());
    Ok(message.map(|it| format!("DaemonSet {namespace}/{name} cannot make pods: {it}")))
}
