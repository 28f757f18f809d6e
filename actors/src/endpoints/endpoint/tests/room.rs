//! A policy map that has no room: what is taken away is so at once, what is added waits, and nobody
//! else waits.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use crate::{
    endpoints::{endpoint::EndpointView, supervisor::EndpointsMsg},
    model::{Direction, EndpointId, IdentityId},
    policy::rules::{PolicyMsg, lookup},
    testing::{World, allow_from, pod, spec},
};

const TCP: u8 = 6;
const ROOM: usize = 8;
const WEB: EndpointId = EndpointId(1);
const OTHER: EndpointId = EndpointId(3);

/// A node whose policy maps have room for eight rows: web lets db in.
fn crowded() -> World {
    let mut world = World::off();
    world.settings.policy.rows_max = ROOM as u32;
    world.kernel.tamper(|state| state.policy_rows_max = Some(ROOM));
    world.manifests.insert("policy".to_owned(), vec![allow_from("web", from("db"))]);
    world.manifests.insert("pods".to_owned(), vec![pod(1, "web"), pod(2, "db"), pod(3, "mail")]);
    world.boot();
    world.advance(Duration::from_secs(1));
    for number in [1, 2, 3] {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    world
}

fn from(app: &str) -> Value {
    json!({ "fromEndpoints": [{ "matchLabels": { "app": app } }] })
}

/// Of five prefixes, three ports of each.
fn too_much() -> Value {
    let prefixes: Vec<_> = (0..5).map(|n| format!("192.0.{n}.0/24")).collect();
    let ports: Vec<_> =
        [80, 443, 8080].map(|port| json!({ "port": port.to_string(), "protocol": "TCP" })).into();
    json!({ "fromCIDR": prefixes, "toPorts": [{ "ports": ports }] })
}

fn passes(world: &World, to: u32, from: IdentityId) -> bool {
    let state = world.kernel.state();
    let rows = state.policy_of(to).expect("it has a policy");
    lookup(rows, Direction::Ingress, from, TCP, 80).passes()
}

fn identity(world: &World, number: u16) -> IdentityId {
    world.get(EndpointId(number)).identity
}

fn newest(world: &World) -> u64 {
    world.ask(&world.node_supervisor().policy, PolicyMsg::Written).revision
}

fn revision(world: &World, id: EndpointId) -> u64 {
    world.get(id).realised.whole_revision
}

#[test]
fn a_full_map_takes_away_at_once_adds_later_and_holds_up_nobody() {
    let mut world = crowded();
    let (db, mail) = (identity(&world, 2), identity(&world, 3));
    assert!(passes(&world, 101, db) && !passes(&world, 101, mail));
    world.apply("big", [allow_from("web", too_much())]);
    let web: std::sync::Arc<EndpointView> = world.get(WEB);
    assert!(web.short && web.failing && !web.refused && web.api_state() == "not-ready");
    assert!(web.last_error.as_ref().unwrap().contains("has room for 8"), "{:?}", web.last_error);
    assert!(passes(&world, 101, db), "what was before serves on");
    assert!(revision(&world, WEB) < newest(&world) && revision(&world, OTHER) == newest(&world));

    // Nobody waits: no time passes here.
    world.apply("mail", [allow_from("mail", from("web"))]);
    assert!(world.get(OTHER).realised.ingress_enforced && !passes(&world, 103, db));
    let waits = world.node_supervisor().host.with_waits(|waits| {
        waits.iter().map(|wait| wait.why.to_string()).filter(|why| why.contains("endpoint")).count()
    });
    assert_eq!(waits, 0);

    // Somebody more waits for room, somebody less does not.
    world.apply("more", [allow_from("web", from("mail"))]);
    assert!(!passes(&world, 101, mail));
    world.apply("policy", [allow_from("web", from("nobody"))]);
    assert!(!passes(&world, 101, db) && passes(&world, 101, IdentityId::HOST));
    let web = world.get(WEB);
    assert!(web.short, "what is added waits still");
    assert_eq!(Some(&*web.realised.policy), world.kernel.state().policy_of(101));
    world.apply("big", []);
    assert!(passes(&world, 101, mail) && world.all_ready());
    assert_eq!(revision(&world, WEB), newest(&world));
    world.advance(Duration::from_secs(120));
    world.audit();
}

#[test]
fn a_denial_that_has_no_room_takes_the_place_of_what_is_allowed() {
    let mut world = crowded();
    let db = identity(&world, 2);
    world.apply("policy", [allow_from("web", json!({ "fromEntities": ["all"] }))]);
    assert!(passes(&world, 101, db));
    let mut deny = allow_from("web", json!({ "fromEntities": ["all"] }));
    let mut denials: Vec<_> = (0..4)
        .map(|n| {
            let ports =
                [80, 81, 82].map(|port| json!({ "port": port.to_string(), "protocol": "TCP" }));
            json!({ "fromCIDR": [format!("192.0.{n}.0/24")], "toPorts": [{ "ports": ports }] })
        })
        .collect();
    denials.push(from("db"));
    deny["spec"]["ingressDeny"] = json!(denials);
    world.apply("policy", [deny]);
    let rows = world.kernel.state().policy_of(101).unwrap().clone();
    let web = world.get(WEB);
    assert!(web.short && !passes(&world, 101, db), "{rows:?} {:?} {}", web.last_error, web.state);
    assert!(rows.len() <= ROOM && passes(&world, 101, IdentityId::HOST), "{rows:?}");
}

#[test]
fn a_full_map_outlives_a_restart_and_opens_nothing_in_it() {
    let mut world = crowded();
    let (db, mail) = (identity(&world, 2), identity(&world, 3));
    world.apply("big", [allow_from("web", too_much())]);
    let seen = Rc::new(RefCell::new(0));
    let (count, watched) = (Rc::clone(&seen), [db, mail]);
    world.kernel.watch(move |state, _| {
        let rows = state.policy_of(101).expect("it always has a policy");
        let may = watched.map(|peer| lookup(rows, Direction::Ingress, peer, TCP, 80).passes());
        assert_eq!(may, [true, false]);
        *count.borrow_mut() += 1;
    });
    world.crash();
    world.start();
    world.advance(Duration::from_secs(30));
    assert!(world.get(WEB).short && world.get(OTHER).api_state() == "ready");
    // Those who wait for all to be restored do not wait for room.
    assert!(world.report().finished);
    world.apply("mail", [allow_from("mail", from("web"))]);
    assert!(!passes(&world, 103, db));
}

#[test]
fn whoever_is_not_touched_has_the_newest_revision_without_a_write() {
    let mut world = crowded();
    let files = Rc::new(RefCell::new(0));
    let count = Rc::clone(&files);
    world.disk.watch(move |_| *count.borrow_mut() += 1);
    let before = world.get(EndpointId(2)).counts.builds;
    for app in ["nobody", "mail", "db"] {
        world.apply("policy", [allow_from("web", from(app))]);
        let all = [WEB, EndpointId(2), OTHER].map(|id| revision(&world, id));
        assert_eq!(all, [newest(&world); 3]);
    }
    // An identity that comes, and goes, is a revision as well.
    world.node_supervisor().policy.tell(PolicyMsg::Forget(IdentityId(9999))).unwrap();
    world.settle();
    assert_eq!(revision(&world, OTHER), newest(&world));
    assert_eq!((*files.borrow(), world.get(EndpointId(2)).counts.builds), (0, before));
    // A crash of the supervisor forgets none of it.
    world.node_supervisor().host.poison(world.node_supervisor().endpoints.id());
    let _ = world.try_ask(&world.node_supervisor().endpoints, EndpointsMsg::Regenerations);
    world.advance(Duration::from_secs(1));
    assert_eq!(revision(&world, OTHER), newest(&world));
}
