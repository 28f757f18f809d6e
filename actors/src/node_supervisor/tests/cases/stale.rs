//! Tests: endpoints of before a restart are all accounted for; a pod that returns under the same
//! name is another one.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    endpoints::{
        endpoint::{EndpointSpec, EndpointState},
        supervisor::EndpointReference,
    },
    model::EndpointId,
    ports::{FsOp, Link},
    restore::RestoreOutcome,
    testing::{Residue, World, link, pod, spec},
};

/// c 37077: endpoints were logged as restored and were not there afterwards.
#[test]
fn c_37077_everyone_of_before_is_there_or_explained() {
    let mut world = World::new();
    world.apply("pods", (1..=6).map(|number| pod(number, "web")));
    for number in 1..=6 {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    let before: BTreeSet<EndpointId> = world.list().iter().map(|view| view.id).collect();
    world.crash();
    let write = |path: &str, text: &[u8]| world.disk.tamper(|files| files.write(path, text));
    write("2/ep_config.json", b"{ torn");
    write("2/ep_config.h", b"torn");
    world.kernel.tamper(|state| state.unplug(103));
    for lost in ["4", "5"] {
        world.disk.tamper(|files| files.apply(&FsOp::Remove(lost.into())).unwrap());
    }
    // Of the fifth nothing tells any more which interface it had.
    world.kernel.tamper(|state| {
        state.rows.endpoints.remove(&EndpointId(5));
        state.rows.torn_rows.push(EndpointId(5));
        state.rows.config.remove(&105);
    });
    // The sixth cannot be built.
    world.kernel.tamper(|state| state.rows.routes.retain(|_, to| *to != 106));
    world.fate.refuses("PutRoute");
    world.boot();
    world.advance(Duration::from_secs(60));

    let report = world.report();
    let fates: Vec<_> = report.endpoints.iter().map(|(id, it)| (id.0, it.fate)).collect();
    assert_eq!(report.endpoints.keys().copied().collect::<BTreeSet<_>>(), before, "{report:?}");
    let expected = [
        RestoreOutcome::Restored,
        RestoreOutcome::Rebuilt,
        RestoreOutcome::Failed,
        RestoreOutcome::Rebuilt,
        RestoreOutcome::Failed,
    ];
    assert!(
        fates
            .iter()
            .map(|(_, fate)| *fate)
            .eq(expected.into_iter().chain([RestoreOutcome::Degraded])),
        "{fates:?}"
    );
    let managed: BTreeSet<EndpointId> = world.list().iter().map(|view| view.id).collect();
    for (id, endpoint) in &report.endpoints {
        match endpoint.fate {
            RestoreOutcome::Restored | RestoreOutcome::Rebuilt => {
                assert!(managed.contains(id), "{id}")
            }
            RestoreOutcome::Degraded => {
                assert!(managed.contains(id) && endpoint.error.is_some(), "{id}")
            }
            _ => assert!(!managed.contains(id) && endpoint.error.is_some(), "{id}"),
        }
    }
    world.fate.is_kind();
    world.advance(Duration::from_secs(120));
    assert!(world.all_ready());
}

/// The pod of that name once more, in a sandbox of its own.
fn second() -> (EndpointSpec, Link) {
    let (mut again, mut plugged) = (spec(7), link(7));
    let first = spec(1);
    again.pod_name = first.pod_name;
    again.pod_uid = "uid-1-again".to_owned();
    again.ifindex = 207;
    plugged.ifindex = 207;
    (again, plugged)
}

/// c 43635: a pod of a stateful set came back under its name, and the end of the one before, heard
/// late or never, took the new one along.
#[test]
fn c_43635_a_pod_of_the_same_name_is_another_pod() {
    // What is heard of the end of the first one, and when.
    for deleted in ["before", "after", "never"] {
        for restarted in [false, true] {
            let mut world = World::new();
            world.apply("pods", [pod(1, "web")]);
            let empty = Residue::of(&world);
            world.create(spec(1)).unwrap();
            world.advance(Duration::from_secs(1));
            if restarted {
                world.crash();
            }
            let delete = |world: &World| {
                world.delete(EndpointReference::ContainerId(spec(1).container_id));
                world.advance(Duration::from_secs(1));
            };
            let (again, plugged) = second();
            world.kernel.tamper(|state| {
                state.unplug(101);
                state.plug(plugged);
            });
            if restarted {
                world.boot();
            }
            if deleted == "before" {
                delete(&world);
            }
            let made = world.create(again.clone()).unwrap();
            if deleted == "after" {
                delete(&world);
            }
            world.advance(Duration::from_secs(700));
            let views = world.list();
            assert_eq!(views.len(), 1, "{deleted} {restarted}");
            assert_eq!((views[0].id, views[0].state), (made.id, EndpointState::Ready));
            assert_eq!(views[0].spec.pod_uid, again.pod_uid);
            assert_eq!(views[0].spec.addresses, again.addresses);
            world.audit();
            assert_eq!(world.delete(EndpointReference::ContainerId(again.container_id)), Some(0));
            world.advance(Duration::from_secs(60));
            Residue::assert_same(&world, &empty, format_args!("{deleted} {restarted}"));
        }
    }
}
