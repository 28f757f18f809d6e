//! What the node says of itself in the cluster.

use std::{path::PathBuf, thread::sleep, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiClient, ApiServer, NODE_NAME};

use crate::{Cluster, objects};

const PODS: [&str; 3] = ["web", "friend", "stranger"];
const ENDPOINTS: &str = "/apis/cilium.io/v2/namespaces/shop/ciliumendpoints";

pub(crate) fn node() -> String {
    format!("/api/v1/nodes/{NODE_NAME}")
}

pub(crate) fn cilium_node() -> String {
    format!("/apis/cilium.io/v2/ciliumnodes/{NODE_NAME}")
}

fn endpoint(pod: &str) -> String {
    format!("{ENDPOINTS}/{pod}")
}

/// The node in a cluster that knows it, and Cilium's kinds.
fn start(program: PathBuf) -> Result<Cluster> {
    Cluster::start_with(program, |server, agent| {
        let client = server.client();
        objects::node(client, NODE_NAME)?;
        define(server)?;
        agent.set_flag("annotate-k8s-node", Some("true"));
        Ok(())
    })
}

pub(crate) fn define(server: &ApiServer) -> Result<()> {
    let client = server.client();
    objects::define(client, "ciliumnodes", "CiliumNode", "Cluster")?;
    objects::define(client, "ciliumendpoints", "CiliumEndpoint", "Namespaced")
}

/// Whether the node's condition, taints and annotations are as they should be.
fn node_is_up(client: &ApiClient) -> Result<bool> {
    let node = client.get(&node())?;
    let list = |pointer: &str| node.pointer(pointer).and_then(Value::as_array).cloned();
    let up = list("/status/conditions").unwrap_or_default().iter().any(|condition| {
        condition["type"] == "NetworkUnavailable"
            && condition["status"] == "False"
            && condition["reason"] == "CiliumIsUp"
    });
    let taints = list("/spec/taints").unwrap_or_default();
    let has = |key: &str| taints.iter().any(|taint| taint["key"] == key);
    ensure!(has("example.com/mine"), "a taint of somebody else is gone: {node}");
    let host = &node["metadata"]["annotations"]["network.cilium.io/ipv4-cilium-host"];
    Ok(up && !has("node.cilium.io/agent-not-ready") && host.is_string())
}

/// Whether the CiliumNode is the Node's.
fn is_owned(client: &ApiClient) -> Result<bool> {
    let Ok(cilium_node) = client.get(&cilium_node()) else { return Ok(false) };
    let owner = &cilium_node["metadata"]["ownerReferences"][0]["uid"];
    Ok(owner.is_string() && *owner == client.get(&node())?["metadata"]["uid"])
}

impl Cluster {
    /// Waits until everything is said that is to be said, of these pods.
    fn wait_until_true(&mut self, pods: &[&str]) -> Result<()> {
        let Self { node, server, .. } = self;
        node.wait("the node is not in the cluster as it should be", |agent| {
            let client = server.client();
            for pod in PODS {
                let Some(expected) = pods.contains(&pod).then_some(pod) else {
                    if client.get(&endpoint(pod)).is_ok() {
                        return Ok(false);
                    }
                    continue;
                };
                let Ok(there) = client.get(&endpoint(expected)) else { return Ok(false) };
                let path = format!("/endpoint/pod-name:shop%2F{expected}");
                let Ok(own) = agent.rest().get::<Value>(&path) else { return Ok(false) };
                let pod = client.get(&format!("/api/v1/namespaces/shop/pods/{expected}"))?;
                let owner = &there["metadata"]["ownerReferences"][0]["uid"];
                let same = there["status"]["id"] == own["id"]
                    && there["status"]["identity"]["id"] == own["status"]["identity"]["id"]
                    && *owner == pod["metadata"]["uid"]
                    && there["metadata"]["labels"]["app"] == expected;
                if !same {
                    return Ok(false);
                }
            }
            Ok(node_is_up(client)? && is_owned(client)?)
        })
        .map(drop)
        .with_context(|| self.said())
    }

    /// What the cluster holds, for whoever reads a failure.
    fn said(&self) -> String {
        let client = self.server.client();
        let all = [node(), cilium_node(), ENDPOINTS.to_owned()];
        let all =
            all.map(|path| client.get(&path).map_or_else(|it| it.to_string(), |it| it.to_string()));
        all.join("\n")
    }

    /// What agents wrote so far.
    fn writes(&self) -> Result<Vec<String>> {
        let asked = self.server.asked_by_agents()?.into_iter();
        let writes = asked.filter(|it| !matches!(it.verb.as_str(), "list" | "watch" | "get"));
        Ok(writes.map(|it| format!("{} {}", it.verb, it.uri)).collect())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.server.client().delete(path)
    }
}

#[test]
fn what_the_node_says_of_itself_is_kept_true() {
    lab::test("published::what_the_node_says_of_itself_is_kept_true", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = start(program)?;
        cluster.wait_until_true(&PODS)?;

        // A restart writes nothing but what happened meanwhile to an object that is looked at last.
        cluster.node.kill_agent()?;
        let before = cluster.writes()?.len();
        cluster.remove(&endpoint("web"))?;
        cluster.node.start_agent()?;
        cluster.wait_until_true(&PODS)?;
        let writes = cluster.writes()?.split_off(before);
        ensure!(writes.len() == 1 && writes[0].starts_with("create"), "{writes:?}");

        // Its CiliumNode is removed; then its Node is, and is made again.
        cluster.remove(&cilium_node())?;
        cluster.wait_until_true(&PODS)?;
        cluster.remove(&node())?;
        objects::node(cluster.server.client(), NODE_NAME)?;
        cluster.wait_until_true(&PODS)?;

        // Somebody spoils what it said.
        let wrong = json!({ "status": { "identity": { "id": 1 }, "id": 9 } });
        cluster.server.client().patch(&endpoint("friend"), &wrong)?;
        cluster.wait_until_true(&PODS)?;

        // A pod goes while nobody serves the cluster.
        cluster.node.kill_agent()?;
        cluster.server.kill()?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        cluster.stranger.delete(&cluster.node)?;
        cluster.server.start_again()?;
        cluster.wait_until_true(&["web", "friend"])
    });
}

#[test]
fn a_death_amid_writes_to_the_cluster_is_made_good() {
    lab::test("published::a_death_amid_writes_to_the_cluster_is_made_good", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = start(program)?;
        for round in 0..6 {
            cluster.wait_until_true(&PODS)?;
            cluster.node.kill_agent()?;
            PODS.iter().try_for_each(|pod| cluster.remove(&endpoint(pod)))?;
            cluster.remove(&node())?;
            cluster.remove(&cilium_node())?;
            objects::node(cluster.server.client(), NODE_NAME)?;
            cluster.node.start_agent()?;
            // Wherever it is by then.
            sleep(Duration::from_millis(15 * round));
            cluster.node.kill_agent()?;
            cluster.node.start_agent()?;
        }
        cluster.wait_until_true(&PODS)
    });
}
