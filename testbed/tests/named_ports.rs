//! Ports that a policy calls by the names that pods give them, with packets.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use anyhow::Result;
use serde_json::json;
use volvox_testbed::lab::{self, Node, Pod, Setup};

/// The manifest of a pod that calls a port of its own `echo`.
fn with_port(pod: &str, port: u16) -> String {
    let ports = json!([{ "name": "echo", "containerPort": port, "protocol": "UDP" }]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "shop", "name": pod, "labels": { "app": pod } },
        "spec": { "containers": [{ "name": "main", "ports": ports }] },
    })
    .to_string()
}

/// `web` is reached at its port `echo`, and `client` reaches nothing but that port of `web`.
fn policies() -> [String; 2] {
    let ports = json!([{ "ports": [{ "port": "echo", "protocol": "UDP" }] }]);
    let app = |app: &str| json!({ "matchLabels": { "app": app } });
    let policy = |name: &str, mut spec: serde_json::Value| {
        spec["endpointSelector"] = app(name);
        json!({
            "apiVersion": "cilium.io/v2",
            "kind": "CiliumNetworkPolicy",
            "metadata": { "namespace": "shop", "name": name },
            "spec": spec,
        })
        .to_string()
    };
    let ingress = json!({ "ingress": [{ "fromEndpoints": [app("client")], "toPorts": ports }] });
    let egress = json!({ "egress": [{ "toEndpoints": [app("web")], "toPorts": ports }] });
    [policy("web", ingress), policy("client", egress)]
}

/// Waits until what `client` sends to that port of `web` arrives, or until it does not.
fn wait_until(node: &mut Node, pods: [&Pod; 2], port: u16, arrives: bool) -> Result<()> {
    node.wait(&format!("arriving at port {port} is not {arrives}"), |_| {
        Ok(arrives_at(pods, port)? == arrives)
    })
    .map(drop)
}

/// Whether one of a few datagrams gets through.
fn arrives_at([client, web]: [&Pod; 2], port: u16) -> Result<bool> {
    let any = Ipv4Addr::UNSPECIFIED;
    let receiver = web.netns.run(|| Ok(UdpSocket::bind((any, port))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = client.netns.run(|| Ok(UdpSocket::bind((any, 0))?))?;
    for _ in 0..5 {
        // The kernel refuses what is dropped on the way out.
        let _ = sender.send_to(b"?", (web.address(false)?, port));
    }
    Ok(receiver.recv(&mut [0]).is_ok())
}

#[test]
fn a_policy_follows_the_name_of_a_port_to_another_number() {
    lab::test("a_policy_follows_the_name_of_a_port_to_another_number", || {
        let [web, client] = policies();
        let setup = Setup::new()
            .with_plugin()
            .manifest("web.yaml", &web)
            .manifest("client.yaml", &client)
            .pod("shop/client", &[("app", "client")])
            .pod("shop/web", &[("app", "web")]);
        let (mut node, [client, web]) = setup.start()?;
        let pods = [&client, &web];
        wait_until(&mut node, pods, 5000, false)?;
        node.write_manifest("pod-shop-web.yaml", &with_port("web", 5000))?;
        wait_until(&mut node, pods, 5000, true)?;
        wait_until(&mut node, pods, 5001, false)?;
        node.write_manifest("pod-shop-web.yaml", &with_port("web", 5001))?;
        wait_until(&mut node, pods, 5001, true)?;
        wait_until(&mut node, pods, 5000, false)?;
        node.kill_agent()?;
        node.start_agent()?;
        node.wait_for_ready(2)?;
        wait_until(&mut node, pods, 5001, true)?;
        wait_until(&mut node, pods, 5000, false)
    });
}
