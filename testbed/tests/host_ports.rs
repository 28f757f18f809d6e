//! Host ports by the real plugin `portmap`, behind ours: by netfilter, beside the agent's programs.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Neighbour, Netns, Node, Pod, Setup, cni};

/// Where Debian's package `containernetworking-plugins` has it.
const PORTMAP: &str = "/usr/lib/cni/portmap";
const HOST_PORT: u16 = 8_080;
const CONTAINER_PORT: u16 = 5_000;
const PATIENCE: Duration = Duration::from_secs(4);

/// The entry of `portmap` in the list that the agent wrote, as a runtime hands it on for this pod.
fn portmap(node: &Node, result: &Value) -> Result<Value> {
    let list: Value = serde_json::from_slice(&fs::read(node.path("cni/05-volvox.conflist"))?)?;
    let plugins = list["plugins"].as_array().context("the list has no plugins")?;
    let types: Vec<_> = plugins.iter().map(|it| it["type"].as_str().unwrap_or_default()).collect();
    ensure!(types == ["volvox-cni", "portmap"], "the list has {types:?}");
    let mut config = plugins[1].clone();
    ensure!(config["capabilities"]["portMappings"] == true, "it would get no ports: {config}");
    config["cniVersion"] = list["cniVersion"].clone();
    config["name"] = list["name"].clone();
    config["prevResult"] = result.clone();
    config["runtimeConfig"] = json!({ "portMappings": [
        { "hostPort": HOST_PORT, "containerPort": CONTAINER_PORT, "protocol": "tcp" },
    ] });
    Ok(config)
}

/// Answers each connection to the pod's port with the address that it comes from.
fn serve(pod: &Pod) -> Result<()> {
    let listener = pod.netns.run(|| Ok(TcpListener::bind(("0.0.0.0", CONTAINER_PORT))?))?;
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let Ok(peer) = connection.peer_addr() else { continue };
            let _ = connection.write_all(peer.ip().to_string().as_bytes());
        }
    });
    Ok(())
}

/// As whom the pod sees who connects to a port of the node from there.
fn seen_from(netns: Option<&Netns>, node: IpAddr) -> Result<IpAddr> {
    let connect = || {
        let at = SocketAddr::new(node, HOST_PORT);
        let mut connection = TcpStream::connect_timeout(&at, PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let mut said = String::new();
        connection.read_to_string(&mut said)?;
        Ok(said.parse()?)
    };
    match netns {
        Some(netns) => netns.run(connect),
        None => connect(),
    }
}

fn rules() -> Result<String> {
    let rules = Command::new("iptables").args(["-t", "nat", "-S"]).output();
    let rules = rules.context("install the package iptables")?;
    Ok(String::from_utf8(rules.stdout)?)
}

#[test]
fn host_ports_of_portmap_lead_to_pods_whatever_happens_to_the_agent() {
    lab::test("host_ports_of_portmap_lead_to_pods_whatever_happens_to_the_agent", || {
        let neighbour = Neighbour::connect()?;
        let flags = [("cni-chaining-mode", "portmap"), ("kube-proxy-replacement", "false")];
        let (mut node, []) = Setup::new().ipv4_only().flags(&flags).start()?;
        node.wait_for_device()?;
        node.wait("the list is not written", |node| {
            Ok(node.path("cni/05-volvox.conflist").exists())
        })?;
        let mut pod = Pod::planned(&node, "shop/web", &[("app", "web")])?;
        let result = cni::add_with_result(&node, &pod)?;
        pod.addresses = cni::addresses(&result)?;
        let config = portmap(&node, &result)?;
        cni::call_other(Path::new(PORTMAP), &config, "ADD", &pod)?;
        ensure!(rules()?.contains(&HOST_PORT.to_string()), "portmap made no rule");
        serve(&pod)?;
        let [theirs, ours] = Neighbour::addresses(false);
        let check = || -> Result<()> {
            let seen = seen_from(Some(neighbour.netns()), ours).context("from outside")?;
            ensure!(seen == theirs, "a client from outside is seen as {seen}");
            seen_from(None, ours).context("from the node itself").map(drop)
        };
        check()?;
        node.kill_agent()?;
        check().context("while no agent runs")?;
        node.start_agent()?;
        node.wait_for_ready(1)?;
        check().context("after a restart")?;

        cni::call_other(Path::new(PORTMAP), &config, "DEL", &pod)?;
        pod.delete(&node)?;
        ensure!(seen_from(Some(neighbour.netns()), ours).is_err(), "a removed port is served");
        ensure!(!rules()?.contains(&HOST_PORT.to_string()), "portmap left a rule");
        Ok(())
    });
}
