use std::time::Duration;

use crate::{
    endpoints::{EndpointsMsg, Target},
    model::EndpointId,
    testing::{Residue, World, pod, spec},
};

#[test]
fn a_deletion_at_any_moment_of_a_build_leaves_nothing() {
    let mut steps = 0;
    for moment in 0.. {
        let mut world = World::new();
        world.apply("pods", [pod(1, "web")]);
        let before = Residue::of(&world);
        let _created = world.begin_create(spec(1));
        let mut left = moment;
        while left > 0 {
            left -= 1;
            let universe = &world.life().universe;
            if !(universe.step(0) || world.kernel.step(0) || world.disk.step()) {
                break;
            }
        }
        steps = steps.max(moment - left);
        let done = left > 0;
        let _ = world.delete(Target::Id(EndpointId(1)));
        world.advance(Duration::from_secs(700));
        Residue::assert_same(&world, &before, format_args!("moment {moment}"));
        if done {
            break;
        }
    }
    assert!(steps > 40, "{steps}");
}

#[test]
fn links_that_are_made_late_do_not_outlive_the_endpoint() {
    let world = World::new();
    let before = Residue::of(&world);
    let mut created = world.begin_create(spec(1));
    // Built, but its links are still being made.
    loop {
        world.life().universe.settle();
        if created.now().is_some_and(|answer| answer.unwrap().is_ok()) {
            break;
        }
        assert!(world.kernel.step(0) || world.disk.step());
    }
    assert_eq!(world.kernel.jobs(), 1);
    let target = Target::Id(EndpointId(1));
    let mut deleted =
        world.pose(&world.colony().endpoints, |reply| EndpointsMsg::Delete { target, reply });
    // What takes it down overtakes them.
    loop {
        world.life().universe.settle();
        if !(world.kernel.step(1) || world.disk.step()) {
            break;
        }
    }
    // Its number stays withheld until they are made, and gone again.
    assert_eq!(deleted.now(), Some(Ok(Ok(0))));
    assert_eq!(world.kernel.jobs(), 1);
    world.settle();
    Residue::assert_same(&world, &before, "a deletion");
}
