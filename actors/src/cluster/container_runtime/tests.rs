//! Tests: who goes because its container is gone, who stays whatever the runtime says, and who learns its pod.

use std::time::Duration;

use super::{RuntimeFollowerMsg, RuntimeFollowerView};
use crate::{
    endpoints::{
        endpoint::EndpointSpec,
        supervisor::{Abandoned, EndpointReference, EndpointsMsg},
    },
    host::Reply,
    model::{EndpointId, Label},
    ports::{Link, RuntimeContainer},
    testing::{MemoryRuntime, Residue, World, crash, pod, spec},
};

const ID: EndpointId = EndpointId(1);

fn container(number: u8) -> String {
    spec(number).container_id
}

/// A node whose runtime has the sandboxes of these pods, and an agent without endpoints.
fn node(pods: &[u8]) -> (World, MemoryRuntime) {
    let runtime = MemoryRuntime::default();
    let mut world = World::off();
    world.runtime = Some(runtime.clone());
    // Nobody else looks for lost interfaces.
    world.settings.schedule.collect = Duration::ZERO;
    world.boot();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    advance(&world, 5);
    for &number in pods {
        world.create(spec(number)).unwrap();
        run(&runtime, number);
    }
    advance(&world, 20);
    assert!(world.all_ready());
    (world, runtime)
}

fn run(runtime: &MemoryRuntime, number: u8) {
    let (name, uid) = (format!("pod-{number}"), format!("uid-{number}"));
    runtime.run(&container(number), "ns", &name, &uid);
}

/// Time passes, and the runtime says now and then that it is there.
fn advance(world: &World, seconds: u64) {
    (0..seconds).for_each(|_| world.advance(Duration::from_secs(1)));
}

fn view(world: &World) -> RuntimeFollowerView {
    world.ask(world.node_supervisor().container_runtime.as_ref().unwrap(), RuntimeFollowerMsg::Show)
}

fn unplug(world: &World, number: u8) -> Link {
    let ifindex = spec(number).ifindex;
    let link = world.kernel.state().rows.links[&ifindex].clone();
    world.kernel.tamper(|state| state.unplug(ifindex));
    link
}

fn ids(world: &World) -> Vec<u16> {
    world.list().iter().map(|view| view.id.0).collect()
}

#[test]
fn who_lost_container_and_interface_goes_when_no_del_came() {
    let before = Residue::of(&World::new());
    for exits in [true, false] {
        let (world, runtime) = node(&[1]);
        assert_eq!(view(&world).containers, 1);
        match exits {
            true => runtime.exit(&container(1)),
            false => runtime.remove(&container(1)),
        }
        unplug(&world, 1);
        advance(&world, 25);
        assert_eq!(ids(&world), [1], "a DEL may come yet");
        advance(&world, 60);
        Residue::assert_same(&world, &before, "a container that is gone");
        assert_eq!(view(&world).removed, 1);
        assert_eq!((view(&world).gone, view(&world).containers), (0, 0));
    }
}

#[test]
fn a_living_interface_keeps_its_endpoint_whatever_the_runtime_says() {
    let (world, runtime) = node(&[1, 2]);
    runtime.remove(&container(1));
    advance(&world, 1200);
    assert_eq!(ids(&world), [1, 2]);
    let RuntimeFollowerView { gone, living, removed, containers, .. } = view(&world);
    assert_eq!((gone, living, removed, containers), (1, 1, 0, 1));
    // It has forgotten all, and then it is as before.
    let all = runtime.forget_containers();
    runtime.is_away(true);
    advance(&world, 5);
    runtime.is_away(false);
    advance(&world, 600);
    assert_eq!((ids(&world), view(&world).gone), (vec![1, 2], 2));
    runtime.restore_containers(all);
    advance(&world, 120);
    assert_eq!((ids(&world), view(&world).gone), (vec![1, 2], 1));
    world.audit();
}

#[test]
fn an_interface_that_was_only_away_keeps_its_endpoint() {
    let (world, runtime) = node(&[1]);
    runtime.exit(&container(1));
    let link = unplug(&world, 1);
    advance(&world, 25);
    world.kernel.tamper(|state| state.plug(link));
    advance(&world, 25);
    // It is missed for the first time again.
    unplug(&world, 1);
    advance(&world, 20);
    assert_eq!(ids(&world), [1]);
    advance(&world, 60);
    assert!(world.list().is_empty());
}

#[test]
fn a_look_long_ago_does_not_count() {
    let (world, runtime) = node(&[1]);
    runtime.exit(&container(1));
    unplug(&world, 1);
    advance(&world, 20);
    // Nobody looks for a while: the interface may have been back.
    runtime.is_away(true);
    advance(&world, 300);
    runtime.is_away(false);
    for _ in 0..62 {
        advance(&world, 1);
        if view(&world).gone == 1 {
            break;
        }
    }
    advance(&world, 25);
    assert_eq!((ids(&world), view(&world).gone), (vec![1], 1));
    advance(&world, 30);
    assert!(world.list().is_empty());
}

#[test]
fn who_lives_and_was_forgotten_while_no_agent_ran_stays() {
    let (mut world, runtime) = node(&[1, 2]);
    world.crash();
    runtime.remove(&container(1));
    world.boot();
    advance(&world, 600);
    let shown = view(&world);
    assert_eq!((ids(&world), shown.strangers, shown.containers), (vec![1, 2], 1, 1));
    world.audit();
}

#[test]
fn a_list_that_says_nothing_of_a_task_is_not_the_last_word() {
    let (world, runtime) = node(&[1]);
    runtime.lists_no_task_of(&container(1));
    advance(&world, 700);
    assert_eq!((view(&world).containers, view(&world).gone), (1, 0));
}

#[test]
fn a_kernel_that_does_not_answer_removes_nobody() {
    let (world, runtime) = node(&[1]);
    runtime.exit(&container(1));
    world.kernel.tamper(|state| state.unplug(spec(1).ifindex));
    for _ in 0..100 {
        world.fate.refuses("Probe");
        advance(&world, 1);
    }
    assert_eq!(ids(&world), [1]);
    world.fate.is_kind();
    advance(&world, 120);
    assert!(world.list().is_empty());
}

#[test]
fn who_the_runtime_never_had_is_not_its_to_judge() {
    let (world, runtime) = node(&[]);
    world.create(spec(1)).unwrap();
    advance(&world, 90);
    assert_eq!(view(&world).strangers, 1);
    unplug(&world, 1);
    advance(&world, 120);
    assert_eq!(ids(&world), [1]);
    assert_eq!(runtime.connections(), 1);
}

#[test]
fn del_and_the_news_of_the_end_may_come_in_any_order() {
    let before = Residue::of(&World::new());
    // DEL first, then with it, then behind the first look.
    for wait in [None, Some(0), Some(3)] {
        let (world, runtime) = node(&[1]);
        let target = || EndpointReference::AttachmentId(spec(1).attachment_id());
        if wait.is_none() {
            assert_eq!(world.delete(target()), Some(0));
        }
        runtime.exit(&container(1));
        runtime.exit(&container(1));
        runtime.remove(&container(1));
        unplug(&world, 1);
        if let Some(seconds) = wait {
            advance(&world, seconds);
            assert_eq!(world.delete(target()), Some(0));
        }
        advance(&world, 120);
        Residue::assert_same(&world, &before, "DEL and the news of the end");
        assert_eq!(view(&world).removed, 0, "{wait:?}");
    }
}

#[test]
fn news_that_come_before_the_endpoint_are_not_lost() {
    let (world, runtime) = node(&[]);
    // ADD is not answered yet, and the sandbox runs and ends.
    run(&runtime, 1);
    runtime.remove(&container(1));
    advance(&world, 3);
    world.create(spec(1)).unwrap();
    unplug(&world, 1);
    advance(&world, 150);
    assert!(world.list().is_empty());
    assert_eq!(view(&world).removed, 1);
}

#[test]
fn a_new_container_of_the_pod_is_not_removed_with_the_one_before() {
    let (world, runtime) = node(&[1]);
    runtime.exit(&container(1));
    unplug(&world, 1);
    advance(&world, 20);
    let next = EndpointSpec {
        container_id: container(7),
        ifindex: spec(7).ifindex,
        ifname: spec(7).ifname,
        node_mac: spec(7).node_mac,
        addresses: spec(7).addresses,
        ..spec(1)
    };
    let made = world.create(next).unwrap();
    runtime.run(&container(7), "ns", "pod-1", "uid-1");
    advance(&world, 90);
    assert_eq!(ids(&world), [made.id.0]);
    world.audit();
}

#[test]
fn an_agent_that_was_restarted_meanwhile_goes_on() {
    let (mut world, runtime) = node(&[1, 2]);
    world.crash();
    runtime.exit(&container(1));
    world.boot();
    // The interface goes when the agent is there again.
    advance(&world, 20);
    assert_eq!((ids(&world), view(&world).gone), (vec![1, 2], 1));
    unplug(&world, 1);
    advance(&world, 60);
    assert_eq!(ids(&world), [2]);
    world.audit();
}

#[test]
fn a_runtime_that_is_away_is_asked_more_and_more_seldom_and_nothing_else_changes() {
    let runtime = MemoryRuntime::default();
    runtime.is_away(true);
    let mut world = World::off();
    world.runtime = Some(runtime.clone());
    world.boot();
    world.create(spec(1)).unwrap();
    advance(&world, 60);
    let first = runtime.connections();
    assert!((5..=7).contains(&first), "{first}");
    advance(&world, 600);
    assert!((9..=11).contains(&(runtime.connections() - first)), "{}", runtime.connections());
    let shown = view(&world);
    assert!(shown.version.is_none() && !shown.was_followed && shown.hearing.connected.is_none());
    assert!(shown.error.unwrap().contains("nobody listens"));
    runtime.is_away(false);
    run(&runtime, 1);
    advance(&world, 61);
    assert_eq!((view(&world).containers, view(&world).error), (1, None));
}

#[test]
fn a_connection_that_ends_at_once_again_and_again_is_made_more_and_more_seldom() {
    let (world, runtime) = node(&[1]);
    advance(&world, 60);
    for _ in 0..120 {
        runtime.is_away(true);
        runtime.is_away(false);
        advance(&world, 1);
    }
    let connections = runtime.connections();
    assert!(connections < 12, "{connections}");
}

#[test]
fn after_a_break_all_is_listed_again_and_what_ended_meanwhile_is_found() {
    let (world, runtime) = node(&[1, 2]);
    runtime.is_away(true);
    advance(&world, 3);
    runtime.forget_containers();
    run(&runtime, 2);
    unplug(&world, 1);
    let lists = view(&world).lists;
    runtime.is_away(false);
    advance(&world, 75);
    assert_eq!(ids(&world), [2]);
    assert!(view(&world).lists > lists);
}

#[test]
fn a_runtime_that_hangs_is_left_and_comes_back() {
    let (world, runtime) = node(&[1]);
    runtime.hangs(true);
    advance(&world, 31);
    let shown = view(&world);
    assert!(shown.error.unwrap().contains("said nothing for 30 s") && shown.was_followed);
    runtime.hangs(false);
    advance(&world, 61);
    assert_eq!((view(&world).error, view(&world).containers), (None, 1));
    assert_eq!(ids(&world), [1]);
}

#[test]
fn an_event_that_is_missed_is_made_up_for_by_the_next_list() {
    let (world, runtime) = node(&[1]);
    advance(&world, 60);
    runtime.forget_containers();
    unplug(&world, 1);
    advance(&world, 200);
    assert_eq!(ids(&world), [1]);
    advance(&world, 500);
    assert_eq!(view(&world).removed, 1);
}

#[test]
fn whoever_has_no_endpoint_is_not_looked_up() {
    let (world, runtime) = node(&[1]);
    advance(&world, 60);
    let questions = runtime.questions();
    for number in 100..200 {
        runtime.run(&format!("{number:x}"), "ns", "other", "");
    }
    advance(&world, 90);
    assert_eq!(runtime.questions(), questions);
}

#[test]
fn an_endpoint_that_nobody_named_learns_its_pod_and_its_labels() {
    let (world, runtime) = node(&[]);
    let nameless = EndpointSpec {
        namespace: String::new(),
        pod_name: String::new(),
        pod_uid: String::new(),
        ..spec(1)
    };
    world.create(nameless).unwrap();
    assert_eq!(world.get(ID).spec.pod(), None);
    run(&runtime, 1);
    advance(&world, 5);
    let view = world.get(ID);
    assert_eq!(view.spec.pod().as_deref(), Some("ns/pod-1"));
    assert_eq!(view.spec.pod_uid, "uid-1");
    let app = view.identity_labels.get("app").cloned();
    assert_eq!(app, Some(Label::new("k8s", "app", "web")));
    assert!(world.all_ready());
    world.audit();
    // It is said once.
    let builds = view.counts.builds;
    advance(&world, 700);
    assert_eq!(world.get(ID).counts.builds, builds);
}

#[test]
fn what_cni_said_of_a_pod_is_not_overruled() {
    let (world, runtime) = node(&[]);
    world.create(EndpointSpec { pod_uid: String::new(), ..spec(1) }).unwrap();
    runtime.run(&container(1), "ns", "another", "uid-9");
    advance(&world, 90);
    assert_eq!(world.get(ID).spec.pod().as_deref(), Some("ns/pod-1"));
    assert_eq!(world.get(ID).spec.pod_uid, "");
    // Nor is it asked about again and again.
    let questions = runtime.questions();
    advance(&world, 300);
    assert_eq!((runtime.questions(), view(&world).containers), (questions, 1));
    // Of the pod that CNI named, the UID is learnt.
    run(&runtime, 1);
    advance(&world, 90);
    assert_eq!(world.get(ID).spec.pod_uid, "uid-1");
}

#[test]
fn a_container_that_is_no_sandbox_is_known_as_well() {
    let (world, runtime) = node(&[]);
    world.create(spec(1)).unwrap();
    runtime.put(&container(1), RuntimeContainer { runs: true, pod: None });
    advance(&world, 5);
    assert_eq!(view(&world).containers, 1);
    advance(&world, 700);
    assert_eq!((ids(&world), view(&world).gone), (vec![1], 0));
}

#[test]
fn a_crash_of_who_follows_costs_nothing_that_was_known() {
    let (world, runtime) = node(&[1]);
    let follower = world.node_supervisor().container_runtime.clone().unwrap();
    drop(follower.tell(RuntimeFollowerMsg::Show(crash())));
    advance(&world, 2);
    assert_eq!(view(&world).containers, 1);
    runtime.forget_containers();
    unplug(&world, 1);
    drop(follower.tell(RuntimeFollowerMsg::Show(crash())));
    advance(&world, 60);
    assert!(world.list().is_empty(), "that the runtime had it is still known");
}

#[test]
fn the_supervisor_is_asked_of_nobody_and_of_strangers() {
    let (world, _) = node(&[1]);
    unplug(&world, 1);
    let ask = |containers: &[&str]| {
        let containers = containers.iter().map(|it| (*it).to_owned()).collect();
        let make = |reply: Reply<Abandoned>| EndpointsMsg::Abandoned { containers, reply };
        world.ask(&world.node_supervisor().endpoints, make)
    };
    assert_eq!(ask(&[]), Abandoned::default());
    assert_eq!(ask(&["", "nobody's"]), Abandoned::default());
    assert_eq!(ask(&[&container(1)]).waiting, 1);
}
