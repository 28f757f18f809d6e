//! Tests: a lost interface or program is seen at once, and what can be repaired is repaired.

use std::time::Duration;

use crate::{
    endpoints::{
        endpoint::{HealthState, Level},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::EndpointId,
    ports::{Attachment, HookState, Intruder, KernelOp, Notices},
    testing::{KernelState, World, pod, spec},
};

const ID: EndpointId = EndpointId(1);

/// A node with two endpoints, at rest.
fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    assert!(world.all_ready());
    world
}

/// Asks the kernel about one, as who wants to know does.
fn verify(world: &World, target: Option<EndpointReference>) {
    world.ask(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Verify { target, reply });
}

fn disturb(world: &World, notices: Notices) {
    world.node_supervisor().endpoints.tell(EndpointsMsg::Disturbed(notices)).unwrap();
    world.settle();
}

fn of_interface(world: &World, ifindex: u32) -> Notices {
    let link = world.kernel.state().rows.links.get(&ifindex).cloned();
    Notices { links: [(ifindex, link)].into(), ..Notices::default() }
}

fn trouble(world: &World) -> Option<String> {
    world.get(ID).lost.as_ref().map(|lost| lost.why.to_string())
}

fn intruder() -> Intruder {
    let mut name = [0; 16];
    name[..7].copy_from_slice(b"foreign");
    Intruder { program: 77, name }
}

#[test]
fn a_vanished_interface_is_known_as_soon_as_the_kernel_says_it_or_is_asked() {
    for reported in [true, false] {
        let world = node();
        let link = world.kernel.state().rows.links[&101].clone();
        world.kernel.tamper(|state| state.unplug(101));
        match reported {
            true => disturb(&world, of_interface(&world, 101)),
            false => verify(&world, Some(EndpointReference::Id(ID))),
        }
        let view = world.get(ID);
        assert_eq!(view.api_state(), "not-ready");
        assert!(trouble(&world).unwrap().ends_with("is gone"), "{:?}", view.lost);
        let health = view.health();
        assert!(!health.connected && health.overall_health == HealthState::Failure);
        assert!(world.get(EndpointId(2)).serves(), "the other one is as it was");
        // A build does not bring it back.
        let (target, level, reason) = (EndpointReference::Id(ID), Level::Rewrite, "a test".into());
        let _built = world.pose(&world.node_supervisor().endpoints, |reply| {
            EndpointsMsg::Regenerate { target, level, reason, reply }
        });
        world.settle();
        assert!(!world.get(ID).serves());
        // It was only away.
        world.kernel.tamper(|state| state.plug(link));
        disturb(&world, of_interface(&world, 101));
        world.advance(Duration::from_secs(5));
        assert_eq!((world.get(ID).api_state(), trouble(&world)), ("ready", None));
        world.audit();
    }
}

#[test]
fn another_interface_of_that_number_is_not_its_own() {
    let world = node();
    world.kernel.tamper(|state| state.rows.links.get_mut(&101).unwrap().name = "tap7".into());
    let before = world.kernel.writes().len();
    disturb(&world, of_interface(&world, 101));
    assert!(trouble(&world).unwrap().contains("its name is tap7"), "{:?}", trouble(&world));
    assert_eq!(world.kernel.writes().len(), before, "it is left alone");
    verify(&world, None);
    assert_eq!(world.get(ID).api_state(), "not-ready");
}

/// What is taken away is known at once, said, and back before a second has passed.
fn is_put_right(
    tamper: impl Fn(&mut KernelState),
    says: &str,
    notices: impl Fn(&World) -> Notices,
) {
    let world = node();
    let before = world.kernel.state().rows;
    world.kernel.tamper(&tamper);
    world.kernel.watch(|_, op| assert!(!matches!(op, KernelOp::PutConfig(_)), "{op:?}"));
    disturb(&world, notices(&world));
    let log = world.get(ID).log.iter().map(|entry| entry.message.to_string()).collect::<Vec<_>>();
    assert!(log.iter().any(|line| line.contains(says)), "{says}: {log:?}");
    assert!(world.get(ID).serves());
    world.advance(Duration::from_secs(1));
    assert_eq!(world.kernel.state().rows, before, "{says}");
    // Who asks does it as well.
    world.kernel.tamper(&tamper);
    verify(&world, None);
    world.advance(Duration::from_secs(1));
    assert_eq!((world.get(ID).serves(), world.kernel.state().rows), (true, before), "{says}");
}

#[test]
fn what_somebody_takes_away_is_back_within_a_second() {
    let address = spec(1).addresses.iter().next().unwrap();
    let of_route = move |_: &World| Notices { addresses: [address].into(), ..Notices::default() };
    is_put_right(|state| state.rows.routes.retain(|it, _| *it != address), "is gone", of_route);
    is_put_right(|state| state.go_down(101), "is down", |world| of_interface(world, 101));
    let all = |_: &World| Notices { all: true, ..Notices::default() };
    is_put_right(|state| state.rows.attachments.retain(|id, _| *id != ID), "no program runs", all);
    let behind = |state: &mut KernelState| {
        let from_container = HookState::Behind(intruder());
        let both = Attachment { from_container, to_container: HookState::Link };
        state.rows.attachments.insert(ID, both);
    };
    is_put_right(behind, "program 77 (foreign) of somebody else runs first", all);
}

#[test]
fn who_takes_it_away_again_and_again_is_not_fought_without_end() {
    let world = node();
    let address = spec(1).addresses.iter().next().unwrap();
    let mut routed = 0;
    for _ in 0..600 {
        let was = |state: &KernelState| state.rows.routes.contains_key(&address);
        routed += u32::from(world.kernel.with(was));
        world.kernel.tamper(|state| state.rows.routes.retain(|it, _| *it != address));
        disturb(&world, Notices { addresses: [address].into(), ..Notices::default() });
        world.advance(Duration::from_millis(100));
    }
    // Ten at once, then one every five seconds, and the round's own.
    assert!((10..=26).contains(&routed), "{routed}");
    world.advance(Duration::from_secs(10));
    assert!(world.kernel.state().rows.routes.contains_key(&address), "in the end it is there");
    assert!(world.get(ID).serves());
}

#[test]
fn news_of_its_own_doing_cost_nothing() {
    let world = node();
    let writes = world.kernel.writes().len();
    disturb(&world, of_interface(&world, 101));
    disturb(&world, of_interface(&world, 999));
    assert_eq!(world.kernel.jobs(), 0);
    verify(&world, Some(EndpointReference::Id(EndpointId(99))));
    verify(&world, None);
    assert_eq!((world.kernel.writes().len(), world.get(ID).counts.builds), (writes, 1));
}

#[test]
fn a_kernel_that_does_not_answer_leaves_what_was_seen_before() {
    let world = node();
    world.fate.refuses("Probe");
    verify(&world, None);
    assert!(world.all_ready());
    world.kernel.hold(true);
    let asked = world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Verify {
        target: None,
        reply,
    });
    let mut asked = asked;
    world.advance(Duration::from_secs(3));
    assert!(asked.now().unwrap().is_ok(), "who asks is answered all the same");
    world.kernel.hold(false);
    world.settle();
}

#[test]
fn who_was_not_built_in_this_life_holds_up_nobody_who_asks() {
    let mut world = node();
    world.crash();
    // So there is something to build, and the kernel does not do it.
    world.kernel.tamper(|state| state.rows.lxc.clear());
    world.kernel.hold(true);
    world.boot();
    assert!(!world.all_ready());
    let mut asked = world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Verify {
        target: None,
        reply,
    });
    world.settle();
    assert!(asked.now().unwrap().is_ok(), "nobody is ready, so nobody says what is wrong");
    world.kernel.hold(false);
    world.advance(Duration::from_secs(1));
    world.kernel.tamper(|state| state.unplug(101));
    verify(&world, None);
    assert!(trouble(&world).is_some(), "who was built is looked at again");
}
