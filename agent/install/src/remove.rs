//! Removes what an installation made: from the cluster, and from its nodes if that is wanted.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use volvox_packaging::{MANAGER, NAME, for_server, objects};

use crate::{
    Cluster, InstallError, Say,
    checks::{Installed, version_minor},
    kinds::{DAEMON_SET, DEFINITION, KINDS, Kind, named, path},
    ready,
    server::{How, Refusal, Server},
};

/// The DaemonSet that clears nodes.
const CLEANER: &str = "volvox-uninstall";
/// The operator's pods.
const OPERATOR: &str = "volvox-operator";
/// How often the server is asked whether something is gone.
const PAUSE: Duration = Duration::from_secs(1);

/// What is removed.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// Also the definitions, and with them all their objects.
    pub definitions: bool,
    /// Also what agents made on nodes.
    pub nodes: bool,
    /// How long is waited for pods to end, and for nodes; zero does not wait.
    pub wait: Duration,
}

/// Removes Volvox.
pub async fn uninstall(
    cluster: &Cluster,
    removal: &Removal,
    say: Say<'_>,
) -> Result<(), InstallError> {
    if removal.nodes && removal.wait.is_zero() {
        let why = "nodes are cleared one after the other: give --wait a duration with --nodes";
        return Err(InstallError::Refused(why.to_owned()));
    }
    say(&format!("the API server is {}", cluster.name()));
    let server = cluster.server();
    let minor = version_minor(server).await?;
    let installed = Installed::find(server).await?;
    let mut removed = remove_kind(server, DAEMON_SET, say).await?.len();
    pods_gone(server, NAME, removal.wait, say).await?;
    if removal.nodes {
        let installed = installed.as_ref().ok_or(InstallError::NotInstalled)?;
        clear_nodes(server, cleaner(installed, minor)?, removal.wait, say).await?;
        pods_gone(server, CLEANER, removal.wait, say).await?;
    }
    for kind in KINDS.into_iter().filter(|kind| ![DAEMON_SET, DEFINITION].contains(kind)) {
        removed += remove_kind(server, kind, say).await?.len();
    }
    pods_gone(server, OPERATOR, removal.wait, say).await?;
    if removal.definitions {
        say("definitions are removed, and with them all objects of their kinds");
        let definitions = remove_kind(server, DEFINITION, say).await?;
        definitions_gone(server, &definitions, removal.wait, say).await?;
        removed += definitions.len();
    } else if !server.ours(DEFINITION).await?.is_empty() {
        say("definitions stay, with their objects: volvox uninstall --definitions removes both");
    }
    if removed == 0 {
        say("nothing else of volvox install was there");
    }
    say(if removal.nodes {
        "on nodes stay the plugin volvox-cni, and interfaces of pods, which nothing filters any more: \
         restart these pods with another network"
    } else {
        "on nodes the datapath goes on without agents: volvox-agent uninstall removes it there, with \
         the flags of the agent"
    });
    Ok(())
}

/// Removes all objects of a kind that are ours; they come back.
async fn remove_kind(
    server: &Server,
    kind: Kind,
    say: Say<'_>,
) -> Result<Vec<Value>, InstallError> {
    let all = server.ours(kind).await?;
    for object in &all {
        server.delete(object).await?;
        say(&format!("{}: removed", named(object)));
    }
    Ok(all)
}

/// Waits until no pod of that label is there.
async fn pods_gone(
    server: &Server,
    label: &str,
    patience: Duration,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let path = format!("/api/v1/pods?labelSelector=k8s-app%3D{label}");
    gone(
        async || server.list(&path).await,
        |pods| format!("{} pods of {label} to end", pods.len()),
        |pods| {
            let nodes = pods.iter().filter_map(|it| it["spec"]["nodeName"].as_str());
            let nodes: Vec<_> = nodes.collect();
            vec![format!(
                "pods of {label} do not end on nodes {}: remove them by kubectl delete pod --force, \
                 and repeat volvox uninstall",
                nodes.join(", ")
            )]
        },
        patience,
        say,
    )
    .await
}

/// Waits until the server has none of these definitions any more: it removes all objects of a kind first,
/// and who installs again before that loses what was just installed.
async fn definitions_gone(
    server: &Server,
    definitions: &[Value],
    patience: Duration,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let left = async || {
        let mut left = Vec::new();
        for definition in definitions {
            let Some(path) = path(definition) else { continue };
            let now = server.get(&path).await?;
            // One of another UID was made since then.
            left.extend(now.filter(|it| it["metadata"]["uid"] == definition["metadata"]["uid"]));
        }
        Ok(left)
    };
    let what = |left: &[Value]| format!("objects of {} definitions to go", left.len());
    let why = |left: &[Value]| left.iter().map(why_it_stays).collect();
    gone(left, what, why, patience, say).await
}

/// Waits until nothing of something is left. Says once what is waited for, and after too long why it stays.
async fn gone(
    left: impl AsyncFn() -> Result<Vec<Value>, InstallError>,
    what: impl Fn(&[Value]) -> String,
    why: impl Fn(&[Value]) -> Vec<String>,
    patience: Duration,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let until = Instant::now() + patience;
    let mut told = false;
    while !patience.is_zero() {
        let left = left().await?;
        if left.is_empty() {
            break;
        }
        if Instant::now() > until {
            return Err(InstallError::NotReady(why(&left)));
        }
        if !std::mem::replace(&mut told, true) {
            say(&format!("waiting for {}", what(&left)));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Why a definition stays that was removed, and what helps.
fn why_it_stays(definition: &Value) -> String {
    let conditions = definition["status"]["conditions"].as_array();
    let ending = conditions.into_iter().flatten().find(|it| it["type"] == "Terminating");
    let cause =
        ending.and_then(|it| it["message"].as_str()).unwrap_or("the server does not say why");
    let (kind, name) = (named(definition), definition["metadata"]["name"].as_str());
    format!(
        "{kind} does not go ({cause}): see which finalizers its objects have by kubectl get {} \
         --all-namespaces -o yaml, and remove them; it goes by itself then",
        name.unwrap_or_default()
    )
}

/// A DaemonSet whose pods run `volvox-agent uninstall` as the agent runs, and then wait.
fn cleaner(installed: &Installed, minor: u32) -> Result<Value, InstallError> {
    let mut all = objects(&installed.values()?);
    for_server(&mut all, minor);
    let set = all.into_iter().find(|it| it["kind"] == DAEMON_SET.name);
    Ok(cleaner_of(set.unwrap_or_default()))
}

fn cleaner_of(mut set: Value) -> Value {
    let labels = json!({ "k8s-app": CLEANER });
    set["metadata"]["name"] = CLEANER.into();
    set["metadata"]["labels"]["k8s-app"] = CLEANER.into();
    set["spec"]["selector"]["matchLabels"] = labels.clone();
    set["spec"]["template"]["metadata"]["labels"] = labels;
    let pod = &mut set["spec"]["template"]["spec"];
    pod["automountServiceAccountToken"] = false.into();
    let mut clear = pod["containers"][0].take();
    clear["name"] = "agent".into();
    let mut command = vec![clear["command"][0].clone(), "uninstall".into()];
    command.extend(clear["args"].as_array().into_iter().flatten().cloned());
    clear["command"] = Value::from(command);
    if let Some(members) = clear.as_object_mut() {
        for member in ["args", "livenessProbe", "readinessProbe", "startupProbe"] {
            members.remove(member);
        }
    }
    let done = json!({
        "name": "done",
        "image": clear["image"], "imagePullPolicy": clear["imagePullPolicy"],
        "command": ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"],
        "resources": { "requests": { "cpu": "1m", "memory": "8Mi" }, "limits": { "memory": "32Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    pod["initContainers"] = json!([clear]);
    pod["containers"] = json!([done]);
    set
}

/// Has each node cleared, and removes what did it.
async fn clear_nodes(
    server: &Server,
    cleaner: Value,
    patience: Duration,
    say: Say<'_>,
) -> Result<(), InstallError> {
    say("each node is cleared by volvox-agent uninstall");
    let how = How { force: true, rehearse: false };
    server.apply(&cleaner, how).await.map_err(|refusal| match refusal {
        Refusal::Conflict(fields) => InstallError::Conflict { object: named(&cleaner), fields },
        Refusal::Error(error) => error,
    })?;
    let namespace = cleaner["metadata"]["namespace"].as_str().unwrap_or(MANAGER);
    // It stays where it failed: who reads its logs finds the reason.
    ready::wait(server, namespace, CLEANER, patience, say).await?;
    server.delete(&cleaner).await
}

#[cfg(test)]
mod tests {
    use volvox_packaging::Values;

    use super::*;

    #[test]
    fn what_clears_a_node_is_the_agent_with_another_verb() {
        let mut values = Values::default();
        values.set("namespace=net").unwrap();
        let set = objects(&values).into_iter().find(|it| it["kind"] == "DaemonSet").unwrap();
        let cleaner = cleaner_of(set.clone());
        assert_eq!(cleaner["metadata"]["namespace"], "net");
        let (agent, pod) = (
            &set["spec"]["template"]["spec"]["containers"][0],
            &cleaner["spec"]["template"]["spec"],
        );
        let clear = &pod["initContainers"][0];
        let command = json!(["/usr/bin/volvox-agent", "uninstall", "--config-dir=/etc/volvox.d"]);
        assert_eq!(clear["command"], command);
        for member in ["volumeMounts", "securityContext", "image", "env"] {
            assert_eq!(clear[member], agent[member], "{member}");
        }
        let members = clear.as_object().unwrap().keys();
        let left: Vec<_> = members.filter(|it| it.ends_with("Probe") || *it == "args").collect();
        assert!(left.is_empty(), "the server takes none of these: {left:?}");
        assert_ne!(cleaner["spec"]["selector"], set["spec"]["selector"]);
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    }
}
