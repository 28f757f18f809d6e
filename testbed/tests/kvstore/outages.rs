//! Tests: etcd is away, hangs, is compacted or lets leases expire, and the agent forgets nothing.

use anyhow::ensure;
use volvox_testbed::lab::{self, Inventory, wait_for};

use super::village::{ADDRESSES, Village, announce};

#[test]
fn an_agent_that_starts_without_etcd_forgets_nothing_and_says_what_is_missing() {
    let name =
        "outages::an_agent_that_starts_without_etcd_forgets_nothing_and_says_what_is_missing";
    lab::test(name, || {
        let mut village = Village::found()?;
        village.wait_for_announcement()?;
        let (before, lets_in) = (Inventory::read(&village.node)?, village.lets_in()?);
        village.node.kill_agent()?;
        village.etcd.kill()?;
        village.start_without_etcd()?;
        ensure!(village.address("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        ensure!(village.lets_in()? == lets_in, "{lets_in:?} became {:?}", village.lets_in()?);
        ensure!(before.moved(&Inventory::read(&village.node)?) == 0, "numbers moved");
        wait_for("the agent says what it waits for", || {
            let why = village.text("why")?;
            Ok(why.contains("it is unreachable since ") && why.contains("retry in "))
        })?;
        // With etcd come the changes, and what is left of before goes.
        village.etcd.start_again()?;
        announce(&village.etcd, "10.99.0.3", 40_000)?;
        village.etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        village.wait_for_address("10.99.0.3/32", Some(40_000))?;
        village.wait_for_address("10.99.0.1/32", None)?;
        village.wait_for_store("Ok")
    });
}

#[test]
fn etcd_may_be_killed_hung_and_compacted_under_the_agent() {
    lab::test("outages::etcd_may_be_killed_hung_and_compacted_under_the_agent", || {
        let mut village = Village::found()?;
        village.wait_for_announcement()?;
        village.etcd.kill()?;
        village.wait_for_store("Failure")?;
        village.etcd.start_again()?;
        announce(&village.etcd, "10.99.0.2", 40_000)?;
        village.etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        village.etcd.compact()?;
        village.wait_for_address("10.99.0.2/32", Some(40_000))?;
        village.wait_for_address("10.99.0.1/32", None)?;
        village.wait_for_store("Ok")?;

        village.etcd.stop()?;
        village.wait_for_store("Failure")?;
        ensure!(village.address("10.99.0.2/32")? == Some(40_000), "an address is forgotten");
        village.etcd.go_on()?;
        announce(&village.etcd, "10.99.0.4", 40_000)?;
        village.wait_for_address("10.99.0.4/32", Some(40_000))?;
        village.wait_for_store("Ok")
    });
}

#[test]
fn what_is_announced_comes_back_after_its_lease_ran_out() {
    lab::test("outages::what_is_announced_comes_back_after_its_lease_ran_out", || {
        let mut village = Village::found()?;
        village.wait_for_announcement()?;
        let before = village.etcd.keys("cilium/")?;
        village.etcd.expire_leases()?;
        wait_for("all is announced again", || Ok(village.etcd.keys("cilium/")? == before))?;
        village.wait_for_store("Ok")
    });
}
