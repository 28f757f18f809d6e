//! The host endpoint, on a whole node in memory.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use crate::{
    endpoints::{
        endpoint::{
            CreateError, EndpointState, EndpointView, HealthState, Level, Patch, PatchError,
        },
        ipam::IpamMsg,
        supervisor::{DeleteError, EndpointReference, EndpointsMsg},
    },
    model::{IdentityId, Labels},
    ports::{HOST_IFINDEX, KernelOp, Refusal},
    testing::{Turn, World, allow_to_nodes, crash, node, pod, spec},
};

fn world() -> World {
    let mut world = World::off();
    world.settings.policy.host_firewall = true;
    world.apply("node", [node("worker")]);
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.boot();
    world.advance(Duration::from_secs(1));
    world
}

fn host(world: &World) -> Arc<EndpointView> {
    let mut hosts: Vec<_> = world.list().into_iter().filter(|view| view.spec.is_host()).collect();
    assert_eq!(hosts.len(), 1);
    hosts.remove(0)
}

fn labels(texts: &[&str]) -> Labels {
    Labels::parse(texts.iter().copied()).unwrap()
}

/// Rows of the policy that the node itself is held to.
fn rows(world: &World) -> usize {
    world.kernel.with(|kernel| kernel.policy_of(HOST_IFINDEX).unwrap().len())
}

#[test]
fn there_is_one_with_a_policy_and_nothing_that_only_a_pod_has() {
    let world = world();
    let view = host(&world);
    assert_eq!((view.state, view.identity), (EndpointState::Ready, IdentityId::HOST));
    assert_eq!(*view.identity_labels, labels(&["k8s:role=worker", "reserved:host"]));
    assert_eq!(view.health().overall_health, HealthState::OK);
    let written = world.kernel.writes();
    let of_its_own = |op: &&KernelOp| {
        !matches!(
            op,
            KernelOp::PutDevice { .. }
                | KernelOp::AttachDevice { .. }
                | KernelOp::PutIpcache(_)
                | KernelOp::PutUnmasqueraded(_)
                | KernelOp::Routing(_)
        ) && !matches!(op, KernelOp::PutLxc { row, .. } if row.endpoint == 0)
    };
    let mut steps: Vec<_> = written.iter().filter(of_its_own).map(KernelOp::name).collect();
    steps.dedup();
    assert_eq!(steps[..5], ["PutEndpoint", "BuildPolicy", "FlipPolicy", "PutConfig", "PinPolicy"]);
    let only_pods = ["Attach", "Settle", "LinkUp", "PutLxc", "PutRoute"];
    assert!(steps.iter().all(|step| !only_pods.contains(step)), "{steps:?}");
    world.kernel.with(|kernel| {
        let row = kernel.rows.config[&HOST_IFINDEX];
        assert_eq!((row.endpoint, row.identity), (view.id, IdentityId::HOST));
        assert!(kernel.pins.contains_key(&view.id));
    });
    let leases = world.ask(&world.node_supervisor().ipam, IpamMsg::Dump);
    assert!(leases.iter().all(|(_, lease)| lease.owner == "router"), "{leases:?}");
    assert!(world.disk.files().has(&format!("{}/ep_config.json", view.id)));
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(700));
    assert_eq!(world.list().len(), 2, "it is no endpoint whose interface is gone");
    world.audit();
}

#[test]
fn there_is_none_where_nobody_wants_it() {
    let world = World::new();
    assert!(world.list().is_empty());
    assert!(!world.kernel.with(|kernel| kernel.rows.config.contains_key(&HOST_IFINDEX)));
}

#[test]
fn its_labels_are_those_of_the_node_and_choose_its_policies() {
    let mut world = world();
    world.create(spec(1)).unwrap();
    let entities = json!({ "fromEntities": ["world"] });
    world.apply("policy", [allow_to_nodes("worker", entities.clone())]);
    world.advance(Duration::from_secs(1));
    let view = host(&world);
    assert!(view.realised.ingress_enforced && !view.realised.egress_enforced);
    assert!(!world.list().iter().any(|it| !it.spec.is_host() && it.realised.ingress_enforced));
    let enforced = rows(&world);

    world.apply("node", [node("gateway")]);
    world.advance(Duration::from_secs(1));
    let other = host(&world);
    assert_eq!((other.id, other.identity), (view.id, view.identity));
    assert_eq!(*other.identity_labels, labels(&["k8s:role=gateway", "reserved:host"]));
    assert!(!other.realised.ingress_enforced && rows(&world) < enforced);

    // Another node's labels are not its own, and what nobody says any more is as it was.
    let mut stranger = node("worker");
    stranger["metadata"]["name"] = json!("there");
    world.apply("stranger", [stranger]);
    world.apply("policy", [allow_to_nodes("gateway", entities)]);
    world.apply("node", []);
    world.advance(Duration::from_secs(1));
    assert_eq!(host(&world).identity_labels, other.identity_labels);
    assert!(host(&world).realised.ingress_enforced);
    world.audit();
}

#[test]
fn nobody_deletes_it_and_only_its_options_are_changed() {
    let world = world();
    let id = host(&world).id;
    let endpoints = &world.node_supervisor().endpoints;
    let target = EndpointReference::Id(id);
    let refused = world.ask(endpoints, |reply| EndpointsMsg::Delete { target, reply }).unwrap_err();
    assert!(
        matches!(&refused, DeleteError::Refused(text) if text.contains("--enable-host-firewall"))
    );
    let patch = |patch: Patch| {
        let patch = Box::new(patch);
        world.ask(endpoints, |reply| EndpointsMsg::Patch {
            target: EndpointReference::Id(id),
            patch,
            reply,
        })
    };
    let custom = Some(labels(&["k8s:a=b"]));
    for change in [
        Patch { labels: custom.clone(), ..Patch::default() },
        Patch { custom: custom.clone(), ..Patch::default() },
        Patch { disabled: custom, ..Patch::default() },
        Patch { interface: Some(spec(1)), ..Patch::default() },
    ] {
        let refused = patch(change).unwrap_err();
        assert!(
            matches!(&refused, PatchError::Invalid(text) if text.contains("kubectl label node"))
        );
    }
    let options = Some([("PolicyVerdictNotification".to_owned(), 1)].into());
    patch(Patch { options, ..Patch::default() }).unwrap();
    assert_eq!(world.kernel.with(|kernel| kernel.rows.config[&HOST_IFINDEX].flags & 4), 4);
    for text in ["container-id:", "container-name:", "cni-attachment-id::", "pod-name:/"] {
        let target: EndpointReference = text.parse().unwrap();
        let found = world.ask(endpoints, |reply| EndpointsMsg::Get { target, reply });
        assert!(found.is_err(), "{text}");
    }
    let pretender =
        crate::endpoints::endpoint::EndpointSpec { labels: labels(&["reserved:host"]), ..spec(1) };
    assert!(matches!(world.create(pretender), Err(CreateError::Invalid(_))));
    world.audit();
}

#[test]
fn it_builds_again_when_it_is_asked_to() {
    let world = world();
    let before = host(&world);
    for level in [Level::Load, Level::Rewrite, Level::Rebuild] {
        let (target, reason) = (EndpointReference::Id(before.id), Arc::from("a test"));
        let built = world.ask(&world.node_supervisor().endpoints, |reply| {
            EndpointsMsg::Regenerate { target, level, reason, reply }
        });
        assert_eq!(built.unwrap().state, EndpointState::Ready);
    }
    assert_eq!(host(&world).counts.builds, before.counts.builds + 3);
    let attached = |op: &KernelOp| matches!(op, KernelOp::Attach { .. });
    assert!(!world.kernel.writes().iter().any(attached));
}

#[test]
fn a_full_map_leaves_it_the_policy_of_before() {
    let mut world = world();
    let before = rows(&world);
    for step in ["BuildPolicy", "FlipPolicy"] {
        world.fate.is(move |name| match name == step {
            true => Turn::Refuse(Refusal::MapFull),
            false => Turn::Work,
        });
        let cidrs: Vec<_> = (1..20).map(|it| format!("192.0.{it}.0/24")).collect();
        world.apply("policy", [allow_to_nodes("worker", json!({ "fromCIDR": cidrs }))]);
        world.advance(Duration::from_secs(1));
        let view = host(&world);
        assert!(view.failing && view.last_error.is_some(), "{step}");
        assert_eq!(view.api_state(), "not-ready");
        assert_eq!(rows(&world), before, "{step}");
        world.fate.is_kind();
        world.advance(Duration::from_secs(120));
        assert!(world.all_ready() && rows(&world) > before);
        world.apply("policy", []);
        world.advance(Duration::from_secs(1));
        assert_eq!(rows(&world), before);
        world.audit();
    }
}

#[test]
fn it_outlives_its_supervisor() {
    let mut world = world();
    let before = host(&world);
    let labels = Labels::default();
    let list = EndpointsMsg::List { labels, reply: crash() };
    world.node_supervisor().endpoints.tell(list).unwrap();
    world.settle();
    world.apply("node", [node("gateway")]);
    world.advance(Duration::from_secs(60));
    let after = host(&world);
    assert_eq!(after.id, before.id);
    assert_eq!(*after.identity_labels, self::labels(&["k8s:role=gateway", "reserved:host"]));
    world.audit();
}
