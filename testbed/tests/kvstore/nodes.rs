//! Other nodes that share an etcd, with packets of one of them.

use anyhow::{Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{self, Etcd, NODE_NAME, Neighbour, other_node, wait_for};

use super::village::Village;

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

/// A village with another machine beside it, which nobody calls a node yet.
fn found() -> Result<(Village, Neighbour)> {
    let mut neighbour = None;
    let village = Village::found_by(|node| {
        let etcd = Etcd::start(&node.path("etcd"))?;
        etcd.share_with(node)?;
        neighbour = Some(Neighbour::connect()?);
        node.write_manifest("nodes.yaml", POLICY)?;
        Ok(etcd)
    })?;
    let neighbour = neighbour.expect("it was founded");
    wait_for("nodes may reach web", || Ok(village.lets_in()?.contains(&6)))?;
    Ok((village, neighbour))
}

fn wait_until_it_reaches(village: &Village, neighbour: &Neighbour, expected: bool) -> Result<()> {
    let prefix = format!("{}/32", Neighbour::ADDRESS);
    village.wait_for_address(&prefix, expected.then_some(6))?;
    wait_for(&format!("reaching web is {expected}"), || {
        Ok(neighbour.reaches(&village.web)? == expected)
    })
}

#[test]
fn a_node_is_told_from_the_world_for_as_long_as_it_is_one() {
    lab::test("nodes::a_node_is_told_from_the_world_for_as_long_as_it_is_one", || {
        let (mut village, neighbour) = found()?;
        wait_until_it_reaches(&village, &neighbour, false)?;
        let (key, value) = other_node::node("there", Neighbour::ADDRESS);
        village.etcd.put(&key, &value)?;
        village.etcd.put(&format!("{NODES}torn"), "rubbish")?;
        wait_until_it_reaches(&village, &neighbour, true)?;
        announced(&village)?;

        // A life without etcd.
        village.node.kill_agent()?;
        village.etcd.kill()?;
        ensure!(neighbour.reaches(&village.web)?, "an agent that is dead drops packets");
        village.start_without_etcd()?;
        wait_until_it_reaches(&village, &neighbour, true)?;

        // It comes back, and the node is still there; then it is not.
        village.etcd.start_again()?;
        village.wait_for_store("Ok")?;
        wait_until_it_reaches(&village, &neighbour, true)?;
        village.etcd.delete(&key)?;
        wait_until_it_reaches(&village, &neighbour, false)
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
        let mut neighbour = None;
        let mut village = Village::found_by(|node| {
            let etcd = Etcd::start(&node.path("etcd"))?;
            etcd.share_with(node)?;
            node.set_flag("enable-node-selector-labels", Some("true"));
            neighbour = Some(Neighbour::connect()?);
            node.write_manifest("nodes.yaml", OF_ZONE)?;
            Ok(etcd)
        })?;
        let neighbour = neighbour.expect("it was founded");
        let announce = |village: &Village, zone: &str| {
            let (key, value) = other_node::node("there", Neighbour::ADDRESS);
            let labels = format!(r#""Labels":{{"zone":"{zone}"}}"#);
            village.etcd.put(&key, &value.replace(r#""Labels":{}"#, &labels))
        };
        let reaches = |village: &Village, expected: bool| {
            wait_for(&format!("reaching web is {expected}"), || {
                Ok(neighbour.reaches(&village.web)? == expected)
            })
        };
        announce(&village, "a")?;
        reaches(&village, true)?;
        let number = village.address(&format!("{}/32", Neighbour::ADDRESS))?;
        ensure!(number.is_some_and(|id| id >> 24 == 2), "its labels have the number {number:?}");
        village.node.kill_agent()?;
        village.etcd.kill()?;
        village.start_without_etcd()?;
        ensure!(neighbour.reaches(&village.web)?, "without etcd nodes are not told apart");
        let after = village.address(&format!("{}/32", Neighbour::ADDRESS))?;
        ensure!(after == number, "{number:?} became {after:?}");
        village.etcd.start_again()?;
        village.wait_for_store("Ok")?;
        announce(&village, "b")?;
        reaches(&village, false)?;
        announce(&village, "a")?;
        reaches(&village, true)
    });
}

/// What this node says of itself, and what people see of the other one.
fn announced(village: &Village) -> Result<()> {
    let key = format!("{NODES}{NODE_NAME}");
    wait_for("this node is announced", || Ok(!village.etcd.get(&key)?.is_empty()))?;
    let value: Value = serde_json::from_str(&village.etcd.get(&key)?)?;
    ensure!(value["Name"] == NODE_NAME && value["Source"] == "local", "{value}");
    ensure!(value["IPAddresses"][0]["IP"] == "192.0.2.1", "{value}");
    ensure!(!value["BootID"].as_str().unwrap_or_default().is_empty(), "{value}");

    let nodes: Value = village.node.rest().get("/cluster/nodes")?;
    let there = nodes["nodes-added"].as_array().into_iter().flatten();
    let there: Vec<_> = there.filter(|node| node["name"] == "there").collect();
    ensure!(there.len() == 1 && there[0]["source"] == "kvstore", "{nodes}");
    let ip = &there[0]["primary-address"]["ipv4"]["ip"];
    ensure!(*ip == Neighbour::ADDRESS.to_string(), "{nodes}");
    let status = village.text("status")?;
    ensure!(status.contains("and 1 other node known"), "{status}");
    let log = std::fs::read_to_string(village.node.log())?;
    ensure!(log.contains("default/torn"), "nobody names what is torn: {log}");
    Ok(())
}
