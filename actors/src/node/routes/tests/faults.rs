//! Tests: steps fail, the agent dies or crashes, and somebody else changes the node's routes.

use std::time::Duration;

use super::fixture::{
    DIRECT, TUNNEL, announce, direct, fixture, net, routes, routing, said, steps, view,
};
use crate::{
    cluster::kvstore::NODES,
    model::NodeFacts,
    node::routes::{RoutesMsg, RoutingMode},
    ports::OVERLAY,
    testing::{Turn, World, crash},
};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_route_of_somebody_else_is_left_and_holds_nothing_back() {
    let (mut world, store) = fixture(DIRECT);
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

#[test]
fn what_somebody_removes_is_back_as_soon_as_the_kernel_says_so_but_not_without_end() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let expected = routing(&world);
    assert!(!expected.routes.is_empty());
    let disturb = |world: &World| {
        world.node_supervisor().routes.tell(RoutesMsg::Disturbed).unwrap();
        world.settle();
    };
    world.kernel.tamper(|state| state.routing.routes.clear());
    disturb(&world);
    assert_eq!(routing(&world).routes, expected.routes);
    world.kernel.tamper(|state| {
        state.routing.rules.values_mut().for_each(|rules| rules.priorities.clear());
    });
    disturb(&world);
    assert_eq!(routing(&world).rules, expected.rules);
    // News of its own doing have nothing done.
    let written = steps(&world).len();
    (0..50).for_each(|_| disturb(&world));
    assert_eq!(steps(&world).len(), written);
    let mut repaired = 0;
    for _ in 0..300 {
        world.kernel.tamper(|state| state.routing.routes.clear());
        disturb(&world);
        repaired += u32::from(!routing(&world).routes.is_empty());
        world.advance(Duration::from_millis(100));
    }
    assert!((8..=16).contains(&repaired), "{repaired}");
    world.advance(Duration::from_secs(10));
    assert_eq!(routing(&world).routes, expected.routes);
}

#[test]
fn a_node_that_moves_has_tunnels_of_its_new_size_and_says_where_it_is() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let addresses = ["192.0.2.77", "2001:db8::1"].map(|it| it.parse().unwrap());
    let addresses = addresses.into_iter().collect();
    world.node_supervisor().node_is(&NodeFacts { addresses, mtu: 1400, trouble: None });
    world.settle();
    let links = routing(&world).links;
    let overlay = routing(&world).devices[OVERLAY].ifindex;
    assert_eq!(links[&overlay].mtu, 1400);
    let reported = store.get(&format!("{NODES}default/here")).expect("the node is announced");
    assert!(reported.contains("192.0.2.77") && !reported.contains("\"192.0.2.1\""), "{reported}");
}

/// A node that hears of another one while its agent is away and comes back in the other mode.
fn changing(from: RoutingMode) -> World {
    let (mut world, store) = fixture(from);
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
        let mut expected = changing(mode);
        expected.boot();
        let expected = routing(&expected);
        let mut nth = 0;
        loop {
            let mut world = changing(mode);
            world.fate.at(nth, Turn::Die);
            world.boot();
            world.advance(MINUTE);
            let died = world.fate.is_dead();
            world.restart();
            let ended = routing(&world);
            assert_eq!(ended.routes, expected.routes, "killed before step {nth}");
            assert_eq!(ended.devices, expected.devices, "killed before step {nth}");
            assert_eq!(ended.tunnel, expected.tunnel, "killed before step {nth}");
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
    let (mut world, store) = fixture(TUNNEL);
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
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    world.node_supervisor().routes.tell(RoutesMsg::Show(crash())).unwrap();
    world.kernel.tamper(|state| state.routing.routes.clear());
    world.settle();
    world.advance(MINUTE);
    assert_eq!(routes(&world), direct(2));
    assert_eq!(view(&world).nodes, 1);
}
