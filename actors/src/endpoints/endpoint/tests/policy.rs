//! Tests: policy and identities change without a third verdict, and in the right order.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde_json::json;

use crate::{
    endpoints::{
        endpoint::EndpointState,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    host::{Answer, CellId},
    model::{Direction, IdentityId, PolicyRows},
    policy::{
        identity::Identity,
        rules::{PolicyMsg, lookup},
    },
    testing::{World, allow_from, pod, spec},
};

const TCP: u8 = 6;

/// What packets of all kinds meet at an endpoint's policy.
fn verdicts(rows: &PolicyRows, peers: &[IdentityId]) -> Vec<bool> {
    let ways = [Direction::Ingress, Direction::Egress];
    let packets = peers.iter().flat_map(|&peer| {
        ways.into_iter().flat_map(move |way| [80, 443, 53].map(|port| (way, peer, port)))
    });
    packets.map(|(way, peer, port)| lookup(rows, way, peer, TCP, port).passes()).collect()
}

/// Applies one policy after the other to a node with three pods; at every step in the kernel each
/// packet must meet the verdict that it had before the change or the one it has after it.
#[test]
fn no_packet_meets_a_third_verdict_while_policy_changes() {
    let from = |app: &str| json!([{ "matchLabels": { "app": app } }]);
    let port = |port: &str| json!([{ "ports": [{ "port": port, "protocol": "TCP" }] }]);
    let policies = [
        json!({ "fromEndpoints": from("db") }),
        json!({ "fromEndpoints": from("db"), "toPorts": port("80") }),
        json!({ "fromEndpoints": from("mail"), "toPorts": port("443") }),
        json!({ "fromEntities": ["world"] }),
        json!({ "fromCIDR": ["192.0.2.0/24"], "toPorts": port("80") }),
        json!({ "fromEndpoints": from("db"), "toPorts": port("53") }),
    ];
    let mut flips = BTreeSet::new();
    for before in &policies {
        for after in &policies {
            let mut world = World::new();
            world.apply("pods", [pod(1, "web"), pod(2, "db"), pod(3, "mail")]);
            world.apply("policy", [allow_from("web", before.clone())]);
            for number in [1, 2, 3] {
                world.create(spec(number)).unwrap();
            }
            let mut peers: Vec<IdentityId> =
                world.list().iter().map(|view| view.identity).collect();
            peers.push(IdentityId::WORLD_IPV4);
            let old = verdicts(world.kernel.state().policy_of(101).unwrap(), &peers);
            let seen = Rc::new(RefCell::new(Vec::new()));
            let (eye, probes) = (Rc::clone(&seen), peers.clone());
            world.kernel.watch(move |state, op| {
                let rows = state.policy_of(101).expect("it always has a policy");
                eye.borrow_mut().push((op.name(), verdicts(rows, &probes)));
            });
            world.apply("policy", [allow_from("web", after.clone())]);
            let new = verdicts(world.kernel.state().policy_of(101).unwrap(), &peers);
            assert!(before == after || old != new, "{before} to {after} changes nothing");
            for (step, verdicts) in seen.borrow().iter() {
                let mut packets = verdicts.iter().zip(old.iter().zip(&new));
                let known = packets.all(|(verdict, (old, new))| verdict == old || verdict == new);
                assert!(known, "{before} to {after}: {step}");
            }
            flips.extend(seen.borrow().iter().map(|(step, _)| *step));
            world.audit();
        }
    }
    // Both ways of changing a policy were tried.
    assert!(flips.contains("FlipPolicy") && flips.contains("PutPolicyRow"), "{flips:?}");
}

#[test]
fn c_38998_a_policy_change_that_fails_at_any_step_is_made_all_the_same() {
    use crate::testing::Turn;
    let old = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    let new = json!({ "fromCIDR": ["192.0.2.0/24"] });
    for nth in 0..40 {
        let mut world = World::new();
        world.apply("pods", [pod(1, "web"), pod(2, "db")]);
        world.apply("policy", [allow_from("web", old.clone())]);
        world.create(spec(1)).unwrap();
        world.create(spec(2)).unwrap();
        world.fate.at(nth, Turn::Fail);
        world.apply("policy", [allow_from("web", new.clone())]);
        // Back again, before the failure is mended, and forth.
        if nth % 2 == 1 {
            world.apply("policy", [allow_from("web", old.clone())]);
            world.apply("policy", [allow_from("web", new.clone())]);
        }
        world.advance(Duration::from_secs(120));
        assert!(world.all_ready(), "step {nth}");
        world.audit();
    }
}

#[test]
fn an_endpoint_made_while_policy_changes_has_the_new_policy() {
    // However far the creation is when the change comes.
    for moment in 0..120 {
        let mut world = World::new();
        world.apply("pods", [pod(1, "web"), pod(2, "db")]);
        let mut created = world.begin_create(spec(1));
        for _ in 0..moment {
            let universe = &world.life().universe;
            let _ = universe.step(0) || world.kernel.step(0) || world.disk.step();
        }
        let nobody = json!({ "fromEndpoints": [{ "matchLabels": { "app": "nobody" } }] });
        world.apply("policy", [allow_from("web", nobody)]);
        world.advance(Duration::from_secs(1));
        assert!(created.now().unwrap().unwrap().is_ok());
        assert!(world.get(crate::model::EndpointId(1)).realised.ingress_enforced, "{moment}");
        world.audit();
    }
}

#[test]
fn everyone_knows_an_identity_before_an_address_has_it() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db"), pod(3, "db")]);
    let from = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    world.apply("policy", [allow_from("web", from)]);
    world.create(spec(1)).unwrap();
    let met = Rc::new(RefCell::new(0));
    let count = Rc::clone(&met);
    world.kernel.watch(move |state, _| {
        let rows = state.policy_of(101).expect("it always has a policy");
        for number in [2, 3] {
            let address = spec(number).addresses.iter().next().unwrap();
            if let Some(row) = state.rows.ipcache.get(&address.into()) {
                assert!(lookup(rows, Direction::Ingress, row.identity, TCP, 80).passes());
                *count.borrow_mut() += 1;
            }
        }
    });
    // Two at once with one identity: the second finds it known, but not yet to everyone.
    let mut first = world.begin_create(spec(2));
    let mut second = world.begin_create(spec(3));
    world.settle();
    assert!(first.now().unwrap().unwrap().is_ok() && second.now().unwrap().unwrap().is_ok());
    assert!(*met.borrow() > 0);
    world.audit();
}

/// A node whose web pod lets db in, and an identity of db that nobody has yet.
fn web_and_a_db_to_come() -> (World, Identity) {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    let from = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    world.apply("policy", [allow_from("web", from)]);
    world.create(spec(1)).unwrap();
    let web = Arc::clone(&world.list()[0].identity_labels);
    let labels = web.iter().cloned().map(|mut label| {
        if label.key == "app" {
            label.value = "db".to_owned();
        }
        label
    });
    let labels = Arc::new(labels.collect());
    (world, Identity { id: IdentityId(300), labels, prefix: None, references: 0 })
}

/// Asks for the identity to be learned, while all but the kernel goes on.
fn learn_without_kernel(world: &World, identity: Identity) -> Answer<u64> {
    let (identities, identity_users) = (vec![identity], Vec::new());
    let learned = world.pose(&world.node_supervisor().policy, |reply| PolicyMsg::Learn {
        identities,
        identity_users,
        reply,
    });
    while world.life().universe.step(0) || world.disk.step() {}
    learned
}

#[test]
fn nobody_goes_on_with_an_identity_of_another_node_before_everyone_knows_it() {
    let (world, db) = web_and_a_db_to_come();
    let identities = vec![db.clone()];
    let mut acquainted = world.pose(&world.node_supervisor().policy, |reply| PolicyMsg::Acquaint {
        identities,
        named_ports: BTreeMap::new(),
        reply,
    });
    let mut learned = learn_without_kernel(&world, db);
    assert!(learned.now().is_none() && acquainted.now().is_none());
    world.settle();
    assert!(learned.now().is_some() && acquainted.now().is_some());
    let rows = world.kernel.state().policy_of(101).unwrap().clone();
    assert!(lookup(&rows, Direction::Ingress, IdentityId(300), TCP, 80).passes());
}

#[test]
fn nobody_goes_on_with_an_identity_while_rules_that_name_it_are_just_being_replaced() {
    let (mut world, db) = web_and_a_db_to_come();
    world.manifests.insert("policy".to_owned(), Vec::new());
    world.tell_manifests(&["policy".to_owned()]);
    while world.life().universe.step(0) || world.disk.step() {}
    let mut learned = learn_without_kernel(&world, db);
    // Web still drops whom its old rules do not know.
    let rows = world.kernel.state().policy_of(101).unwrap().clone();
    assert!(!lookup(&rows, Direction::Ingress, IdentityId(300), TCP, 80).passes());
    assert!(learned.now().is_none());
    world.settle();
    assert!(learned.now().is_some());
    let rows = world.kernel.state().policy_of(101).unwrap().clone();
    assert!(lookup(&rows, Direction::Ingress, IdentityId(300), TCP, 80).passes());
}

#[test]
fn a_prefix_that_could_not_go_goes_also_if_the_owner_of_the_rules_crashed_meanwhile() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    world.apply("policy", [allow_from("web", json!({ "fromCIDR": ["192.0.2.0/24"] }))]);
    world.create(spec(1)).unwrap();
    let prefix = "192.0.2.0/24".parse().unwrap();
    let is_mapped = |world: &World| world.kernel.state().rows.ipcache.contains_key(&prefix);
    assert!(is_mapped(&world));
    // The kernel stands still: after a while nobody waits any more for the endpoint to enforce it.
    world.kernel.hold(true);
    world.apply("policy", []);
    world.advance(Duration::from_secs(31));
    world.node_supervisor().host.poison(world.node_supervisor().policy.id());
    world.apply("other", []);
    world.kernel.hold(false);
    world.advance(Duration::from_secs(90));
    assert!(!is_mapped(&world));
    world.audit();
}

#[test]
fn endpoints_that_get_other_labels_at_once_know_each_other_all_the_while() {
    for seed in 0..60_usize {
        let mut world = World::new();
        let from = json!({ "fromEndpoints": [{ "matchExpressions": [{
            "key": "app", "operator": "In", "values": ["web", "db", "mail"],
        }] }] });
        world.apply("policy", [allow_from("web", from)]);
        world.apply("pods", [pod(1, "web"), pod(2, "web")]);
        world.create(spec(1)).unwrap();
        world.create(spec(2)).unwrap();
        let identities = Rc::new(RefCell::new(BTreeSet::new()));
        let seen = Rc::clone(&identities);
        world.kernel.watch(move |state, op| {
            for (own, other) in [(101, 102), (102, 101)] {
                let rows = state.policy_of(own).expect("it always has a policy");
                let identity = state.rows.config[&other].identity;
                let verdict = lookup(rows, Direction::Ingress, identity, TCP, 80);
                assert!(verdict.passes(), "{seed}, {}: {own} drops {other}, {identity}", op.name());
                seen.borrow_mut().insert(identity);
            }
        });
        world.manifests.insert("pods".to_owned(), vec![pod(1, "db"), pod(2, "mail")]);
        world.tell_manifests(&["pods".to_owned()]);
        // In another order each time.
        for step in 0..400 {
            let turn = seed.wrapping_mul(step + 7).wrapping_mul(2_654_435_761) >> 16;
            let universe = &world.life().universe;
            let _ = match turn % 3 {
                0 => world.kernel.step(0),
                1 => world.disk.step(),
                _ => universe.step(turn / 3 % 4) || universe.step(0),
            };
        }
        world.advance(Duration::from_secs(1));
        assert_eq!(identities.borrow().len(), 3);
        world.audit();
    }
}

#[test]
fn rows_of_an_identity_go_with_its_last_endpoint() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db"), pod(3, "db")]);
    let from = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    world.apply("policy", [allow_from("web", from)]);
    world.create(spec(1)).unwrap();
    let without = world.kernel.state().policy_of(101).unwrap().clone();
    for number in [2, 3] {
        world.create(spec(number)).unwrap();
    }
    let with = world.kernel.state().policy_of(101).unwrap().clone();
    assert_ne!(with, without);
    let delete = |world: &World, number: u8| {
        world.delete(EndpointReference::Pod(format!("ns/pod-{number}")));
    };
    delete(&world, 2);
    assert_eq!(*world.kernel.state().policy_of(101).unwrap(), with);
    delete(&world, 3);
    assert_eq!(*world.kernel.state().policy_of(101).unwrap(), without);
    world.create(spec(2)).unwrap();
    assert_eq!(*world.kernel.state().policy_of(101).unwrap(), with);
    world.audit();
}

/// An endpoint that comes back has asked for its policy before, and hears of nothing that is its own.
#[test]
fn an_identity_that_no_policy_names_waits_for_no_change_of_endpoints_that_come_back() {
    let (mut world, stranger) = web_and_a_db_to_come();
    world.crash();
    world.manifests.insert("policy".to_owned(), Vec::new());
    world.start();
    world.kernel.hold(true);
    world.settle();
    let labels = stranger.labels.iter().filter(|label| label.key != "app").cloned().collect();
    let identities = vec![Identity { labels: Arc::new(labels), ..stranger }];
    let mut acquainted = world.pose(&world.node_supervisor().policy, |reply| PolicyMsg::Acquaint {
        identities,
        named_ports: BTreeMap::new(),
        reply,
    });
    world.settle();
    // Its policy of the run before may be another one.
    assert!(acquainted.now().is_none());
    world.kernel.hold(false);
    world.settle();
    assert_eq!(acquainted.now(), Some(Ok(())));
}

/// What the owner of the policy handled so far.
fn handled_by_policy(world: &World) -> u64 {
    let cells = world.node_supervisor().host.cells();
    cells.iter().find(|cell| cell.name == "policy").expect("it lives").handled
}

#[test]
fn a_change_comes_with_the_policy_and_is_shown_while_it_is_made() {
    let (world, db) = web_and_a_db_to_come();
    let before = handled_by_policy(&world);
    world.kernel.hold(true);
    let mut learned = learn_without_kernel(&world, db);
    assert_eq!(world.list()[0].state, EndpointState::WaitingToRegenerate);
    world.kernel.hold(false);
    world.settle();
    assert_eq!(world.list()[0].state, EndpointState::Ready);
    assert!(matches!(learned.now(), Some(Ok(_))));
    // What it was told, and that all know it; nobody asked.
    assert_eq!(handled_by_policy(&world), before + 2);
    let rows = world.kernel.state().policy_of(101).unwrap().clone();
    assert!(lookup(&rows, Direction::Ingress, IdentityId(300), TCP, 80).passes());
    world.audit();
}

/// A change waits in the endpoint's mailbox until it has heard of a newer one by asking.
#[test]
fn a_change_that_comes_late_does_not_bring_an_older_policy_back() {
    let (world, db) = web_and_a_db_to_come();
    let cell = |name: &str| {
        let cells = world.node_supervisor().host.cells();
        let is_it = |it: &str| it == name || it.starts_with(&format!("{name} ("));
        let found = cells.into_iter().find(|cell| is_it(&cell.name));
        found.expect("it lives")
    };
    let (endpoint, endpoints) = (cell("endpoint 1").id, cell("endpoints").id);
    let universe = &world.life().universe;
    let step = |cell| {
        let nth = universe.runnable().iter().position(|id| *id == cell);
        assert!(nth.is_some_and(|nth| universe.step(nth)), "it has nothing to do");
    };
    let step_all_but = |but: &[CellId]| loop {
        let nth = universe.runnable().iter().position(|id| !but.contains(id));
        let stepped = nth.is_some_and(|nth| universe.step(nth));
        if !stepped && !world.disk.step() && !world.kernel.step(0) {
            break;
        }
    };
    let _learned = world.pose(&world.node_supervisor().policy, |reply| PolicyMsg::Learn {
        identities: vec![db],
        identity_users: Vec::new(),
        reply,
    });
    step_all_but(&[endpoint]);
    assert_eq!(cell("endpoint 1").waiting, 1);
    world.node_supervisor().policy.tell(PolicyMsg::Forget(IdentityId(300))).unwrap();
    step_all_but(&[endpoint, endpoints]);
    // What somebody asks for comes before changes, both times.
    let (target, patch) = (EndpointReference::Pod("ns/pod-1".to_owned()), Box::default());
    let mut patched = world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Patch {
        target,
        patch,
        reply,
    });
    step(endpoints);
    while patched.now().is_none() {
        step(endpoint);
        while cell("endpoint 1").waiting < 2 && patched.now().is_none() {
            step_all_but(&[endpoint, endpoints]);
        }
    }
    assert_eq!(cell("endpoint 1").waiting, 1);
    world.kernel.watch(|_, op| panic!("{op:?} is done"));
    world.settle();
    world.audit();
}
