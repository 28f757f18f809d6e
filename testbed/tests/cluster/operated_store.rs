//! Operators and a real etcd: identities that nobody uses go, also when the one who leads is killed, and
//! none that is used, also when etcd is restored from a snapshot.

use anyhow::{Result, ensure};
use serde_json::json;
use volvox_testbed::lab::{self, ApiServer, Etcd, Operator, wait_for};

use crate::operated::{ENDPOINTS, object, started};

const NUMBERS: &str = "cilium/state/identities/v1/id";
const USERS: &str = "cilium/state/identities/v1/value";
const HEARTBEAT: &str = "cilium/.heartbeat";

fn define(etcd: &Etcd, number: u32, labels: &str) -> Result<()> {
    etcd.put(&format!("{NUMBERS}/{number}"), labels)
}

fn use_it(etcd: &Etcd, number: u32, labels: &str) -> Result<()> {
    etcd.put(&format!("{USERS}/{labels}/10.0.0.1"), &number.to_string())
}

fn stands(etcd: &Etcd, number: u32) -> Result<bool> {
    Ok(!etcd.keys(&format!("{NUMBERS}/{number}"))?.is_empty())
}

fn wait_for_end(etcd: &Etcd, number: u32) -> Result<()> {
    wait_for(&format!("identity {number} goes"), || Ok(!stands(etcd, number)?))
}

#[test]
fn identities_of_etcd_that_nobody_uses_go_and_no_other() {
    let name = "operated_store::identities_of_etcd_that_nobody_uses_go_and_no_other";
    lab::test(name, || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (node, _etcd, server) = started(program)?;
        let mut etcd = Etcd::start_beside(&node.path("identities"), None)?;
        let option = format!("--kvstore-opt={}", etcd.option());
        // A CiliumEndpoint stays, so that the one who has its identity lives, as of a node that is silent.
        let flags = [
            "--kvstore=etcd",
            &option,
            "--identity-gc-interval=5s",
            "--cilium-endpoint-gc-interval=1h",
        ];
        let start = |number| Operator::start(number, &server.kubeconfig(), &node.path("."), &flags);
        let first = start(0)?;
        wait_for("the operator leads", || Ok(first.leads()))?;
        let client = server.client();
        wait_for("CiliumEndpoints are served", || Ok(client.get(ENDPOINTS).is_ok()))?;
        let has = json!({ "status": { "identity": { "id": 70_003 }, "state": "ready" } });
        client.create(ENDPOINTS, &object("CiliumEndpoint", "silent", has))?;
        wait_for("there is a heartbeat", || Ok(etcd.get(HEARTBEAT).is_ok()))?;

        define(&etcd, 70_001, "k8s:app=used;")?;
        use_it(&etcd, 70_001, "k8s:app=used;")?;
        define(&etcd, 70_002, "k8s:app=left;")?;
        define(&etcd, 70_003, "k8s:app=silent;")?;
        wait_for_end(&etcd, 70_002)?;
        ensure!(stands(&etcd, 70_001)? && stands(&etcd, 70_003)?, "an identity in use went");

        // Whoever leads next does the same.
        define(&etcd, 70_004, "k8s:app=left;")?;
        first.kill()?;
        let second = start(1)?;
        wait_for_end(&etcd, 70_004)?;
        ensure!(stands(&etcd, 70_001)? && stands(&etcd, 70_003)?, "an identity in use went");

        // In the snapshot nobody uses it yet; its node says so again as soon as it can. What can happen in
        // between the simulator has.
        let user = format!("{USERS}/k8s:app=new;/10.0.0.1");
        define(&etcd, 70_005, "k8s:app=new;")?;
        etcd.save()?;
        use_it(&etcd, 70_005, "k8s:app=new;")?;
        etcd.kill()?;
        etcd.restore()?;
        ensure!(etcd.keys(&user)?.is_empty(), "it was no snapshot of before");
        ensure!(stands(&etcd, 70_005)?, "an identity went of which the store forgot its user");
        use_it(&etcd, 70_005, "k8s:app=new;")?;
        define(&etcd, 70_006, "k8s:app=left;")?;
        wait_for_end(&etcd, 70_006)?;
        ensure!(stands(&etcd, 70_005)?, "an identity in use went");
        second.terminate()
    });
}
