//! Tests: endpoints and their supervisor survive a crash of any actor and leave nothing behind.

use std::{sync::Arc, time::Duration};

use crate::{
    endpoints::{
        build_queue::BuildQueueMsg,
        endpoint::Level,
        ipam::IpamMsg,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::EndpointId,
    policy::{identity::IdentityMsg, ipcache::IpcacheMsg, rules::PolicyMsg},
    testing::{Residue, World, crash, pod, spec},
};

const ID: EndpointId = EndpointId(1);

fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

/// A question that makes the endpoint panic in the middle of its answer.
fn crash_endpoint() -> EndpointsMsg {
    EndpointsMsg::Regenerate {
        target: EndpointReference::Id(ID),
        level: Level::Load,
        reason: Arc::from("a test"),
        reply: crash(),
    }
}

#[test]
fn a_crashed_endpoint_comes_back_as_it_was() {
    let world = node();
    let before = Residue::of(&world);
    let view = world.get(ID);
    for _ in 0..10 {
        world.node_supervisor().endpoints.tell(crash_endpoint()).unwrap();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready());
        let now = world.get(ID);
        assert_eq!((now.identity, &now.spec), (view.identity, &view.spec));
        Residue::assert_same(&world, &before, "a crash");
    }
    assert!(world.node_supervisor().host.cells().iter().any(|cell| cell.crashes == 10));
    world.audit();
}

#[test]
fn an_endpoint_that_crashes_while_it_goes_goes_on_going() {
    let world = World::new();
    let before = Residue::of(&world);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world.kernel.hold(true);
    let target = EndpointReference::Id(ID);
    drop(
        world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Delete {
            target,
            reply,
        }),
    );
    world.settle();
    // It is told NotFound, and that panics.
    world.node_supervisor().endpoints.tell(crash_endpoint()).unwrap();
    world.settle();
    assert!(world.node_supervisor().host.cells().iter().any(|cell| cell.crashes == 1));
    world.kernel.hold(false);
    world.advance(Duration::from_secs(60));
    Residue::assert_same(&world, &before, "a crash while it goes");
}

#[test]
fn endpoints_stay_manageable_when_supervisors_crash() {
    for victim in 0..7 {
        let world = node();
        let node_supervisor = world.node_supervisor();
        let labels = Default::default();
        let mut made = world.begin_create(spec(2));
        // In the middle of a creation.
        for _ in 0..20 {
            let universe = &world.life().universe;
            let _ = universe.step(0) || world.kernel.step(0) || world.disk.step();
        }
        match victim {
            0 => node_supervisor
                .endpoints
                .tell(EndpointsMsg::List { labels, reply: crash() })
                .unwrap(),
            1 => node_supervisor.ipam.tell(IpamMsg::Dump(crash())).unwrap(),
            2 => node_supervisor.identities.tell(IdentityMsg::List(crash())).unwrap(),
            3 => node_supervisor.ipcache.tell(IpcacheMsg::List(crash())).unwrap(),
            4 => node_supervisor.policy.tell(PolicyMsg::Written(crash())).unwrap(),
            5 => node_supervisor.build_queue.tell(BuildQueueMsg::Show(crash())).unwrap(),
            _ => {
                let (namespace, pod) = ("ns".to_owned(), "pod-1".to_owned());
                let reply = crash();
                let uid = String::new();
                let msg = crate::endpoints::workloads::WorkloadsMsg::Describe {
                    namespace,
                    pod,
                    uid,
                    reply,
                };
                node_supervisor.workloads.tell(msg).unwrap();
            }
        }
        world.advance(Duration::from_secs(120));
        assert_eq!(node_supervisor.host.cells().iter().filter(|cell| cell.crashes > 0).count(), 1);
        if made.now().unwrap().is_ok_and(|made| made.is_ok()) {
            assert_eq!(world.list().len(), 2, "victim {victim}");
        }
        assert!(world.all_ready(), "victim {victim}");
        world.audit();
        for view in world.list() {
            assert_eq!(world.delete(EndpointReference::Id(view.id)), Some(0));
        }
        world.advance(Duration::from_secs(60));
        assert!(world.list().is_empty());
        world.create(spec(1)).unwrap();
        world.audit();
    }
}

#[test]
fn a_creation_survives_a_crash_of_the_supervisor_at_any_moment() {
    for moment in 0..12 {
        let world = World::new();
        let before = Residue::of(&world);
        let mut made = world.begin_create(spec(1));
        for _ in 0..moment {
            world.life().universe.step(0);
        }
        let labels = Default::default();
        world
            .node_supervisor()
            .endpoints
            .tell(EndpointsMsg::List { labels, reply: crash() })
            .unwrap();
        world.advance(Duration::from_secs(60));
        assert!(made.now().unwrap().unwrap().is_ok(), "{moment}");
        world.audit();
        world.delete(EndpointReference::Pod("ns/pod-1".into()));
        Residue::assert_same(&world, &before, moment);
    }
}
