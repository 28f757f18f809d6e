//! Other nodes, as CiliumNodes of the API server say where they are.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiServer, Metrics, Neighbour, Node};

use crate::{Cluster, objects};

const NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const ADDRESS: &str = "198.51.100.7/32";

/// A policy by which web lets nodes in.
fn policy() -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "nodes", "namespace": objects::NAMESPACE },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "web" } },
            "ingress": [{ "fromEntities": ["remote-node"] }],
        },
    })
}

fn cilium_node(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": { "name": name },
        "spec": { "addresses": [{ "type": "InternalIP", "ip": ip }] },
    })
}

fn wait_until_it_reaches(cluster: &mut Cluster, it: &Neighbour, expected: bool) -> Result<()> {
    let Cluster { node, web, .. } = cluster;
    node.wait(&format!("reaching web is not {expected}"), |node| {
        let is_mapped = node.mapped(ADDRESS)? == Some(6);
        Ok(is_mapped == expected && it.reaches(web)? == expected)
    })
    .map(drop)
}

/// How the part of the start ended that takes the cluster in; none while it goes on.
fn took_in_the_cluster(node: &Node) -> Result<Option<bool>> {
    let metrics = Metrics::scrape(node.rest())?;
    let mut spans = metrics.family("cilium_agent_bootstrap_seconds");
    let span = spans.find(|(labels, _)| labels.contains("scope=\"k8sInit\""));
    Ok(span.map(|(labels, _)| labels.contains("outcome=\"success\"")))
}

#[test]
fn a_node_is_told_from_the_world_for_as_long_as_it_is_one() {
    lab::test("nodes::a_node_is_told_from_the_world_for_as_long_as_it_is_one", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut neighbour = None;
        let mut cluster = Cluster::start_with(program, |server, _| {
            let client = server.client();
            objects::define(client, "ciliumnetworkpolicies", "CiliumNetworkPolicy", "Namespaced")?;
            objects::define(client, "ciliumnodes", "CiliumNode", "Cluster")?;
            lab::wait_for("Cilium's kinds are served", || {
                let paths = [objects::CILIUM_POLICIES, NODES];
                Ok(paths.iter().all(|path| client.get(path).is_ok()))
            })?;
            client.create(NODES, &cilium_node("torn", "192.0.2"))?;
            neighbour = Some(Neighbour::connect()?);
            Ok(())
        })?;
        let neighbour = neighbour.expect("it was connected");
        let client = cluster.server.client();
        client.create(objects::CILIUM_POLICIES, &policy())?;
        wait_until_it_reaches(&mut cluster, &neighbour, false)?;
        let there = cilium_node("there", &Neighbour::ADDRESS.to_string());
        cluster.server.client().create(NODES, &there)?;
        wait_until_it_reaches(&mut cluster, &neighbour, true)?;
        let nodes: Value = cluster.node.rest().get("/cluster/nodes")?;
        ensure!(nodes.to_string().contains("custom-resource"), "{nodes}");
        ensure!(took_in_the_cluster(&cluster.node)? == Some(true), "k8sInit is no success");

        // A life without the server.
        cluster.node.kill_agent()?;
        cluster.server.kill()?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        wait_until_it_reaches(&mut cluster, &neighbour, true)?;
        ensure!(took_in_the_cluster(&cluster.node)? != Some(true), "k8sInit is a success");

        cluster.server.start_again()?;
        cluster.server.client().delete(&format!("{NODES}/there"))?;
        wait_until_it_reaches(&mut cluster, &neighbour, false)
    });
}
