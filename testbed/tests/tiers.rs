//! ClusterNetworkPolicy in a directory of manifests, with packets: to the world in both families, to
//! nodes, and to ports by their names.

use std::{
    net::{IpAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Neighbour, Netns, Node, Pod, Setup, objects::ranked_policy};

/// The other machine's networks, of both families.
const NETWORKS: [&str; 2] = ["198.51.100.0/24", "2001:db8:1::/64"];

fn udp(first: u16, last: u16) -> Value {
    match first == last {
        true => json!([{ "udp": { "destinationPort": { "number": first } } }]),
        false => json!([{ "udp": { "destinationPort": {
            "range": { "start": first, "end": last },
        } } }]),
    }
}

/// A socket in a namespace; without one at the node.
fn bind(netns: Option<&Netns>, ipv6: bool, port: u16) -> Result<UdpSocket> {
    let any: IpAddr = if ipv6 { "::".parse()? } else { "0.0.0.0".parse()? };
    let bind = || Ok(UdpSocket::bind((any, port))?);
    netns.map_or_else(bind, |netns| netns.run(bind))
}

fn arrives(from: Option<&Netns>, to: Option<&Netns>, at: IpAddr, port: u16) -> Result<bool> {
    let receiver = bind(to, at.is_ipv6(), port)?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = bind(from, at.is_ipv6(), 0)?;
    for _ in 0..5 {
        // The kernel refuses what is dropped on the way out.
        let _ = sender.send_to(b"?", (at, port));
    }
    Ok(receiver.recv(&mut [0]).is_ok())
}

fn wait_for_world(
    node: &mut Node,
    pod: &Pod,
    world: &Neighbour,
    expected: [(u16, bool); 3],
) -> Result<()> {
    node.wait(&format!("the world does not hear {expected:?}"), |_| {
        for ipv6 in [false, true] {
            let [theirs, _] = Neighbour::addresses(ipv6);
            for (port, passes) in expected {
                if arrives(Some(&pod.netns), Some(world.netns()), theirs, port)? != passes {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    })
    .map(drop)
}

#[test]
fn networks_and_nodes_are_denied_and_accepted_in_both_families() {
    lab::test("networks_and_nodes_are_denied_and_accepted_in_both_families", || {
        let world = Neighbour::connect()?;
        let to = |action: &str, protocols: Value| json!({ "action": action, "to": [{ "networks": NETWORKS }], "protocols": protocols });
        let rules = json!({ "egress": [
            to("Accept", udp(7000, 7000)),
            to("Deny", udp(7000, 7010)),
            { "action": "Deny", "to": [{ "nodes": {} }], "protocols": udp(7100, 7100) },
        ] });
        let admin = ranked_policy("admin", "Admin", 5, rules.clone()).to_string();
        let setup = Setup::new()
            .with_plugin()
            .manifest("admin.yaml", &admin)
            .pod("shop/client", &[("app", "client")]);
        let (mut node, [client]) = setup.start()?;
        node.wait_for_device()?;
        let first = [(7000, true), (7005, false), (7011, true)];
        wait_for_world(&mut node, &client, &world, first)?;
        // The pod's own node.
        let host = Neighbour::addresses(false)[1];
        node.wait("the node hears what is denied", |_| {
            Ok(!arrives(Some(&client.netns), None, host, 7100)?
                && arrives(Some(&client.netns), None, host, 7101)?)
        })?;
        // A policy that is asked before it, and one that cannot be read: the one before stays.
        let rules =
            json!({ "egress": [to("Deny", udp(7000, 7000)), to("Accept", udp(7005, 7005))] });
        node.write_manifest("first.yaml", &ranked_policy("first", "Admin", 4, rules).to_string())?;
        let second = [(7000, false), (7005, true), (7006, false)];
        wait_for_world(&mut node, &client, &world, second)?;
        let wrong =
            ranked_policy("first", "Admin", 4, json!({ "egress": [to("Allow", udp(1, 2))] }));
        node.write_manifest("first.yaml", &wrong.to_string())?;
        node.wait("nobody names what is refused", |node| {
            let text = node.volvox("policy status")?;
            Ok(text.contains("newest version refused") && text.contains("unknown action"))
        })?;
        wait_for_world(&mut node, &client, &world, second)?;
        // Restarted: what stayed in force is not known any more, and the policy before is.
        node.remove_manifest("first.yaml")?;
        node.kill_agent()?;
        node.start_agent()?;
        node.wait_for_ready(1)?;
        wait_for_world(&mut node, &client, &world, first)
    });
}

#[test]
fn a_rule_follows_the_name_of_a_port_and_fails_closed() {
    lab::test("a_rule_follows_the_name_of_a_port_and_fails_closed", || {
        let pod = |port: u16| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "shop", "name": "web", "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "ports": [
                    { "name": "echo", "containerPort": port, "protocol": "UDP" }] }] },
            })
            .to_string()
        };
        let rules = json!({ "ingress": [
            { "action": "Deny", "from": [{ "namespaces": {} }],
              "protocols": [{ "destinationNamedPort": "echo" }] }] });
        let admin = ranked_policy("admin", "Admin", 5, rules).to_string();
        let setup = Setup::new()
            .with_plugin()
            .manifest("admin.yaml", &admin)
            .pod("shop/client", &[("app", "client")])
            .pod("shop/web", &[("app", "web")]);
        // Gives the node an address, by which it is the sender.
        let _world = Neighbour::connect()?;
        let (mut node, [client, web]) = setup.start()?;
        node.wait_for_device()?;
        let wait = |node: &mut Node, expected: [bool; 2]| {
            node.wait(&format!("ports 5000 and 5001 are not {expected:?}"), |_| {
                let at = web.address(false)?;
                let hears = |port| arrives(Some(&client.netns), Some(&web.netns), at, port);
                Ok([hears(5000)?, hears(5001)?] == expected)
            })
            .map(drop)
        };
        node.write_manifest("pod-shop-web.yaml", &pod(5000))?;
        wait(&mut node, [false, true])?;
        node.write_manifest("pod-shop-web.yaml", &pod(5001))?;
        wait(&mut node, [true, false])?;
        // What only a newer agent knows denies everything, and is named; the node still reaches its pods.
        let rules = json!({ "ingress": [{ "action": "Pass", "from": [{ "planets": {} }] }] });
        node.write_manifest("admin.yaml", &ranked_policy("admin", "Admin", 5, rules).to_string())?;
        wait(&mut node, [false, false])?;
        let status = node.json("policy status")?.to_string();
        ensure!(status.contains("rule-denies-everything"), "{status}");
        node.wait("the node does not reach its pod", |_| {
            arrives(None, Some(&web.netns), web.address(false)?, 5000)
        })
        .map(drop)
    });
}
