//! Ports of another node's pod that a policy calls by name, with packets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Etcd, Neighbour, Pod, Setup, other_node, wait_for};

use super::setup::{start_with, start_without_etcd};

/// Web sends to a port of clients and to nothing else.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: echo, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  egress:
  - toEndpoints: [{matchLabels: {app: client}}]
    toPorts: [{ports: [{port: echo, protocol: UDP}]}]
"#;

/// The other node's client is at the neighbour's address, and calls that port of its own `echo`.
fn announce(etcd: &Etcd, port: Option<u16>) -> Result<()> {
    let (key, value) = other_node::address(Neighbour::ADDRESS, 40_000, "shop", "client");
    let mut value: Value = serde_json::from_str(&value)?;
    if let Some(port) = port {
        value["NamedPorts"] = json!([{ "Name": "echo", "Port": port, "Protocol": "UDP" }]);
    }
    etcd.put(&key, &value.to_string())
}

fn wait_until_it_hears(neighbour: &Neighbour, web: &Pod, expected: [bool; 2]) -> Result<()> {
    wait_for(&format!("hearing ports 5000 and 5001 is {expected:?}"), || {
        Ok([neighbour.hears(web, 5000)?, neighbour.hears(web, 5001)?] == expected)
    })
}

#[test]
fn a_policy_follows_the_name_of_a_port_on_another_node() {
    lab::test("ports::a_policy_follows_the_name_of_a_port_on_another_node", || {
        let mut etcd = Etcd::start(&lab::path("etcd"))?;
        let neighbour = Neighbour::connect()?;
        announce(&etcd, None)?;
        let (mut node, web) = start_with(&etcd, Setup::new().manifest("echo.yaml", POLICY))?;
        node.wait_until_mapped(&format!("{}/32", Neighbour::ADDRESS), Some(40_000))?;
        wait_until_it_hears(&neighbour, &web, [false, false])?;
        announce(&etcd, Some(5000))?;
        wait_until_it_hears(&neighbour, &web, [true, false])?;

        // A life without etcd knows the name.
        node.kill_agent()?;
        etcd.kill()?;
        start_without_etcd(&mut node)?;
        ensure!(neighbour.hears(&web, 5000)?, "a name is forgotten");
        wait_until_it_hears(&neighbour, &web, [true, false])?;

        // It moves, and goes.
        etcd.start_again()?;
        node.wait_for_store("Ok")?;
        announce(&etcd, Some(5001))?;
        wait_until_it_hears(&neighbour, &web, [false, true])?;
        announce(&etcd, None)?;
        wait_until_it_hears(&neighbour, &web, [false, false])
    });
}
