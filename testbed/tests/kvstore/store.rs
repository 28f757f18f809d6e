use std::{path::Path, thread, time::Duration};

use anyhow::Result;
use tokio::{runtime::Builder, task::LocalSet, time::sleep};
use volvox_agent::ports::kvstore::Etcd;
use volvox_testbed::lab;

use super::conformance::{Bench, run};

#[test]
fn etcd_does_what_every_store_must() {
    lab::test("store::etcd_does_what_every_store_must", || {
        let server = lab::Etcd::start(Path::new("/run/volvox/etcd"))?;
        // On a thread of its own: what it leaves behind must not stop the runtime's end.
        thread::scope(|scope| scope.spawn(|| suite(&server)).join().expect("the suite passes"))
    });
}

fn suite(server: &lab::Etcd) -> Result<()> {
    with_actors(|pump| {
        let store = Etcd::start(server.option().parse()?)?;
        // Another prefix beside it must not be seen.
        server.put("suitf", "x")?;
        run(&Bench { store: &store, pump, prefix: "suite/" });
        Ok(())
    })
}

/// Runs something where actors could live; what it is given lets them go on for a moment.
pub(super) fn with_actors(work: impl FnOnce(&dyn Fn()) -> Result<()>) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let actors = LocalSet::new();
    let _runtime = runtime.enter();
    let _actors = actors.enter();
    work(&|| actors.block_on(&runtime, sleep(Duration::from_millis(1))))
}
