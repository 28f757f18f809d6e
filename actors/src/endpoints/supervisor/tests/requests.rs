//! Tests: requests for builds, changes and deletions, also while a build runs or steps fail.

use std::{sync::Arc, time::Duration};

use crate::{
    endpoints::{
        endpoint::{EndpointState, Level, Patch, PatchError},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::{EndpointId, Labels},
    state_directory::scan,
    testing::{Residue, Turn, World, pod, spec},
};

const ID: EndpointId = EndpointId(1);

fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

fn patch(world: &World, patch: Patch) -> crate::host::Answer<Patched> {
    let (target, patch) = (EndpointReference::Id(ID), Box::new(patch));
    world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Patch {
        target,
        patch,
        reply,
    })
}

type Patched = Result<Arc<crate::endpoints::endpoint::EndpointView>, PatchError>;

fn options(value: i64) -> Patch {
    let options = [("SourceIPVerification".to_owned(), value)].into();
    Patch { options: Some(options), ..Patch::default() }
}

#[test]
fn triggers_while_it_builds_are_one_more_build_at_the_highest_level() {
    let world = node();
    let builds = world.get(ID).counts.builds;
    world.kernel.hold(true);
    let regenerate = |level| {
        world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Regenerate {
            target: EndpointReference::Id(ID),
            level,
            reason: Arc::from("a test"),
            reply,
        })
    };
    let mut answers = vec![patch(&world, options(0))];
    world.settle();
    assert_eq!(world.get(ID).state, EndpointState::Regenerating);
    answers.extend([Level::Load, Level::Rebuild, Level::Rewrite].map(regenerate));
    world.settle();
    let writes = world.kernel.writes().len();
    world.kernel.hold(false);
    world.settle();
    assert!(answers.iter_mut().all(|answer| answer.now().unwrap().unwrap().is_ok()));
    assert_eq!(world.get(ID).counts.builds, builds + 2);
    let steps = world.kernel.writes();
    let loads = steps[writes..].iter().map(crate::ports::KernelOp::name);
    assert_eq!(loads.filter(|name| *name == "LoadPrograms").count(), 1);
    world.audit();
}

#[test]
fn a_rebuild_that_failed_is_tried_again_as_such() {
    let world = node();
    world.fate.at(0, Turn::Fail);
    let answer = world.ask(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Regenerate {
        target: EndpointReference::Id(ID),
        level: Level::Rebuild,
        reason: Arc::from("a test"),
        reply,
    });
    assert!(matches!(answer, Err(PatchError::Failed(_))));
    world.advance(Duration::from_secs(5));
    let loads = world.kernel.writes();
    assert!(loads.contains(&crate::ports::KernelOp::LoadPrograms));
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn what_changes_while_it_is_written_is_written_again() {
    // However far the first change is when the second comes.
    for moment in 0..60 {
        let world = node();
        let mut first = patch(&world, options(0));
        for _ in 0..moment {
            let universe = &world.life().universe;
            let _ = universe.step(0) || world.kernel.step(0) || world.disk.step();
        }
        let labels = Labels::parse(["user:tier=front"]).unwrap();
        let second = Patch { custom: Some(labels), ..options(1) };
        let mut second = patch(&world, second);
        world.settle();
        assert!(first.now().unwrap().unwrap().is_ok() && second.now().unwrap().unwrap().is_ok());
        let record = &scan(&world.disk.files()).records[0].record;
        let view = world.get(ID);
        assert_eq!(record.options.map["SourceIPVerification"], 1, "{moment}");
        assert!(view.identity_labels.get("tier").is_some(), "{moment}");
        assert_eq!(record.security.id, view.identity, "{moment}");
        world.audit();
    }
}

#[test]
fn another_interface_is_no_change_of_an_endpoint() {
    let world = node();
    let interface = Some(crate::endpoints::endpoint::EndpointSpec { ifindex: 102, ..spec(1) });
    let mut answer = patch(&world, Patch { interface, ..Patch::default() });
    world.settle();
    assert!(matches!(answer.now(), Some(Ok(Err(PatchError::Invalid(_))))));
    world.audit();
}

#[test]
fn a_failing_endpoint_is_tried_again_at_a_slower_and_slower_pace() {
    let world = node();
    world.fate.refuses("PutConfig");
    let mut answer = patch(&world, options(0));
    world.settle();
    assert!(matches!(answer.now(), Some(Ok(Err(PatchError::Failed(_))))));
    let failures = |world: &World| world.get(ID).counts.failures;
    world.advance(Duration::from_secs(600));
    let tried = failures(&world);
    assert!((8..40).contains(&tried), "{tried}");
    // More triggers do not make it more often for good.
    for _ in 0..20 {
        drop(patch(&world, options(0)));
        world.settle();
    }
    let tried = failures(&world);
    world.advance(Duration::from_secs(600));
    assert!(failures(&world) - tried < 40, "{}", failures(&world) - tried);
    world.fate.is_kind();
    world.advance(Duration::from_secs(61));
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn a_deletion_that_fails_at_any_step_is_finished_later() {
    for nth in 0..30 {
        let mut world = World::new();
        world.apply("pods", [pod(1, "web")]);
        let before = Residue::of(&world);
        world.create(spec(1)).unwrap();
        world.advance(Duration::from_secs(1));
        world.fate.at(nth, Turn::Fail);
        let errors = world.delete(EndpointReference::Id(ID)).unwrap();
        // An interface that could not be taken down keeps its programs: that makes two.
        assert!(errors <= 2, "{nth}");
        world.advance(Duration::from_secs(10));
        Residue::assert_same(&world, &before, format_args!("step {nth}, {errors} errors"));
    }
}

#[test]
fn a_kernel_that_never_answers_holds_nothing_for_ever() {
    let world = node();
    world.kernel.hold(true);
    let mut patched = patch(&world, options(0));
    world.advance(Duration::from_secs(31));
    assert!(matches!(patched.now(), Some(Ok(Err(PatchError::Failed(_))))));
    let mut deleted = world.pose(&world.node_supervisor().endpoints, |reply| {
        EndpointsMsg::Delete { target: EndpointReference::Id(ID), reply }
    });
    world.advance(Duration::from_secs(119));
    let answer = deleted.now().expect("an answer while the kernel hangs").unwrap();
    assert!(answer.is_ok_and(|errors| errors > 0));
    world.kernel.hold(false);
    world.advance(Duration::from_secs(120));
    assert!(world.list().is_empty());
    world.audit();
}
