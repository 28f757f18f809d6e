//! Tests: a restart after which kernel and disk are the same, without a single write.

use std::time::Duration;

use crate::{
    restore::RestoreOutcome,
    testing::{World, pod, spec},
};

#[test]
fn a_restart_with_nothing_changed_writes_nothing() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    for number in [1, 2, 3] {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    let before = (world.kernel.state(), world.disk.files());
    let (writes, log) = (world.kernel.writes().len(), world.disk.log().len());
    let views = world.list();

    world.restart();
    assert!(world.all_ready());
    world.advance(Duration::from_secs(600));
    assert_eq!(&world.kernel.writes()[writes..], []);
    assert_eq!(&world.disk.log()[log..], []);
    assert_eq!((world.kernel.state(), world.disk.files()), before);
    let report = world.report();
    assert!(report.finished);
    assert_eq!(report.count(RestoreOutcome::Restored), 3);
    assert_eq!(report.problems, [""; 0]);
    for (before, after) in views.iter().zip(world.list()) {
        assert_eq!((before.id, before.identity), (after.id, after.identity));
        assert_eq!(before.spec.addresses, after.spec.addresses);
    }
    world.audit();
}
