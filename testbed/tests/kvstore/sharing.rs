//! Tests: the node announces addresses and identities as Cilium does, and learns those of others.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Etcd, Metrics, NODE_NAME, Node, Pod, Through};

use super::setup::{ADDRESSES, IDENTITIES, USERS, announce, labels, start, wait_for_announcement};

#[test]
fn nodes_tell_each_other_whose_addresses_are() {
    lab::test("sharing::nodes_tell_each_other_whose_addresses_are", || {
        let (mut node, etcd, web) = start()?;
        ensure!(node.lets_in()?.contains(&40_000), "{:?}", node.lets_in()?);
        announced_as_cilium_does(&node, &etcd, &web)?;
        // A pod with labels that the cluster has a number for gets that one.
        let client = Pod::create(&node, "shop/client", &[("app", "client")], Through::Rest)?;
        node.wait_for_ready(2)?;
        let own = format!("{}/128", client.address(true)?);
        node.wait_until_mapped(&own, Some(40_000))?;
        ensure!(etcd.get(&format!("{USERS}{}/192.0.2.1", labels("client")))? == "40000");
        // Addresses come and go.
        announce(&etcd, "10.99.0.2", 40_000)?;
        node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        etcd.delete(&format!("{ADDRESSES}10.99.0.2"))?;
        node.wait_until_mapped("10.99.0.2/32", None)?;
        people_see_it(&mut node)
    });
}

fn announced_as_cilium_does(node: &Node, etcd: &Etcd, web: &Pod) -> Result<()> {
    wait_for_announcement(etcd, web)?;
    let endpoints = node.endpoints()?;
    let endpoint = endpoints.first().context("there is an endpoint")?;
    let identity = endpoint["status"]["identity"]["id"].as_u64().context("it has an identity")?;
    let address = web.address(false)?;
    let value: Value = serde_json::from_str(&etcd.get(&format!("{ADDRESSES}{address}"))?)?;
    let expected = json!({
        "IP": address, "Mask": null, "HostIP": "192.0.2.1", "ID": identity, "Key": 0,
        "Metadata": format!("cilium-global:default:{NODE_NAME}:{}", endpoint["id"]),
        "K8sNamespace": "shop", "K8sPodName": "web",
    });
    ensure!(value == expected, "{value:#} is not {expected:#}");
    ensure!(etcd.get(&format!("{IDENTITIES}{identity}"))? == labels("web"));
    let user = etcd.get(&format!("{USERS}{}/192.0.2.1", labels("web")))?;
    ensure!(user == identity.to_string(), "{user}");
    Ok(())
}

fn people_see_it(node: &mut Node) -> Result<()> {
    node.wait_for_store("Ok")?;
    let status = node.volvox("status")?;
    ensure!(status.contains("KVStore:") && status.contains("Ok, etcd: lease "), "{status}");
    let metrics = Metrics::scrape(node.rest())?;
    let up: Vec<f64> = metrics.family("volvox_kvstore_up").map(|(_, value)| value).collect();
    ensure!(up == [1.0], "{up:?}");
    Ok(())
}
