//! Tests: the power fails during work on endpoints; no endpoint is lost, and no address leaks.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    fleet::Fleet,
    lab::{self, Binaries, Disk, Inventory, Node, Pod, Through},
    progress::Progress,
};

use super::{PODS, allocations};

/// What is under way when the power fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Create,
    Delete,
    /// Endpoints' options change, and with them their records.
    Reconfigure,
}

/// The disk loses what was not on it yet. Nothing of the kernel is lost: the endpoints serve on.
#[test]
fn c_15446_a_power_cut_costs_no_endpoint() {
    if !Disk::is_possible() {
        eprintln!("SKIPPED: /dev/loop-control is missing: this machine lets no file be a disk");
        return;
    }
    lab::test("power_cut::c_15446_a_power_cut_costs_no_endpoint", || {
        let disk = Disk::make(&Node::new(Binaries::find()?)?)?;
        let mut fleet = Fleet::launch(PODS, Through::Rest, &Progress::new(true))?;
        let before = Inventory::read(&fleet.node)?;
        let leased = allocations(&fleet.node)?;
        let mut number = 0;
        for work in [Work::Create, Work::Delete, Work::Reconfigure] {
            for wait in [0, 3, 9, 27] {
                number += 1;
                let what = format!("{work:?} {wait}");
                cut(&mut fleet, &disk, work, number, Duration::from_millis(wait))
                    .with_context(|| what.clone())?;
                let after = Inventory::read(&fleet.node)?;
                let changes = before.changes(&after);
                let same = changes.is_empty() && before.len() == after.len();
                ensure!(same, "{what}: {changes:#?}, {} became {}", before.len(), after.len());
                ensure!(allocations(&fleet.node)? == leased, "{what}: addresses are left");
            }
        }
        Ok(())
    });
}

/// Cuts the power `after` that work began; then the machine comes back and the runtime goes on.
fn cut(fleet: &mut Fleet, disk: &Disk, work: Work, number: u32, after: Duration) -> Result<()> {
    let name = format!("fleet/extra-{number}");
    let labels = [("app", "app-1")];
    let shared = &*fleet;
    let extra = match work {
        Work::Delete => Some(Pod::create(&shared.node, &name, &labels, Through::Rest)?),
        Work::Create | Work::Reconfigure => None,
    };
    thread::scope(|scope| -> Result<()> {
        let worker = scope.spawn(|| match (&extra, work) {
            // Whether it worked does not matter: the runtime deletes it afterwards.
            (None, Work::Create) => drop(Pod::create(&shared.node, &name, &labels, Through::Rest)),
            (Some(pod), _) => drop(pod.delete(&shared.node)),
            _ => drop(reconfigure(shared, number)),
        });
        thread::sleep(after);
        disk.cut_power()?;
        worker.join().expect("it returns");
        Ok(())
    })?;
    fleet.node.kill_agent()?;
    disk.restore_power(&fleet.node)?;
    fleet.node.start_agent()?;
    let path = format!("/endpoint/pod-name:{}", name.replace('/', "%2F"));
    let deleted = fleet.node.rest().request("DELETE", &path, None)?;
    ensure!([200, 206, 404].contains(&deleted.status), "{deleted:?}");
    fleet.node.wait_for_ready(PODS)?;
    fleet.node.wait("restoring does not end", |node| {
        let report: Value = node.rest().get("/volvox/restore")?;
        Ok(report["finished"] == json!(true))
    })?;
    // An address of a pod that never came to be goes back by itself after a while.
    for (address, owner) in allocations(&fleet.node)? {
        if owner.as_str() == Some(&name) {
            fleet.node.rest().request("DELETE", &format!("/ipam/{address}"), None)?;
        }
    }
    Ok(())
}

/// Switches an option of some endpoints.
fn reconfigure(fleet: &Fleet, number: u32) -> Result<()> {
    let value = if number.is_multiple_of(2) { "Enabled" } else { "Disabled" };
    let options = json!({ "options": { "DropNotification": value } });
    for endpoint in fleet.node.endpoints()?.iter().take(3) {
        let path = format!("/endpoint/{}/config", endpoint["id"]);
        fleet.node.rest().request("PATCH", &path, Some(&options))?;
    }
    Ok(())
}
