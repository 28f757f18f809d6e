//! Tests: a creation programs all in a safe order, and refuses what is already in use.

use crate::{
    endpoints::endpoint::EndpointState,
    model::EndpointId,
    ports::{Attachment, HookState, IpcacheRow, KernelOp},
    state_directory::scan,
    testing::{World, pod, spec},
};

#[test]
fn a_new_endpoint_is_programmed_recorded_and_known() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    let view = world.create(spec(1)).unwrap();

    assert_eq!((view.id, view.state), (EndpointId(1), EndpointState::Ready));
    assert_eq!(view.identity_labels.get("app").map(|label| label.value.as_str()), Some("web"));
    let state = world.kernel.state();
    let row = state.rows.config[&101];
    assert_eq!(
        (row.endpoint, row.identity, row.addresses),
        (view.id, view.identity, spec(1).addresses)
    );
    for address in spec(1).addresses.iter() {
        assert_eq!(state.rows.lxc[&address].endpoint, 1);
        assert_eq!(state.rows.routes[&address], 101);
        let row = IpcacheRow { identity: view.identity, ..IpcacheRow::default() };
        assert_eq!(state.rows.ipcache[&address.into()], row);
    }
    let both = Attachment { from_container: HookState::Link, to_container: HookState::Link };
    assert_eq!(state.rows.attachments[&view.id], both);
    assert_eq!(state.pins[&view.id], row.policy_slot);
    assert!(state.rows.links[&101].up);
    let found = scan(&world.disk.files());
    assert_eq!(found.records.len(), 1);
    assert_eq!(found.records[0].record.security.id, view.identity);
    world.audit();
}

#[test]
fn no_packet_passes_before_the_policy_stands_and_nobody_is_led_there_before() {
    let world = World::new();
    world.create(spec(1)).unwrap();
    let steps: Vec<&str> = world.kernel.writes().iter().map(KernelOp::name).collect();
    let place = |step: &str| steps.iter().position(|other| *other == step).unwrap();
    let order =
        ["PutEndpoint", "Attach", "FlipPolicy", "PutConfig", "PutLxc", "LinkUp", "PutRoute"];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{steps:?}");
    let mapped = world.kernel.writes().into_iter().rposition(|op| {
        matches!(&op, KernelOp::PutIpcache(rows) if rows.iter().any(|(prefix, _)| prefix.addr() == spec(1).addresses.iter().next().unwrap()))
    });
    assert!(mapped.unwrap() > place("PutRoute"));
}

/// Lets all go on but the disk.
fn all_but_the_disk(world: &World) {
    loop {
        world.life().universe.settle();
        if !world.kernel.step(0) {
            return;
        }
    }
}

#[test]
fn nobody_sees_a_new_endpoint_before_its_state_file_is_written() {
    let world = World::new();
    // Its identity is on the disk already.
    world.create(spec(1)).unwrap();
    let mut created = world.begin_create(spec(2));
    all_but_the_disk(&world);
    // Its programs and its policy are there, and nothing leads to them.
    let state = world.kernel.state();
    assert_eq!((state.rows.endpoints.len(), state.aside.len()), (2, 1));
    assert!(!state.rows.config.contains_key(&102) && !state.pins.contains_key(&EndpointId(2)));
    assert!(spec(2).addresses.iter().all(|address| !state.rows.lxc.contains_key(&address)));
    assert!(created.now().is_none());
    assert_eq!(world.disk.jobs(), 1);

    while world.disk.step() {}
    all_but_the_disk(&world);
    assert!(created.now().is_some_and(|answer| answer.unwrap().is_ok()));
    let state = world.kernel.state();
    assert!(state.rows.config.contains_key(&102));
    // The kernel's record says that the file may be believed.
    assert!(state.rows.endpoints.values().all(|row| !row.unsaved));
}

#[test]
fn what_is_in_use_is_refused_and_nothing_of_the_question_stays() {
    use crate::{endpoints::endpoint::CreateError, testing::Residue};
    let world = World::new();
    world.create(spec(1)).unwrap();
    world.advance(std::time::Duration::from_secs(1));
    let before = Residue::of(&world);
    let other = || spec(2);
    let cases = [
        ("number", crate::endpoints::endpoint::EndpointSpec { id: Some(EndpointId(1)), ..other() }),
        (
            "IPv4 address",
            crate::endpoints::endpoint::EndpointSpec { addresses: spec(1).addresses, ..other() },
        ),
        (
            "IPv6 address",
            crate::endpoints::endpoint::EndpointSpec {
                addresses: crate::model::Addresses {
                    ipv6: spec(1).addresses.ipv6,
                    ..other().addresses
                },
                ..other()
            },
        ),
        (
            "attachment",
            crate::endpoints::endpoint::EndpointSpec {
                container_id: spec(1).container_id,
                ..other()
            },
        ),
        (
            "interface",
            crate::endpoints::endpoint::EndpointSpec {
                ifindex: spec(1).ifindex,
                ifname: spec(1).ifname,
                ..other()
            },
        ),
    ];
    for (what, spec) in cases {
        let answer = world.create(spec);
        assert!(matches!(answer, Err(CreateError::InUse(_))), "{what}: {answer:?}");
        Residue::assert_same(&world, &before, what);
    }
    let zero = crate::endpoints::endpoint::EndpointSpec { id: Some(EndpointId(0)), ..other() };
    assert!(matches!(world.create(zero), Err(CreateError::Invalid(_))));
    world.audit();
}
