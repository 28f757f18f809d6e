//! Pods whose containers go while nobody says DEL: the agent follows containerd, and asks the kernel.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_system::netlink::Socket;
use volvox_testbed::lab::{self, Binaries, Node};

use crate::{pod::Pod, pod_manifest, runtime::Containerd, wait_until};

/// The agent waits 30 s for a DEL, and looks every 15 s.
const GOES_WITHIN: Duration = Duration::from_secs(120);
/// A plugin that never tells the agent.
const SAYS_NOTHING: &str = "#!/bin/sh\nexit 0\n";
/// By then it would have gone.
const STAYS_FOR: Duration = Duration::from_secs(75);

/// A node whose agent follows the containerd that is yet to start, and finds lost interfaces in no other way.
fn node() -> Result<Node> {
    let mut node = Node::new(Binaries::find()?)?;
    for name in ["web", "friend"] {
        node.write_manifest(&format!("{name}.yaml"), &pod_manifest(name).to_string())?;
    }
    let socket = node.path("containerd/containerd.sock").display().to_string();
    node.set_flag("container-runtime-endpoint", Some(&socket));
    node.set_flag("endpoint-gc-interval", Some("0s"));
    node.start_agent()?;
    node.wait("it writes no CNI configuration", |node| {
        Ok(node.path("cni/05-volvox.conflist").exists())
    })?;
    Ok(node)
}

fn until_followed(node: &mut Node) -> Result<()> {
    node.wait("it does not follow containerd", |node| Ok(state(node)? == "Ok"))?;
    Ok(())
}

fn runtime_health(node: &Node) -> Result<Value> {
    let health: Value = node.rest().get("/healthz")?;
    Ok(health["container-runtime"].clone())
}

fn state(node: &Node) -> Result<String> {
    let health = runtime_health(node)?;
    health["state"].as_str().map(str::to_owned).with_context(|| format!("it is {health}"))
}

/// Waits until there are so many endpoints.
fn until_left(node: &Node, count: usize) -> Result<()> {
    let begun = std::time::Instant::now();
    while node.endpoints()?.len() != count {
        ensure!(begun.elapsed() < GOES_WITHIN, "endpoints: {:#?}", node.endpoints()?);
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// A node whose agent follows the runtime.
fn followed() -> Result<(Node, Containerd)> {
    let mut node = node()?;
    let runtime = Containerd::start(&node)?;
    until_followed(&mut node)?;
    Ok((node, runtime))
}

/// Two pods, of which the second one reaches the first.
fn pods(runtime: &Containerd) -> Result<[Pod<'_>; 2]> {
    let web = Pod::run(runtime, "shop", "web")?;
    let friend = Pod::run(runtime, "shop", "friend")?;
    wait_until(true, &friend, &web)?;
    Ok([web, friend])
}

#[test]
fn a_pod_whose_del_never_comes_goes_when_its_container_and_its_interface_are_gone() {
    lab::test(
        "gone::a_pod_whose_del_never_comes_goes_when_its_container_and_its_interface_are_gone",
        || {
            let (node, runtime) = followed()?;
            let [_web, friend] = pods(&runtime)?;
            runtime.replace_plugin(&node, SAYS_NOTHING)?;
            friend.remove()?;
            ensure!(node.endpoints()?.len() == 2, "somebody said DEL");
            until_left(&node, 1)?;
            let left = node.endpoints()?;
            ensure!(
                left[0]["status"]["external-identifiers"]["k8s-pod-name"] == "web",
                "{left:#?}"
            );
            Ok(())
        },
    );
}

#[test]
fn a_pod_that_goes_while_the_agent_is_dead_and_cannot_be_told_of_is_gone_afterwards() {
    lab::test(
        "gone::a_pod_that_goes_while_the_agent_is_dead_and_cannot_be_told_of_is_gone_afterwards",
        || {
            let (mut node, runtime) = followed()?;
            let [_web, friend] = pods(&runtime)?;
            runtime.replace_plugin(&node, SAYS_NOTHING)?;
            node.kill_agent()?;
            friend.remove()?;
            // The kernel takes its time with interfaces of a namespace that ended.
            lab::wait_for("the interface goes with its namespace", || {
                let links = Socket::open()?.links()?;
                Ok(links.values().filter(|link| link.name.starts_with("lxc")).count() == 1)
            })?;
            node.start_agent()?;
            until_left(&node, 1)
        },
    );
}

#[test]
fn a_pod_whose_sandbox_ended_stays_while_its_interface_lives() {
    lab::test("gone::a_pod_whose_sandbox_ended_stays_while_its_interface_lives", || {
        let (mut node, runtime) = followed()?;
        let [web, _friend] = pods(&runtime)?;
        web.end_sandbox()?;
        node.wait("it does not hear that the sandbox ended", |node| {
            let line = runtime_health(node)?["msg"].to_string();
            Ok(line.contains("1 are gone, 1 of these have an interface"))
        })?;
        std::thread::sleep(STAYS_FOR);
        node.wait_for_ready(2)?;
        ensure!(node.endpoints()?.len() == 2, "a pod went although its interface lives");
        // Now that goes as well.
        runtime.replace_plugin(&node, SAYS_NOTHING)?;
        web.remove()?;
        until_left(&node, 1)
    });
}

#[test]
fn a_containerd_that_ends_and_starts_again_costs_no_pod() {
    lab::test("gone::a_containerd_that_ends_and_starts_again_costs_no_pod", || {
        let (mut node, mut runtime) = followed()?;
        pods(&runtime)?;
        runtime.end()?;
        node.wait("it does not notice that containerd is gone", |node| Ok(state(node)? != "Ok"))?;
        std::thread::sleep(STAYS_FOR);
        ensure!(node.endpoints()?.len() == 2, "a pod went with containerd");
        runtime.start_again()?;
        until_followed(&mut node)?;
        std::thread::sleep(STAYS_FOR);
        ensure!(node.endpoints()?.len() == 2, "a pod went when containerd came");
        node.wait_for_ready(2)?;
        Ok(())
    });
}
