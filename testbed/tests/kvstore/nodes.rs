//! Other nodes that share an etcd, with packets of one of them.

use anyhow::{Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{
    self, Etcd, NODE_NAME, Neighbour, Node, Pod, Setup, other_node, wait_for,
};

use super::setup::{start_with, start_without_etcd};

const NODES: &str = "cilium/state/nodes/v1/default/";

/// Web lets nodes in.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: nodes, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress: [{fromEntities: [remote-node]}]
"#;

fn wait_until_it_reaches(neighbour: &Neighbour, web: &Pod, expected: bool) -> Result<()> {
    wait_for(&format!("reaching web is {expected}"), || Ok(neighbour.reaches(web)? == expected))
}

#[test]
fn a_node_is_told_from_the_world_for_as_long_as_it_is_one() {
    lab::test("nodes::a_node_is_told_from_the_world_for_as_long_as_it_is_one", || {
        let mut etcd = Etcd::start(&lab::path("etcd"))?;
        // Nobody calls it a node yet.
        let neighbour = Neighbour::connect()?;
        let (mut node, web) = start_with(&etcd, Setup::new().manifest("nodes.yaml", POLICY))?;
        wait_for("nodes may reach web", || Ok(node.lets_in()?.contains(&6)))?;
        let prefix = format!("{}/32", Neighbour::ADDRESS);
        let wait_until_node = |node: &mut Node, expected: bool| {
            node.wait_until_mapped(&prefix, expected.then_some(6))?;
            wait_until_it_reaches(&neighbour, &web, expected)
        };
        wait_until_node(&mut node, false)?;
        let (key, value) = other_node::node("there", Neighbour::ADDRESS);
        etcd.put(&key, &value)?;
        etcd.put(&format!("{NODES}torn"), "rubbish")?;
        wait_until_node(&mut node, true)?;
        announced(&node, &etcd)?;

        // A life without etcd.
        node.kill_agent()?;
        etcd.kill()?;
        ensure!(neighbour.reaches(&web)?, "an agent that is dead drops packets");
        start_without_etcd(&mut node)?;
        wait_until_node(&mut node, true)?;

        // It comes back, and the node is still there; then it is not.
        etcd.start_again()?;
        node.wait_for_store("Ok")?;
        wait_until_node(&mut node, true)?;
        etcd.delete(&key)?;
        wait_until_node(&mut node, false)
    });
}

/// Web lets in nodes of zone `a`.
const OF_ZONE: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: nodes, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress: [{fromNodes: [{matchLabels: {zone: a}}]}]
"#;

#[test]
fn a_rule_selects_nodes_by_their_labels() {
    lab::test("nodes::a_rule_selects_nodes_by_their_labels", || {
        let mut etcd = Etcd::start(&lab::path("etcd"))?;
        let neighbour = Neighbour::connect()?;
        let setup = Setup::new().flag("enable-node-selector-labels", "true");
        let (mut node, web) = start_with(&etcd, setup.manifest("nodes.yaml", OF_ZONE))?;
        let announce = |etcd: &Etcd, zone: &str| {
            let (key, value) = other_node::node("there", Neighbour::ADDRESS);
            let labels = format!(r#""Labels":{{"zone":"{zone}"}}"#);
            etcd.put(&key, &value.replace(r#""Labels":{}"#, &labels))
        };
        let reaches = |expected: bool| wait_until_it_reaches(&neighbour, &web, expected);
        announce(&etcd, "a")?;
        reaches(true)?;
        let number = node.mapped(&format!("{}/32", Neighbour::ADDRESS))?;
        ensure!(number.is_some_and(|id| id >> 24 == 2), "its labels have the number {number:?}");
        node.kill_agent()?;
        etcd.kill()?;
        start_without_etcd(&mut node)?;
        ensure!(neighbour.reaches(&web)?, "without etcd nodes are not told apart");
        let after = node.mapped(&format!("{}/32", Neighbour::ADDRESS))?;
        ensure!(after == number, "{number:?} became {after:?}");
        etcd.start_again()?;
        node.wait_for_store("Ok")?;
        announce(&etcd, "b")?;
        reaches(false)?;
        announce(&etcd, "a")?;
        reaches(true)
    });
}

/// What this node says of itself, and what people see of the other one.
fn announced(node: &Node, etcd: &Etcd) -> Result<()> {
    let key = format!("{NODES}{NODE_NAME}");
    wait_for("this node is announced", || Ok(!etcd.get(&key)?.is_empty()))?;
    let value: Value = serde_json::from_str(&etcd.get(&key)?)?;
    ensure!(value["Name"] == NODE_NAME && value["Source"] == "local", "{value}");
    ensure!(value["IPAddresses"][0]["IP"] == "192.0.2.1", "{value}");
    ensure!(!value["BootID"].as_str().unwrap_or_default().is_empty(), "{value}");

    let nodes: Value = node.rest().get("/cluster/nodes")?;
    let there = nodes["nodes-added"].as_array().into_iter().flatten();
    let there: Vec<_> = there.filter(|node| node["name"] == "there").collect();
    ensure!(there.len() == 1 && there[0]["source"] == "kvstore", "{nodes}");
    let ip = &there[0]["primary-address"]["ipv4"]["ip"];
    ensure!(*ip == Neighbour::ADDRESS.to_string(), "{nodes}");
    let status = node.volvox("status")?;
    ensure!(status.contains("and 1 other node known"), "{status}");
    let log = std::fs::read_to_string(node.log())?;
    ensure!(log.contains("default/torn"), "nobody names what is torn: {log}");
    Ok(())
}
