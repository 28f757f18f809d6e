//! An etcd that is another one than before under the agent.

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Etcd, wait_for};

use super::setup::{ADDRESSES, USERS, announce, start, wait_for_announcement};

/// What this node says in the store.
fn own(etcd: &Etcd) -> Result<Vec<String>> {
    let mut keys = etcd.keys(USERS)?;
    keys.retain(|key| key.ends_with("/192.0.2.1"));
    keys.extend(etcd.keys("cilium/state/nodes/v1/")?);
    Ok(keys)
}

#[test]
fn an_etcd_that_was_restored_from_a_snapshot_is_listed_again() {
    let name = "replaced::an_etcd_that_was_restored_from_a_snapshot_is_listed_again";
    lab::test(name, || {
        let (mut node, mut etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        let said = own(&etcd)?;
        ensure!(said.len() >= 2, "{said:?}");
        etcd.save()?;
        for number in 0..40 {
            etcd.put("noise", &number.to_string())?;
        }
        announce(&etcd, "10.99.0.2", 40_000)?;
        node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        etcd.kill()?;
        etcd.restore()?;
        // Revisions of these were told before.
        announce(&etcd, "10.99.0.3", 40_000)?;
        etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        node.wait_until_mapped("10.99.0.3/32", Some(40_000))?;
        node.wait_until_mapped("10.99.0.1/32", None)?;
        node.wait_until_mapped("10.99.0.2/32", None)?;
        wait_for("all is announced again", || Ok(own(&etcd)? == said))?;
        wait_for("status names it", || Ok(node.volvox("status")?.contains("another one since")))
    });
}

#[test]
fn another_etcd_behind_the_address_is_told_everything() {
    lab::test("replaced::another_etcd_behind_the_address_is_told_everything", || {
        let (mut node, mut etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        let said = own(&etcd)?;
        etcd.kill()?;
        etcd.start_empty()?;
        wait_for("all is announced to the other one", || Ok(own(&etcd)? == said))?;
        node.wait_until_mapped("10.99.0.1/32", None)?;
        node.wait_for_store("Ok")
    });
}

#[test]
fn keys_of_this_node_that_somebody_deletes_come_back() {
    lab::test("replaced::keys_of_this_node_that_somebody_deletes_come_back", || {
        let (_node, etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        for key in own(&etcd)? {
            let value = etcd.get(&key)?;
            etcd.delete(&key)?;
            wait_for("the key is written again", || Ok(etcd.get(&key)? == value))?;
        }
        Ok(())
    });
}
