//! Tests: each kind of damage is found by its guarantee, with and without an agent; a node at rest has no
//! difference. That is asked of every world at rest, too, by `World::audit`.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    model::{EndpointId, IdentityId},
    ports::{Attachment, HEALTH_DEVICE, HookState, KernelSnapshot, Link},
    state_directory::ScannedDirectory,
    testing::{World, pod, spec},
};

const FIRST: EndpointId = EndpointId(1);

/// A node with two pods, one of them behind a service, and what is to be seen of it.
fn node() -> (World, Evidence) {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(30));
    // Here interfaces are only there if somebody plugged them in.
    world.kernel.tamper(|state| {
        for number in [1, 2] {
            state.plug(Link { up: true, ..crate::testing::link(number) });
        }
    });
    let evidence = world.evidence();
    assert_eq!(differences(&evidence), []);
    (world, evidence)
}

/// The guarantees that are broken once the kernel is damaged like this.
fn damaged(evidence: &Evidence, damage: impl FnOnce(&mut KernelSnapshot)) -> Vec<Guarantee> {
    let mut evidence = evidence.clone();
    damage(Arc::make_mut(&mut evidence.kernel));
    let mut found: Vec<_> = differences(&evidence).iter().map(|it| it.guarantee).collect();
    found.dedup();
    found
}

fn without_agent(evidence: &Evidence) -> Evidence {
    Evidence { desired: None, ..evidence.clone() }
}

#[test]
fn rows_and_hooks_that_are_missing_or_others_are_found_with_an_agent_and_without() {
    let (_world, evidence) = node();
    assert_eq!(differences(&without_agent(&evidence)), []);
    for evidence in [&evidence, &without_agent(&evidence)] {
        let lost = damaged(evidence, |kernel| {
            kernel.attachments.remove(&FIRST);
        });
        assert_eq!(lost, [Guarantee::Attached]);
        let stale = Attachment { from_container: HookState::Stale, to_container: HookState::Link };
        let twice = damaged(evidence, |kernel| {
            kernel.attachments.insert(FIRST, stale);
        });
        assert_eq!(twice, [Guarantee::Clean]);
        let config = damaged(evidence, |kernel| kernel.config.clear());
        assert!(config.contains(&Guarantee::Numbers));
        let lxc = damaged(evidence, |kernel| {
            kernel.lxc.values_mut().for_each(|row| row.identity = IdentityId(77));
        });
        assert_eq!(lxc, [Guarantee::Numbers]);
        let ipcache = damaged(evidence, |kernel| kernel.ipcache.clear());
        assert_eq!(ipcache, [Guarantee::Numbers]);
        let routes = damaged(evidence, |kernel| kernel.routes.clear());
        assert_eq!(routes, [Guarantee::Numbers]);
        let links = damaged(evidence, |kernel| kernel.links.clear());
        assert_eq!(links, [Guarantee::Ready]);
        let torn = damaged(evidence, |kernel| kernel.torn_rows.push(FIRST));
        assert_eq!(torn, [Guarantee::Recorded]);
        let pin = damaged(evidence, |kernel| kernel.policy_pins.push(EndpointId(900)));
        assert_eq!(pin, [Guarantee::Clean]);
    }
}

#[test]
fn a_policy_that_is_not_the_one_wanted_is_found_though_it_has_as_many_rows() {
    let (_world, evidence) = node();
    let other = damaged(&evidence, |kernel| {
        for rows in kernel.policies.values_mut() {
            Arc::make_mut(rows).values_mut().for_each(|entry| entry.deny = !entry.deny);
        }
    });
    assert_eq!(other, [Guarantee::Enforced]);
    assert_eq!(damaged(&evidence, |kernel| kernel.policies.clear()), [Guarantee::Enforced]);
    assert_eq!(damaged(&without_agent(&evidence), |kernel| kernel.policies.clear()), []);
}

#[test]
fn an_interface_of_no_health_endpoint_is_found_with_an_agent() {
    let (_world, evidence) = node();
    let lone = |kernel: &mut KernelSnapshot| {
        let name = HEALTH_DEVICE.to_owned();
        kernel.links.insert(901, Link { ifindex: 901, name, ..Link::default() });
    };
    assert_eq!(damaged(&evidence, lone), [Guarantee::Clean]);
    // Without one, an agent may have been about to make it.
    assert_eq!(damaged(&without_agent(&evidence), lone), []);
}

#[test]
fn records_that_are_lost_or_others_and_directories_of_nobody_are_found() {
    let (_world, evidence) = node();
    let lost = Evidence { disk: Arc::new(ScannedDirectory::default()), ..evidence.clone() };
    let found = differences(&lost);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|it| it.guarantee == Guarantee::Recorded), "{found:#?}");
    let mut moved = evidence.clone();
    Arc::make_mut(&mut moved.disk).records[0].record.security.id = IdentityId(77);
    assert_eq!(differences(&moved)[0].guarantee, Guarantee::Numbers);
    let mut foreign = evidence;
    Arc::make_mut(&mut foreign.disk).records[0].record.id = EndpointId(900);
    let found = differences(&foreign);
    assert!(found.iter().any(|it| it.guarantee == Guarantee::Clean), "{found:#?}");
    // As long as the agent restores, whatever has a record may be wanted.
    foreign.desired.as_mut().unwrap().restored = false;
    let found = differences(&foreign);
    assert!(found.iter().all(|it| it.guarantee != Guarantee::Clean), "{found:#?}");
}

#[test]
fn endpoints_that_are_not_served_share_an_address_or_have_none_handed_out_are_named() {
    let (_world, evidence) = node();
    let with = |change: &dyn Fn(&mut DesiredNode)| {
        let mut evidence = evidence.clone();
        change(evidence.desired.as_mut().unwrap());
        differences(&evidence)
    };
    let unserved = with(&|desired| {
        desired.endpoints[0].served = false;
        desired.endpoints[0].error = Some("the map is full".to_owned());
    });
    assert_eq!(unserved[0].guarantee, Guarantee::Ready);
    assert!(unserved[0].to_string().contains("ns/pod-1"), "{}", unserved[0]);
    assert!(unserved[0].to_string().contains("the map is full"), "{}", unserved[0]);
    assert_eq!(with(&|desired| desired.leases.clear()).len(), 4);
    let shared = with(&|desired| {
        let again =
            DesiredEndpoint { id: EndpointId(3), served: false, ..desired.endpoints[0].clone() };
        desired.endpoints.push(again);
    });
    assert!(shared.iter().any(|it| it.about == "address 10.0.0.1"), "{shared:#?}");
    let leaked = with(&|desired| {
        let address = "10.0.0.99".parse().unwrap();
        desired.leases.insert(address, "ns/gone".to_owned());
    });
    assert_eq!(leaked[0].guarantee, Guarantee::Clean);
    let recorder = with(&|desired| desired.recorder.push("no file".to_owned()));
    assert_eq!(recorder[0].guarantee, Guarantee::Explained);
}

#[test]
fn what_an_agent_wants_survives_the_way_to_the_client() {
    let (_world, evidence) = node();
    let text = serde_json::to_string(&evidence.desired).unwrap();
    let read: Option<DesiredNode> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, evidence.desired);
    // An agent of another version may say less.
    assert!(serde_json::from_str::<DesiredNode>("{}").is_ok());
}
