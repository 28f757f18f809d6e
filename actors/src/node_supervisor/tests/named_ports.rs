//! Ports that policies call by name, from the pod's manifest to the rows of policy maps.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    model::{Direction, EndpointId, IdentityId},
    policy::rules::PolicyMsg,
    ports::{FsOp, KernelOp},
    restore::RestoreOutcome,
    testing::{World, pod, spec, with_http},
};

/// `web` may be reached at `http`, and may reach `db` at `http`.
fn policy() -> Value {
    let ports = json!([{ "ports": [{ "port": "http", "protocol": "TCP" }] }]);
    let db = json!([{ "matchLabels": { "app": "db" } }]);
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "for-web", "namespace": "ns" },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "web" } },
            "ingress": [{ "toPorts": ports }],
            "egress": [{ "toEndpoints": db, "toPorts": ports }],
        },
    })
}

/// A node on which `web` (1) and two of `db` (2, 3) call different ports `http`.
fn node() -> World {
    let mut world = World::new();
    world.apply("policy", [policy()]);
    world.apply("pods", [with_http(1, "web", 80), with_http(2, "db", 81), with_http(3, "db", 82)]);
    for number in [1, 2, 3] {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    world
}

/// Direction, peer and port of the rows that packets of `web` meet and that name a port.
fn rows(world: &World) -> Vec<(Direction, u32, u16)> {
    let state = world.kernel.state();
    let rows = state.policy_of(101).unwrap().keys().filter(|key| key.bits == 24);
    rows.map(|key| (key.direction, key.identity.0, key.port)).collect()
}

fn identity(world: &World, number: u16) -> IdentityId {
    let views = world.list();
    let pod = format!("pod-{number}");
    views.iter().find(|view| view.spec.pod_name == pod).unwrap().identity
}

fn unresolved(world: &World) -> Vec<String> {
    let endpoints = world.list().iter().map(|view| view.subject()).collect();
    let view =
        world.ask(&world.node_supervisor().policy, |reply| PolicyMsg::Show { endpoints, reply });
    view.policies[0].unresolved_ports.iter().map(|port| port.path.clone()).collect()
}

#[test]
fn rows_follow_the_ports_of_the_pod_and_of_each_peer() {
    let mut world = node();
    let db = identity(&world, 2).0;
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);
    assert_eq!(rows(&world), [(ingress, 0, 80), (egress, db, 81), (egress, db, 82)]);
    assert_eq!(unresolved(&world), [""; 0]);

    // Ports of a peer change, and its own.
    world.apply("pods", [with_http(1, "web", 90), with_http(2, "db", 91), with_http(3, "db", 82)]);
    assert_eq!(rows(&world), [(ingress, 0, 90), (egress, db, 82), (egress, db, 91)]);
    world.audit();

    // A peer becomes another.
    world
        .apply("pods", [with_http(1, "web", 90), with_http(2, "mail", 91), with_http(3, "db", 82)]);
    world.advance(Duration::from_secs(1));
    assert_eq!(rows(&world), [(ingress, 0, 90), (egress, db, 82)]);

    // The last of them has no such port any more, and then no port at all.
    world.apply("pods", [with_http(1, "web", 90), with_http(2, "mail", 91), pod(3, "db")]);
    assert_eq!(rows(&world), [(ingress, 0, 90)]);
    assert_eq!(unresolved(&world), ["spec.egress[0]"]);
    world.apply("pods", [pod(1, "web"), pod(2, "mail"), pod(3, "db")]);
    assert_eq!(rows(&world), []);
    assert_eq!(unresolved(&world), ["spec.egress[0]", "spec.ingress[0]"]);
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn a_deleted_endpoint_takes_the_names_of_its_ports_along() {
    let world = node();
    let db = identity(&world, 3).0;
    world.delete(crate::endpoints::supervisor::EndpointReference::Pod("ns/pod-2".into()));
    world.advance(Duration::from_secs(1));
    assert_eq!(rows(&world), [(Direction::Ingress, 0, 80), (Direction::Egress, db, 82)]);
    world.audit();
}

/// While a peer gets another identity, its packets may still carry the one before.
#[test]
fn a_peer_that_changes_its_identity_is_reached_at_every_moment() {
    let mut world = node();
    world.delete(crate::endpoints::supervisor::EndpointReference::Pod("ns/pod-3".into()));
    world.advance(Duration::from_secs(1));
    let address = spec(2).addresses.iter().next().unwrap();
    world.kernel.watch(move |state, _| {
        let peer = state.rows.ipcache[&address.into()].identity;
        let row = |key: &&crate::model::PolicyKey| key.identity == peer && key.port == 81;
        assert!(state.policy_of(101).unwrap().keys().any(|key| row(&key)), "{peer}");
    });
    let mut pod = with_http(2, "db", 81);
    pod["metadata"]["labels"]["tier"] = json!("back");
    let before = identity(&world, 2);
    world.apply("pods", [with_http(1, "web", 80), pod]);
    world.advance(Duration::from_secs(1));
    assert_ne!(identity(&world, 2), before);
    assert!(world.all_ready());
    world.audit();
}

#[test]
fn a_restart_takes_no_named_port_away() {
    // With its record; with what the kernel holds alone; after its manifest is gone.
    for lost in ["nothing", "records", "manifests"] {
        let mut world = node();
        let before = rows(&world);
        world.crash();
        match lost {
            "records" => {
                for id in 1..=3 {
                    world.disk.tamper(|files| {
                        files.apply(&FsOp::Remove(format!("{id}").into())).unwrap()
                    });
                }
            }
            "manifests" => drop(world.manifests.remove("pods")),
            _ => {}
        }
        let writes = world.kernel.writes().len();
        world.start();
        let retained = before.clone();
        world.kernel.watch(move |state, op| {
            let policy = state.policy_of(101).unwrap();
            let has = |row: &(Direction, u32, u16)| {
                policy.keys().any(|key| (key.direction, key.identity.0, key.port) == *row)
            };
            assert!(retained.iter().all(has), "{op:?}");
        });
        world.settle();
        world.advance(Duration::from_secs(60));
        assert_eq!(rows(&world), before, "{lost}");
        assert!(world.all_ready() && world.report().finished);
        let fate =
            if lost == "records" { RestoreOutcome::Rebuilt } else { RestoreOutcome::Restored };
        assert_eq!(world.report().endpoints[&EndpointId(1)].fate, fate);
        let changes = |op: &&KernelOp| {
            matches!(
                op,
                KernelOp::PutPolicyRow { .. }
                    | KernelOp::DeletePolicyRow { .. }
                    | KernelOp::FlipPolicy { .. }
            )
        };
        assert_eq!(world.kernel.writes()[writes..].iter().filter(changes).count(), 0, "{lost}");
        world.audit();
    }
}
