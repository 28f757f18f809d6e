//! Restarts of a node with a host endpoint, and of one where it is switched on or off.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    endpoints::endpoint::EndpointView,
    model::{EndpointId, IdentityId, Label, Labels, Manifest, PolicyRows},
    policy::rules::{PolicyMsg, lookup},
    ports::{FsOp, HOST_DEVICE, HOST_IFINDEX},
    restore::RestoreOutcome,
    state_directory::{EndpointRecord, SecurityLabels, StateFiles},
    testing::{Residue, Turn, World, allow_to_nodes, node, pod, spec},
};

/// A node that is held to a policy, with a pod.
fn world() -> World {
    let mut world = World::off();
    world.settings.policy.host_firewall = true;
    world.apply("node", [node("worker")]);
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.apply("policy", [policy("web")]);
    world.boot();
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

fn policy(from: &str) -> Value {
    let endpoints = json!([{ "matchLabels": { "app": from } }]);
    match from {
        "world" => allow_to_nodes("worker", json!({ "fromCIDR": ["192.0.2.0/24"] })),
        _ => allow_to_nodes("worker", json!({ "fromEndpoints": endpoints })),
    }
}

fn host(world: &World) -> Arc<EndpointView> {
    let mut hosts: Vec<_> = world.list().into_iter().filter(|view| view.spec.is_host()).collect();
    assert_eq!(hosts.len(), 1);
    hosts.remove(0)
}

/// The policy that the node itself is held to; none if it is not.
fn enforced(world: &World) -> Option<PolicyRows> {
    world.kernel.with(|kernel| kernel.policy_of(HOST_IFINDEX).cloned())
}

fn record(world: &World, dir: EndpointId) -> EndpointRecord {
    let bytes = world.disk.files().read(&format!("{dir}/ep_config.json")).unwrap().unwrap();
    EndpointRecord::from_json("its record", &bytes).unwrap()
}

#[test]
fn a_restart_with_nothing_changed_writes_nothing() {
    let mut world = world();
    let (before, view) = ((world.kernel.state(), world.disk.files()), host(&world));
    let (writes, log) = (world.kernel.writes().len(), world.disk.log().len());
    world.restart();
    world.advance(Duration::from_secs(600));
    assert!(world.all_ready());
    assert_eq!(&world.kernel.writes()[writes..], []);
    assert_eq!(&world.disk.log()[log..], []);
    assert_eq!((world.kernel.state(), world.disk.files()), before);
    let report = world.report();
    assert_eq!(report.count(RestoreOutcome::Restored), 2);
    assert_eq!(report.problems, [""; 0]);
    let after = host(&world);
    assert_eq!((after.id, &after.identity_labels), (view.id, &view.identity_labels));
    world.audit();
}

#[test]
fn until_the_cluster_speaks_it_is_labelled_and_held_to_policy_as_before() {
    let mut world = world();
    let (before, view) = (enforced(&world).unwrap(), host(&world));
    world.crash();
    world.wake();
    world.advance(Duration::from_secs(30));
    assert_eq!(enforced(&world).as_ref(), Some(&before));
    assert_eq!(host(&world).identity_labels, view.identity_labels);
    // Policies come first, the Node later.
    world.tell_manifests(&["policy".to_owned()]);
    world.advance(Duration::from_secs(30));
    assert_eq!(enforced(&world).as_ref(), Some(&before));
    assert!(host(&world).realised.ingress_enforced);
    world.apply("node", [node("gateway")]);
    world.advance(Duration::from_secs(1));
    assert!(!host(&world).realised.ingress_enforced);
    world.audit();
}

#[test]
fn a_lost_record_is_rebuilt_from_the_kernel() {
    let mut world = world();
    let view = host(&world);
    for torn in [false, true] {
        world.crash();
        world.disk.tamper(|files| drop(files.apply(&FsOp::Remove(view.id.to_string().into()))));
        if torn {
            world.kernel.tamper(|kernel| {
                kernel.rows.endpoints.remove(&view.id);
                kernel.rows.torn_rows.push(view.id);
            });
        }
        world.boot();
        world.advance(Duration::from_secs(1));
        assert_eq!(host(&world).id, view.id);
        assert_eq!(host(&world).identity_labels, view.identity_labels);
        assert!(host(&world).realised.ingress_enforced);
        assert!(record(&world, view.id).labels.orchestration_identity.has_reserved("host"));
        world.kernel.tamper(|kernel| kernel.rows.torn_rows.clear());
        world.audit();
    }
}

#[test]
fn one_whose_labels_are_lost_keeps_its_policy_until_they_are_known() {
    for says in [true, false] {
        let mut world = world();
        let (before, view) = (enforced(&world), host(&world));
        world.crash();
        world.disk.tamper(|files| drop(files.apply(&FsOp::Remove(view.id.to_string().into()))));
        world.wake();
        let objects = Ok(world.manifests["policy"].iter().cloned().map(Into::into).collect());
        let manifests = vec![Manifest { source: "policy".to_owned(), objects }];
        world.node_supervisor().policy.tell(PolicyMsg::Manifests(manifests)).unwrap();
        world.advance(Duration::from_secs(60));
        assert_eq!(enforced(&world), before);
        assert_eq!(host(&world).realised.policy_revision, 0);
        assert_eq!((host(&world).id, world.all_ready()), (view.id, true));
        if !says {
            world.manifests.remove("node");
        }
        world.tell_manifests(&["node".to_owned(), "pods".to_owned()]);
        world.advance(Duration::from_secs(1));
        assert_eq!(host(&world).realised.ingress_enforced, says);
        world.audit();
    }
}

/// What another agent wrote of the node: its device has a number there, its labels are other ones.
fn of_another_agent(id: u16) -> EndpointRecord {
    let labels = [Label::new("reserved", "host", ""), Label::new("k8s", "role", "worker")];
    let labels = Labels::from_iter(labels);
    let security = SecurityLabels { id: IdentityId::HOST, labels: labels.clone() };
    let mut record = EndpointRecord { id: EndpointId(id), security, ..Default::default() };
    record.labels.orchestration_identity = labels;
    record.ifname = HOST_DEVICE.to_owned();
    record.ifindex = 3;
    record.ipv4 = "10.0.0.254".parse().ok();
    record
}

#[test]
fn the_directory_of_another_agent_is_taken_over() {
    let mut world = World::off();
    world.settings.policy.host_firewall = true;
    world.apply("policy", [policy("web")]);
    world.disk.tamper(|files| {
        files.write("2711/ep_config.json", &of_another_agent(2711).to_json());
        // As older ones wrote it.
        let unlabelled = EndpointRecord { id: EndpointId(9), ..of_another_agent(9) };
        let unlabelled = EndpointRecord {
            security: Default::default(),
            labels: Default::default(),
            ..unlabelled
        };
        files.write("9/ep_config.h", &unlabelled.to_header(&unlabelled.to_json()));
    });
    world.boot();
    world.advance(Duration::from_secs(1));
    let view = host(&world);
    assert_eq!(view.id, EndpointId(9), "of two that nothing speaks for, the lower one");
    assert!(world.disk.files().has("quarantine/2711.1"));

    let mut world = World::off();
    world.settings.policy.host_firewall = true;
    world.apply("policy", [policy("web")]);
    world.disk.tamper(|files| {
        files.write("2711/ep_config.json", &of_another_agent(2711).to_json());
    });
    world.boot();
    world.advance(Duration::from_secs(1));
    let view = host(&world);
    assert_eq!((view.id, view.identity), (EndpointId(2711), IdentityId::HOST));
    assert!(view.realised.ingress_enforced, "its labels are known before the cluster speaks");
    let ours = record(&world, view.id);
    assert_eq!((ours.ifname.as_str(), ours.ifindex, ours.ipv4), (HOST_DEVICE, 0, None));
    world.audit();
}

#[test]
fn switched_off_it_leaves_the_kernel_and_keeps_its_number() {
    let mut world = world();
    let view = host(&world);
    let dir = world.disk.files().read(&format!("{}/ep_config.json", view.id)).unwrap();
    world.crash();
    world.settings.policy.host_firewall = false;
    world.boot();
    world.advance(Duration::from_secs(120));
    assert!(!world.list().iter().any(|it| it.spec.is_host()));
    let left = Residue::of(&world);
    world.kernel.with(|kernel| {
        assert!(!kernel.rows.config.contains_key(&HOST_IFINDEX));
        assert!(!kernel.pins.contains_key(&view.id));
        assert!(!kernel.rows.endpoints.contains_key(&view.id));
        assert!([0, 1].iter().all(|parity| !kernel.slots.contains_key(&view.id.slot(*parity))));
    });
    assert_eq!(world.disk.files().read(&format!("{}/ep_config.json", view.id)).unwrap(), dir);
    let policies = world.ask(&world.node_supervisor().policy, |reply| {
        let endpoints = Vec::new();
        PolicyMsg::Show { endpoints, reply }
    });
    assert!(policies.policies.iter().any(|it| !it.unsupported.is_empty()));
    let number = crate::endpoints::endpoint::EndpointSpec { id: Some(view.id), ..spec(2) };
    assert!(world.create(number).is_err(), "its number is nobody else's");
    world.audit();
    // Neither does a further restart forget it.
    world.restart();
    world.advance(Duration::from_secs(120));
    Residue::assert_same(&world, &left, "a further restart");
    assert!(world.create(spec(2)).is_ok());

    world.crash();
    world.settings.policy.host_firewall = true;
    world.boot();
    world.advance(Duration::from_secs(120));
    let again = host(&world);
    assert_eq!((again.id, &again.identity_labels), (view.id, &view.identity_labels));
    assert!(again.realised.ingress_enforced);
    world.audit();
}

#[test]
fn it_is_left_as_it_is_where_nothing_is_restored() {
    let mut world = world();
    let (before, view) = (enforced(&world), host(&world));
    world.crash();
    world.restores = false;
    world.boot();
    world.advance(Duration::from_secs(120));
    assert!(world.list().is_empty());
    assert_eq!(enforced(&world), before);
    world.restores = true;
    world.restart();
    assert_eq!(host(&world).id, view.id);
}

#[test]
fn a_number_that_a_pod_took_meanwhile_is_the_pod_s() {
    let mut world = world();
    let pod = world.list().into_iter().find(|view| !view.spec.is_host()).unwrap().id;
    let view = host(&world);
    world.crash();
    // An agent that knew nothing of it gave its number away.
    world.disk.tamper(|files| drop(files.apply(&FsOp::Remove(view.id.to_string().into()))));
    world.kernel.tamper(|kernel| {
        kernel.rows.config.get_mut(&HOST_IFINDEX).unwrap().endpoint = pod;
        kernel.rows.endpoints.remove(&view.id);
        kernel.pins.remove(&view.id);
    });
    world.boot();
    world.advance(Duration::from_secs(120));
    assert!(world.all_ready() && host(&world).id != pod);
    assert_eq!(world.get(pod).spec.pod().as_deref(), Some("ns/pod-1"));
    world.kernel.with(|kernel| {
        assert_eq!(kernel.rows.config[&HOST_IFINDEX].endpoint, host(&world).id);
    });
}

/// Whether each packet meets a verdict that one of these policies gives.
fn is_between(policies: &[PolicyRows], now: &PolicyRows) -> bool {
    let all = policies.iter().chain([now]).flat_map(PolicyRows::keys);
    let all: BTreeSet<_> = all.map(|key| (key.direction, key.identity)).collect();
    all.into_iter().all(|(direction, peer)| {
        let verdict = |rows| lookup(rows, direction, peer, 6, 80).passes();
        policies.iter().any(|rows| verdict(rows) == verdict(now))
    })
}

/// Lets the agent die before the `nth` step of what is done to a node, for all n; then starts it
/// again. At each moment the node is held to one of the policies that `may_be` names, and in the end
/// it is as if nobody had died.
fn dies(what: impl Fn(&mut World), may_be: &[PolicyRows], check: impl Fn(&World), least: usize) {
    for nth in 0.. {
        let mut world = world();
        let view = host(&world);
        world.fate.at(nth, Turn::Die);
        what(&mut world);
        assert!(is_between(may_be, &enforced(&world).unwrap()), "step {nth}");
        let died = world.fate.is_dead();
        world.crash();
        let allowed = may_be.to_vec();
        world.kernel.watch(move |kernel, op| {
            let now = kernel.policy_of(HOST_IFINDEX).unwrap();
            assert!(is_between(&allowed, now), "step {nth}, {op:?}");
        });
        world.boot();
        world.advance(Duration::from_secs(120));
        assert!(world.all_ready() && world.report().finished, "step {nth}");
        assert_eq!(host(&world).id, view.id, "step {nth}");
        check(&world);
        world.audit();
        if !died {
            assert!(nth > least, "{nth}");
            return;
        }
    }
}

/// What the node is held to under that policy.
fn rows_of(policies: &[Value]) -> PolicyRows {
    let mut world = world();
    world.apply("policy", policies.to_vec());
    world.advance(Duration::from_secs(1));
    enforced(&world).unwrap()
}

#[test]
fn the_agent_may_die_at_any_step_of_a_change_of_its_policy() {
    let before = rows_of(&[policy("web")]);
    for next in ["db", "world"] {
        let after = rows_of(&[policy(next)]);
        let change = |world: &mut World| world.apply("policy", [policy(next)]);
        let is_new = |world: &World| assert_eq!(enforced(world).as_ref(), Some(&after));
        dies(change, &[before.clone(), after.clone()], is_new, 0);
    }
}

#[test]
fn the_agent_may_die_at_any_step_of_a_change_of_its_labels() {
    let (before, after) = (rows_of(&[policy("web")]), rows_of(&[]));
    let change = |world: &mut World| world.apply("node", [node("gateway")]);
    let is_new = |world: &World| assert_eq!(enforced(world).as_ref(), Some(&after));
    dies(change, &[before, after.clone()], is_new, 2);
}

#[test]
fn the_agent_may_die_at_any_step_of_a_restart() {
    for nth in 0.. {
        let mut world = world();
        let (before, view) = (enforced(&world), host(&world));
        world.crash();
        // A restart has something to do when something is missing.
        world.disk.tamper(|files| drop(files.apply(&FsOp::Remove(view.id.to_string().into()))));
        world.kernel.tamper(|kernel| {
            kernel.pins.clear();
            kernel.rows.endpoints.clear();
        });
        world.fate.at(nth, Turn::Die);
        world.boot();
        assert_eq!(enforced(&world), before, "step {nth}");
        let died = world.fate.is_dead();
        world.restart();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready() && host(&world).id == view.id, "step {nth}");
        assert_eq!(enforced(&world), before, "step {nth}");
        world.audit();
        if !died {
            assert!(nth > 5, "{nth}");
            return;
        }
    }
}

#[test]
fn the_agent_may_die_at_any_step_of_its_being_switched_on_and_off() {
    let rows = Some(rows_of(&[policy("web")]));
    for to in [false, true] {
        for nth in 0.. {
            let mut world = world();
            let id = host(&world).id;
            let switch = |world: &mut World, to: bool| {
                world.crash();
                world.settings.policy.host_firewall = to;
            };
            if to {
                switch(&mut world, false);
                world.boot();
                world.advance(Duration::from_secs(60));
                assert_eq!(enforced(&world), None);
            }
            switch(&mut world, to);
            world.fate.at(nth, Turn::Die);
            world.boot();
            let died = world.fate.is_dead();
            assert!([None, rows.clone()].contains(&enforced(&world)), "step {nth}");
            world.restart();
            world.advance(Duration::from_secs(120));
            assert!(world.all_ready() && world.report().finished, "step {nth}");
            assert_eq!(enforced(&world), rows.clone().filter(|_| to), "step {nth}");
            let hosts = world.list().into_iter().filter(|view| view.spec.is_host());
            assert_eq!(
                hosts.map(|view| view.id).collect::<Vec<_>>(),
                Vec::from_iter(to.then_some(id))
            );
            world.audit();
            if !died {
                assert!(nth > 4, "{nth}");
                break;
            }
        }
    }
}

#[test]
fn the_agent_may_die_at_any_step_of_its_first_start() {
    for nth in 0.. {
        let mut world = World::off();
        world.settings.policy.host_firewall = true;
        world.apply("node", [node("worker")]);
        world.apply("policy", [policy("web")]);
        world.fate.at(nth, Turn::Die);
        world.boot();
        let died = world.fate.is_dead();
        world.restart();
        world.advance(Duration::from_secs(120));
        assert!(world.all_ready() && host(&world).realised.ingress_enforced, "step {nth}");
        world.audit();
        if !died {
            assert!(nth > 5, "{nth}");
            return;
        }
    }
}
