//! Ports of another node's pod that a policy calls by name, with packets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Etcd, Neighbour, other_node, wait_for};

use super::village::Village;

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

fn wait_until_it_hears(
    village: &Village,
    neighbour: &Neighbour,
    expected: [bool; 2],
) -> Result<()> {
    wait_for(&format!("hearing ports 5000 and 5001 is {expected:?}"), || {
        Ok([neighbour.hears(&village.web, 5000)?, neighbour.hears(&village.web, 5001)?] == expected)
    })
}

#[test]
fn a_policy_follows_the_name_of_a_port_on_another_node() {
    lab::test("ports::a_policy_follows_the_name_of_a_port_on_another_node", || {
        let mut neighbour = None;
        let mut village = Village::found_by(|node| {
            let etcd = Etcd::start(&node.path("etcd"))?;
            etcd.share_with(node)?;
            neighbour = Some(Neighbour::connect()?);
            announce(&etcd, None)?;
            node.write_manifest("echo.yaml", POLICY)?;
            Ok(etcd)
        })?;
        let neighbour = neighbour.expect("it was founded");
        village.wait_for_address(&format!("{}/32", Neighbour::ADDRESS), Some(40_000))?;
        wait_until_it_hears(&village, &neighbour, [false, false])?;
        announce(&village.etcd, Some(5000))?;
        wait_until_it_hears(&village, &neighbour, [true, false])?;

        // A life without etcd knows the name.
        village.node.kill_agent()?;
        village.etcd.kill()?;
        village.start_without_etcd()?;
        ensure!(neighbour.hears(&village.web, 5000)?, "a name is forgotten");
        wait_until_it_hears(&village, &neighbour, [true, false])?;

        // It moves, and goes.
        village.etcd.start_again()?;
        village.wait_for_store("Ok")?;
        announce(&village.etcd, Some(5001))?;
        wait_until_it_hears(&village, &neighbour, [false, true])?;
        announce(&village.etcd, None)?;
        wait_until_it_hears(&village, &neighbour, [false, false])
    });
}
