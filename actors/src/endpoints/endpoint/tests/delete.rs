//! Tests: a deletion at any moment leaves nothing, and the same endpoint can be made again.

use std::time::Duration;

use crate::{
    endpoints::{
        endpoint::SETTLE_AFTER,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::EndpointId,
    testing::{Residue, World, pod, spec},
};

#[test]
fn a_deletion_at_any_moment_of_a_build_leaves_nothing() {
    for disk_first in [false, true] {
        let mut steps = 0;
        for moment in 0.. {
            let mut world = World::new();
            world.apply("pods", [pod(1, "web")]);
            let before = Residue::of(&world);
            let _created = world.begin_create(spec(1));
            let mut left = moment;
            while left > 0 {
                left -= 1;
                let stepped = world.life().universe.step(0)
                    || disk_first && world.disk.step()
                    || world.kernel.step(0)
                    || world.disk.step();
                if !stepped {
                    break;
                }
            }
            steps = steps.max(moment - left);
            let done = left > 0;
            let _ = world.delete(EndpointReference::Id(EndpointId(1)));
            world.advance(Duration::from_secs(700));
            let place = format_args!("moment {moment}, disk first: {disk_first}");
            Residue::assert_same(&world, &before, place);
            if done {
                break;
            }
        }
        assert!(steps > 40, "{steps}");
    }
}

#[test]
fn links_that_are_made_late_do_not_outlive_the_endpoint() {
    let world = World::new();
    let before = Residue::of(&world);
    let mut created = world.begin_create(spec(1));
    // Built, but its links are not made yet.
    loop {
        world.life().universe.settle();
        if created.now().is_some_and(|answer| answer.unwrap().is_ok()) {
            break;
        }
        assert!(world.kernel.step(0) || world.disk.step());
    }
    // No moment before: who makes the next pod would wait for them.
    let universe = &world.life().universe;
    let moment = Duration::from_millis(1);
    universe.advance(SETTLE_AFTER - moment);
    assert_eq!(world.kernel.jobs(), 0);
    universe.advance(moment);
    assert_eq!(world.kernel.jobs(), 1);
    let target = EndpointReference::Id(EndpointId(1));
    let mut deleted = world
        .pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Delete { target, reply });
    // What takes it down overtakes them.
    loop {
        world.life().universe.settle();
        if !(world.kernel.step(1) || world.disk.step()) {
            break;
        }
    }
    // Whoever asked is answered when they are made, and gone again: its number is withheld so long.
    assert_eq!(deleted.now(), None);
    assert_eq!(world.kernel.jobs(), 1);
    world.settle();
    assert_eq!(deleted.now(), Some(Ok(Ok(0))));
    Residue::assert_same(&world, &before, "a deletion");
}

#[test]
fn once_a_deletion_is_answered_the_same_may_be_made_anew_whenever_it_was_asked() {
    let mut moments = 0;
    for moment in 0.. {
        let world = World::new();
        let mut created = world.begin_create(spec(1));
        let mut left = moment;
        while left > 0 {
            left -= 1;
            let universe = &world.life().universe;
            if !(universe.step(0) || world.kernel.step(0) || world.disk.step()) {
                break;
            }
        }
        let target = EndpointReference::AttachmentId(spec(1).attachment_id());
        let mut deleted = world.pose(&world.node_supervisor().endpoints, |reply| {
            EndpointsMsg::Delete { target, reply }
        });
        let mut answer = None;
        while answer.is_none() {
            let universe = &world.life().universe;
            assert!(universe.step(0) || world.kernel.step(0) || world.disk.step());
            answer = deleted.now();
        }
        drop(created.now());
        // The same number, address, interface and attachment.
        let again = world.create(spec(1));
        assert!(again.is_ok(), "moment {moment}, {answer:?}: {again:?}");
        moments = moment;
        if left > 0 {
            break;
        }
    }
    assert!(moments > 40, "{moments}");
}

#[test]
fn a_deletion_that_left_something_does_not_keep_the_container_from_coming_back() {
    let world = World::new();
    world.create(spec(1)).unwrap();
    world.settle();
    world.fate.refuses("LinkDown");
    let attachment = || EndpointReference::AttachmentId(spec(1).attachment_id());
    assert!(world.delete(attachment()).unwrap() > 0);
    let mut anew = spec(2);
    (anew.container_id, anew.container_ifname) = (spec(1).container_id, spec(1).container_ifname);
    world.create(anew).unwrap();
    // Of two of that name the living one is meant.
    let get = |reply| EndpointsMsg::Get { target: attachment(), reply };
    assert_eq!(world.ask(&world.node_supervisor().endpoints, get).unwrap().id, EndpointId(2));
}

#[test]
fn each_interface_of_a_container_goes_by_itself() {
    for (goes, stays) in [(1, 2), (2, 1)] {
        let mut world = World::new();
        let mut second = spec(2);
        second.container_id = spec(1).container_id;
        second.container_ifname = "net1".to_owned();
        let attachments = [spec(1).attachment_id(), second.attachment_id()];
        world.create(spec(1)).unwrap();
        world.create(second).unwrap();
        world.settle();
        world.restart();
        let attachment = attachments[goes - 1].clone();
        assert_eq!(world.delete(EndpointReference::AttachmentId(attachment)), Some(0));
        let left: Vec<_> = world.list().iter().map(|view| usize::from(view.id.0)).collect();
        assert_eq!(left, [stays]);
    }
}

#[test]
fn a_record_that_names_no_interface_is_of_the_first() {
    let mut old = spec(1);
    old.container_ifname.clear();
    assert!(old.is_attachment(&format!("{}:eth0", old.container_id)));
    assert!(old.is_attachment(&format!("{}:", old.container_id)));
    assert!(!old.is_attachment(&format!("{}:net1", old.container_id)));
    assert!(!spec(1).is_attachment(&format!("{}:", spec(1).container_id)));
    old.container_id.clear();
    assert!(!old.is_attachment(":eth0"));
}
