//! Tests: the node announces addresses and identities as Cilium does, and learns those of others.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Metrics, NODE_NAME, Pod, Through};

use super::village::{ADDRESSES, IDENTITIES, USERS, Village, announce, labels};

#[test]
fn nodes_tell_each_other_whose_addresses_are() {
    lab::test("sharing::nodes_tell_each_other_whose_addresses_are", || {
        let mut village = Village::found()?;
        ensure!(village.lets_in()?.contains(&40_000), "{:?}", village.lets_in()?);
        announced_as_cilium_does(&mut village)?;
        // A pod with labels that the cluster has a number for gets that one.
        let client =
            Pod::create(&village.node, "shop/client", &[("app", "client")], Through::Rest)?;
        village.node.wait_for_ready(2)?;
        let own = format!("{}/128", client.address(true)?);
        village.wait_for_address(&own, Some(40_000))?;
        ensure!(village.etcd.get(&format!("{USERS}{}/192.0.2.1", labels("client")))? == "40000");
        // Addresses come and go.
        announce(&village.etcd, "10.99.0.2", 40_000)?;
        village.wait_for_address("10.99.0.2/32", Some(40_000))?;
        village.etcd.delete(&format!("{ADDRESSES}10.99.0.2"))?;
        village.wait_for_address("10.99.0.2/32", None)?;
        people_see_it(&mut village)
    });
}

fn announced_as_cilium_does(village: &mut Village) -> Result<()> {
    village.wait_for_announcement()?;
    let endpoints = village.node.endpoints()?;
    let endpoint = endpoints.first().context("there is an endpoint")?;
    let identity = endpoint["status"]["identity"]["id"].as_u64().context("it has an identity")?;
    let etcd = &village.etcd;
    let address = village.web.address(false)?;
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

fn people_see_it(village: &mut Village) -> Result<()> {
    village.wait_for_store("Ok")?;
    let status = village.text("status")?;
    ensure!(status.contains("KVStore:") && status.contains("Ok, etcd: lease "), "{status}");
    let metrics = Metrics::scrape(village.node.rest())?;
    let up: Vec<f64> = metrics.family("volvox_kvstore_up").map(|(_, value)| value).collect();
    ensure!(up == [1.0], "{up:?}");
    Ok(())
}
