//! Real pods: containerd and runc from the distribution, our plugin, our agent.

mod cluster;
mod cri;
mod gone;
mod messages;
mod packaged;
mod packaged_pod;
mod pod;
mod runtime;

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, Binaries, Node, wait_for},
    traffic::{Kind, Plan, Stream},
};

use pod::Pod;
use runtime::Containerd;

/// A node whose agent is ready for pods.
fn node() -> Result<Node> {
    let mut node = Node::new(Binaries::find()?)?;
    for name in ["web", "friend", "stranger"] {
        node.write_manifest(&format!("{name}.yaml"), &pod_manifest(name).to_string())?;
    }
    node.start_agent()?;
    node.wait("it writes no CNI configuration", |node| {
        Ok(node.path("cni/05-volvox.conflist").exists())
    })?;
    Ok(node)
}

/// Says which app a pod is; the runtime tells the plugin only its name.
fn pod_manifest(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "shop", "name": name, "labels": { "app": name } },
    })
}

/// Lets only `peer` reach the web pod.
fn policy(peer: &str) -> String {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "namespace": "shop", "name": "web" },
        "spec": {
            "podSelector": { "matchLabels": { "app": "web" } },
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{ "podSelector": { "matchLabels": { "app": peer } } }],
                "ports": [
                    { "protocol": "TCP", "port": 80 },
                    { "protocol": "UDP", "port": 5000 },
                ],
            }],
        },
    })
    .to_string()
}

/// Waits until `from` reaches `to`, or does not any more.
fn wait_until(reaches: bool, from: &Pod<'_>, to: &Pod<'_>) -> Result<()> {
    wait_for(&format!("reaching the pod is {reaches}"), || Ok(from.reaches(to) == reaches))
}

#[test]
fn pods_reach_each_other_as_the_manifests_say() {
    lab::test("pods_reach_each_other_as_the_manifests_say", || {
        let node = node()?;
        let runtime = Containerd::start(&node)?;
        let web = Pod::run(&runtime, "shop", "web")?;
        let friend = Pod::run(&runtime, "shop", "friend")?;
        wait_until(true, &friend, &web)?;
        node.write_manifest("policy.yaml", &policy("somebody-else"))?;
        wait_until(false, &friend, &web)?;
        node.write_manifest("policy.yaml", &policy("friend"))?;
        wait_until(true, &friend, &web)?;
        let stranger = Pod::run(&runtime, "shop", "stranger")?;
        ensure!(!stranger.reaches(&web), "a pod that the policy does not name got through");
        node.remove_manifest("policy.yaml")?;
        wait_until(true, &stranger, &web)
    });
}

#[test]
fn a_killed_agent_is_not_noticed() {
    lab::test("a_killed_agent_is_not_noticed", || {
        let mut node = node()?;
        let runtime = Containerd::start(&node)?;
        node.write_manifest("policy.yaml", &policy("friend"))?;
        let web = Pod::run(&runtime, "shop", "web")?;
        let friend = Pod::run(&runtime, "shop", "friend")?;
        wait_until(true, &friend, &web)?;
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from: friend.netns.clone(),
            to: web.netns.clone(),
            target: SocketAddr::new(web.address, 5000),
            rate: 1000,
        })?;
        for _ in 0..3 {
            stream.wait_for_answers(50)?;
            node.kill_agent()?;
            wait_until(true, &friend, &web).context("a new connection without an agent")?;
            node.start_agent()?;
            node.wait_for_ready(2)?;
        }
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        let stranger = Pod::run(&runtime, "shop", "stranger")?;
        ensure!(!stranger.reaches(&web), "after the restart the policy does not hold");
        Ok(())
    });
}

#[test]
fn c_22067_a_pod_goes_while_the_agent_is_dead() {
    lab::test("c_22067_a_pod_goes_while_the_agent_is_dead", || {
        let mut node = node()?;
        let runtime = Containerd::start(&node)?;
        let web = Pod::run(&runtime, "shop", "web")?;
        let friend = Pod::run(&runtime, "shop", "friend")?;
        node.kill_agent()?;
        friend.remove()?;
        node.start_agent()?;
        node.wait_for_ready(1)?;
        // The freed address can be given again, and what stayed still works.
        let stranger = Pod::run(&runtime, "shop", "stranger")?;
        wait_until(true, &stranger, &web)
    });
}
