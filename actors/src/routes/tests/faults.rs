use std::time::Duration;

use super::town::{DIRECT, TUNNEL, announce, direct, net, routes, routing, said, town, view};
use crate::{
    routes::{RoutesMsg, RoutingMode},
    testing::{Turn, World, crash},
};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_route_of_somebody_else_is_left_and_holds_nothing_back() {
    let (mut world, store) = town(DIRECT);
    world.kernel.tamper(|state| {
        state.routing.foreign.insert(net("10.2.0.0/24"));
    });
    announce(&store, 2, &said(2));
    world.boot();
    assert_eq!(routes(&world), [direct(2)[1]]);
    let shown = view(&world);
    assert!(shown.troubles.contains_key("10.2.0.0/24"), "{shown:?}");
    assert!(shown.last_error.is_some());
    // It went.
    world.kernel.tamper(|state| state.routing.foreign.clear());
    world.advance(MINUTE);
    assert_eq!(routes(&world), direct(2));
    assert_eq!(view(&world).last_error, None);
}

/// A node that hears of another one while its agent is away and comes back in the other mode.
fn changing(from: RoutingMode) -> World {
    let (mut world, store) = town(from);
    announce(&store, 2, &said(2));
    world.boot();
    announce(&store, 3, &said(3));
    world.settings.routing = if from == TUNNEL { DIRECT } else { TUNNEL };
    world.crash();
    world
}

#[test]
fn killed_before_any_step_the_next_life_ends_at_the_same() {
    for mode in [TUNNEL, DIRECT] {
        let mut wanted = changing(mode);
        wanted.boot();
        let wanted = routing(&wanted);
        let mut nth = 0;
        loop {
            let mut world = changing(mode);
            world.fate.at(nth, Turn::Die);
            world.boot();
            world.advance(MINUTE);
            let died = world.fate.is_dead();
            world.restart();
            let ended = routing(&world);
            assert_eq!(ended.routes, wanted.routes, "killed before step {nth}");
            assert_eq!(ended.devices, wanted.devices, "killed before step {nth}");
            assert_eq!(ended.tunnel, wanted.tunnel, "killed before step {nth}");
            if !died {
                break;
            }
            nth += 1;
        }
        assert!(nth > 10, "{nth} steps");
    }
}

#[test]
fn a_step_that_fails_is_tried_again() {
    let (mut world, store) = town(TUNNEL);
    announce(&store, 2, &said(2));
    let mut failing: Vec<_> =
        ["ReadRouting", "MakeOverlay", "PrepareDevice", "SetTunnel", "PutNodeRoute"].into();
    world.fate.is(move |step| match failing.iter().position(|name| *name == step) {
        Some(at) => {
            failing.swap_remove(at);
            Turn::Fail
        }
        None => Turn::Work,
    });
    world.boot();
    assert!(view(&world).last_error.is_some());
    world.advance(MINUTE);
    assert_eq!(routes(&world).len(), 2);
    assert_eq!(view(&world).last_error, None);
}

#[test]
fn a_crash_forgets_no_node() {
    let (mut world, store) = town(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    world.colony().routes.tell(RoutesMsg::Show(crash())).unwrap();
    world.kernel.tamper(|state| state.routing.routes.clear());
    world.settle();
    world.advance(MINUTE);
    assert_eq!(routes(&world), direct(2));
    assert_eq!(view(&world).nodes, 1);
}
