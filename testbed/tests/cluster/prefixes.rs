//! Prefixes of pods that the cluster gives its nodes.

use std::{net::IpAddr, path::PathBuf};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiClient, ApiServer, Binaries, Etcd, NODE_NAME, Node, Pod};

use crate::{
    objects,
    published::{cilium_node, define, node},
};

/// The same prefix as in the lab's Node.
const PREFIX: &str = "10.44.0.0/24";

/// A cluster whose node has no prefixes but those that it is given.
fn start(program: PathBuf, mode: &str) -> Result<(Node, Etcd, ApiServer)> {
    let mut agent = Node::new(Binaries::find()?)?;
    agent.ipv4_only();
    agent.set_flag("ipv4-range", Some("auto"));
    agent.set_flag("ipv6-range", Some("auto"));
    agent.set_flag("ipam", Some(mode));
    let etcd = Etcd::start(&agent.path("etcd"))?;
    let server = ApiServer::start(program, &agent.path("api"), &etcd)?;
    let kubeconfig = server.kubeconfig().display().to_string();
    agent.set_flag("k8s-kubeconfig-path", Some(&kubeconfig));
    objects::namespace(server.client())?;
    define(&server)?;
    Ok((agent, etcd, server))
}

fn pod(agent: &Node, server: &ApiServer, name: &str) -> Result<Pod> {
    let uid = objects::pod(server.client(), name, NODE_NAME)?;
    Pod::of_cluster(agent, &format!("shop/{name}"), &uid)
}

fn has_prefix(pod: &Pod, prefix: &str) -> Result<bool> {
    let prefix: Ipv4Net = prefix.parse()?;
    Ok(matches!(pod.address(false)?, IpAddr::V4(address) if prefix.contains(&address)))
}

#[test]
fn pods_have_addresses_of_their_node_s_prefix_and_keep_them() {
    let name = "prefixes::pods_have_addresses_of_their_node_s_prefix_and_keep_them";
    lab::test(name, || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (mut agent, _etcd, mut server) = start(program, "kubernetes")?;
        // Its Node is there later than its agent, which lives and says what is missing.
        agent.start_agent()?;
        agent.wait("nobody says what is missing", |agent| {
            let status: Value = agent.rest().get("/healthz")?;
            let waits = agent.rest().get::<Value>("/volvox/waits")?.to_string();
            let words = "the prefixes of pods of";
            Ok(status.to_string().contains(words) && waits.contains(words))
        })?;
        let agent_is = agent.agent()?.pid();
        objects::node(server.client(), NODE_NAME)?;
        let first = pod(&agent, &server, "first")?;
        ensure!(has_prefix(&first, PREFIX)?, "{first:?}");
        ensure!(agent.agent()?.pid() == agent_is, "it is another process");

        // So does one that has lost its state directory, as long as pods are here.
        let numbers = |agent: &Node| -> Result<Vec<String>> {
            // The kernel does not tell the name of an address's pool.
            let of = |view: &Value| {
                let networking = &view["status"]["networking"];
                let address = &networking["addressing"][0]["ipv4"];
                format!("{} {address} {} {}", view["id"], networking["mac"], networking["host-mac"])
            };
            Ok(agent.endpoints()?.iter().map(of).collect())
        };
        let before = numbers(&agent)?;
        agent.kill_agent()?;
        server.kill()?;
        std::fs::remove_dir_all(agent.path("cilium/state"))?;
        agent.start_agent()?;
        agent.wait_for_ready(1)?;
        let after = numbers(&agent)?;
        ensure!(after == before, "{before:?} moved: {after:?}");
        server.start_again()?;

        // A later start asks nobody.
        agent.kill_agent()?;
        server.kill()?;
        agent.start_agent()?;
        agent.wait_for_ready(1)?;
        server.start_again()?;

        // Another Node of that name says another prefix: that is said, and nothing moves.
        server.client().delete(&node())?;
        let other = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE_NAME },
            "spec": { "podCIDR": "10.45.0.0/24", "podCIDRs": ["10.45.0.0/24"] },
        });
        server.client().create("/api/v1/nodes", &other)?;
        agent.wait("the other prefix is not reported", |agent| {
            let status: Value = agent.rest().get("/healthz")?;
            let words = "the Node says 10.45.0.0/24, but pods here have addresses of 10.44.0.0/24";
            Ok(status.to_string().contains(words))
        })?;
        agent.kill_agent()?;
        agent.start_agent()?;
        agent.wait_for_ready(1)?;
        let second = pod(&agent, &server, "second")?;
        ensure!(has_prefix(&second, PREFIX)?, "{second:?}");
        Ok(())
    });
}

#[test]
fn pods_have_addresses_of_the_prefix_that_an_operator_gives() {
    let name = "prefixes::pods_have_addresses_of_the_prefix_that_an_operator_gives";
    lab::test(name, || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (mut agent, _etcd, server) = start(program, "cluster-pool")?;
        objects::node(server.client(), NODE_NAME)?;
        agent.exec_agent()?;
        agent
            .wait("there is no CiliumNode", |_| Ok(server.client().get(&cilium_node()).is_ok()))?;
        give(server.client(), "10.46.0.0/24")?;
        agent.wait_for_api()?;
        let first = pod(&agent, &server, "first")?;
        ensure!(has_prefix(&first, "10.46.0.0/24")?, "{first:?}");
        agent
            .wait("the agent's part of the CiliumNode is not there", |_| {
                let text = server.client().get(&cilium_node())?.to_string();
                Ok(text.contains("CiliumInternalIP") && text.contains("10.46.0.0/24"))
            })
            .map(drop)
    });
}

/// What Cilium's operator does.
fn give(client: &ApiClient, prefix: &str) -> Result<()> {
    let given = json!({ "spec": { "ipam": { "podCIDRs": [prefix] } } });
    client.patch(&cilium_node(), &given).context("the operator gives a prefix")
}
