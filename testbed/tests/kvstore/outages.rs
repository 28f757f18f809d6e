//! Tests: etcd is away, hangs, is compacted or lets leases expire, and the agent forgets nothing.

use anyhow::ensure;
use volvox_testbed::lab::{self, Inventory, wait_for};

use super::setup::{ADDRESSES, announce, start, start_without_etcd, wait_for_announcement};

#[test]
fn an_agent_that_starts_without_etcd_forgets_nothing_and_says_what_is_missing() {
    let name =
        "outages::an_agent_that_starts_without_etcd_forgets_nothing_and_says_what_is_missing";
    lab::test(name, || {
        let (mut node, mut etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        let (before, lets_in) = (Inventory::read(&node)?, node.lets_in()?);
        node.kill_agent()?;
        etcd.kill()?;
        start_without_etcd(&mut node)?;
        ensure!(node.mapped("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        ensure!(node.lets_in()? == lets_in, "{lets_in:?} became {:?}", node.lets_in()?);
        ensure!(before.moved(&Inventory::read(&node)?) == 0, "numbers moved");
        wait_for("the agent says what it waits for", || {
            let why = node.volvox("why -o wide")?;
            Ok(why.contains("it is unreachable since ") && why.contains("retry in "))
        })?;
        // With etcd come the changes, and what is left of before goes.
        etcd.start_again()?;
        announce(&etcd, "10.99.0.3", 40_000)?;
        etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        node.wait_until_mapped("10.99.0.3/32", Some(40_000))?;
        node.wait_until_mapped("10.99.0.1/32", None)?;
        node.wait_for_store("Ok")
    });
}

#[test]
fn etcd_may_be_killed_hung_and_compacted_under_the_agent() {
    lab::test("outages::etcd_may_be_killed_hung_and_compacted_under_the_agent", || {
        let (mut node, mut etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        etcd.kill()?;
        node.wait_for_store("Failure")?;
        etcd.start_again()?;
        announce(&etcd, "10.99.0.2", 40_000)?;
        etcd.delete(&format!("{ADDRESSES}10.99.0.1"))?;
        etcd.compact()?;
        node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        node.wait_until_mapped("10.99.0.1/32", None)?;
        node.wait_for_store("Ok")?;

        etcd.stop()?;
        node.wait_for_store("Failure")?;
        ensure!(node.mapped("10.99.0.2/32")? == Some(40_000), "an address is forgotten");
        etcd.go_on()?;
        announce(&etcd, "10.99.0.4", 40_000)?;
        node.wait_until_mapped("10.99.0.4/32", Some(40_000))?;
        node.wait_for_store("Ok")
    });
}

#[test]
fn what_is_announced_comes_back_after_its_lease_ran_out() {
    lab::test("outages::what_is_announced_comes_back_after_its_lease_ran_out", || {
        let (mut node, etcd, web) = start()?;
        wait_for_announcement(&etcd, &web)?;
        let before = etcd.keys("cilium/")?;
        etcd.expire_leases()?;
        wait_for("all is announced again", || Ok(etcd.keys("cilium/")? == before))?;
        node.wait_for_store("Ok")
    });
}
