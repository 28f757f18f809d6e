//! What could not be read is kept, also by a disk that refuses to put it aside.

use std::time::Duration;

use crate::{
    model::EndpointId,
    restore::RestoreOutcome,
    state_directory::StateFiles,
    testing::{World, pod, spec},
};

const ID: EndpointId = EndpointId(1);
const TORN: &[u8] = b"{ torn";

/// A dead agent's node with an endpoint whose record is torn.
fn torn() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world.crash();
    world.disk.tamper(|files| {
        files.write("1/ep_config.json", TORN);
        files.write("1/ep_config.h", TORN);
    });
    world
}

/// Where the torn record is, and where there is any.
fn places(world: &World) -> (Vec<&'static str>, Vec<&'static str>) {
    let files = world.disk.files();
    let all = ["1/ep_config.json", "quarantine/1.1/ep_config.json"];
    let found = all.map(|path| (path, files.read(path).unwrap()));
    let names = |expected: &dyn Fn(&[u8]) -> bool| {
        let found = found.iter().filter(|(_, bytes)| bytes.as_deref().is_some_and(expected));
        found.map(|(path, _)| *path).collect()
    };
    (names(&|bytes| bytes == TORN), names(&|_| true))
}

#[test]
fn a_torn_record_is_not_replaced_before_it_is_put_aside() {
    for refused in ["MakeDir", "SyncDir", "Rename", "WriteBeside", "SyncBeside", "Place"] {
        let mut world = torn();
        world.fate.refuses(refused);
        world.boot();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready(), "{refused}: it is rebuilt from the kernel");
        assert_eq!(places(&world).0.len(), 1, "{refused}");
        world.fate.is_kind();
        world.advance(Duration::from_secs(120));
        let expected = vec!["quarantine/1.1/ep_config.json"];
        let (torn, all) = places(&world);
        assert_eq!((torn, all.len()), (expected, 2), "{refused}");
        world.audit();
        world.restart();
        world.advance(Duration::from_secs(60));
        assert_eq!(world.report().endpoints[&ID].fate, RestoreOutcome::Restored, "{refused}");
    }
}

#[test]
fn a_torn_record_of_an_endpoint_that_is_gone_is_kept_too() {
    let mut world = torn();
    world.kernel.tamper(|state| drop(state.rows.links.remove(&101)));
    world.fate.refuses("Rename");
    world.boot();
    world.advance(Duration::from_secs(60));
    assert!(world.list().is_empty());
    assert_eq!(places(&world).0, ["1/ep_config.json"]);
    world.fate.is_kind();
    world.advance(Duration::from_secs(120));
    let (torn, all) = places(&world);
    assert_eq!((torn, all.len()), (vec!["quarantine/1.1/ep_config.json"], 1));
}
