//! An etcd that is another one than before under the agent.

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Etcd, wait_for};

use super::village::{ADDRESSES, USERS, Village, announce};

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
        let mut village = Village::found()?;
        village.wait_for_announcement()?;
        let said = own(&village.etcd)?;
        ensure!(said.len() >= 2, "{said:?}");
        village.etcd.save()?;
        for number in 0..40 {
            village.etcd.put("noise", &number.to_string())?;
        }
        announce(&village.etcd, "10.99.0.2", 40_000)?;
        village.wait_for_address("10.99.0.2/32", Some(40_000))?;
        village.etcd.kill()?;
        village.etcd.restore()?;
        // Revisions of these were told before.
        announce(&village.etcd, "10.99.0.3", 40_000)?;
        village.etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        village.wait_for_address("10.99.0.3/32", Some(40_000))?;
        village.wait_for_address("10.99.0.1/32", None)?;
        village.wait_for_address("10.99.0.2/32", None)?;
        wait_for("all is announced again", || Ok(own(&village.etcd)? == said))?;
        wait_for("status names it", || Ok(village.text("status")?.contains("another one since")))
    });
}

#[test]
fn another_etcd_behind_the_address_is_told_everything() {
    lab::test("replaced::another_etcd_behind_the_address_is_told_everything", || {
        let mut village = Village::found()?;
        village.wait_for_announcement()?;
        let said = own(&village.etcd)?;
        village.etcd.kill()?;
        village.etcd.start_empty()?;
        wait_for("all is announced to the other one", || Ok(own(&village.etcd)? == said))?;
        village.wait_for_address("10.99.0.1/32", None)?;
        village.wait_for_store("Ok")
    });
}

#[test]
fn keys_of_this_node_that_somebody_deletes_come_back() {
    lab::test("replaced::keys_of_this_node_that_somebody_deletes_come_back", || {
        let village = Village::found()?;
        village.wait_for_announcement()?;
        for key in own(&village.etcd)? {
            let value = village.etcd.get(&key)?;
            village.etcd.delete(&key)?;
            wait_for("the key is written again", || Ok(village.etcd.get(&key)? == value))?;
        }
        Ok(())
    });
}
