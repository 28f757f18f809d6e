//! Tests: what a node takes from the store and what it announces there: addresses, identities,
//! and the order in which policies and the ipcache learn of them.

use std::time::Duration;

use serde_json::json;

use super::fixture::{address, addresses, fixture, identity, labels, make, mapped, peers, session};
use crate::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_USERS},
    endpoints::supervisor::EndpointReference,
    model::{EndpointId, IdentityId},
    testing::allow_from,
};

#[test]
fn addresses_of_other_nodes_are_in_force_once_policies_know_their_identity() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    world.boot();
    world.apply(
        "policy",
        [allow_from("web", json!({ "fromEndpoints": [{ "matchLabels": { "app": "client" } }] }))],
    );
    make(&mut world, 1, "web");
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    assert!(peers(&world, 1).contains(&300));
    // An address that comes before its identity waits for it.
    address(&store, "fd00::9:2", 301);
    world.settle();
    assert_eq!(mapped(&world, "fd00::9:2/128"), None);
    assert_eq!(addresses(&world).waiting, 1);
    identity(&store, 301, &labels("client").replace("=client;", "=client;k8s:tier=x;"));
    world.settle();
    assert_eq!(mapped(&world, "fd00::9:2/128"), Some(301));
    assert!(peers(&world, 1).contains(&301));
    // An address that goes takes what is enforced for its identity along.
    store.delete(&format!("{ADDRESSES}10.0.9.1"));
    world.settle();
    assert_eq!(mapped(&world, "10.0.9.1/32"), None);
    world.advance(Duration::from_secs(1));
    assert!(!peers(&world, 1).contains(&300));
    assert!(peers(&world, 1).contains(&301));
    world.audit();
}

/// What the kernel did not take is as it was: whom it still has there stays somebody to policies.
#[test]
fn policies_forget_an_identity_when_the_kernel_has_it_no_more() {
    for gone in [false, true] {
        let (mut world, store) = fixture();
        identity(&store, 300, &labels("client"));
        identity(&store, 301, &labels("other"));
        address(&store, "10.0.9.1", 300);
        world.boot();
        world.apply(
            "policy",
            [allow_from(
                "web",
                json!({ "fromEndpoints": [{ "matchLabels": { "app": "client" } }] }),
            )],
        );
        make(&mut world, 1, "web");
        world.fate.refuses(if gone { "DeleteIpcache" } else { "PutIpcache" });
        match gone {
            true => store.delete(&format!("{ADDRESSES}10.0.9.1")),
            false => address(&store, "10.0.9.1", 301),
        }
        world.advance(Duration::from_secs(60));
        assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
        assert!(peers(&world, 1).contains(&300));
        world.fate.is_kind();
        world.advance(Duration::from_secs(60));
        assert_eq!(mapped(&world, "10.0.9.1/32"), (!gone).then_some(301));
        assert!(!peers(&world, 1).contains(&300));
        world.audit();
    }
}

#[test]
fn an_address_that_comes_back_while_it_cannot_go_stays() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    world.boot();
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    world.fate.refuses("DeleteIpcache");
    store.delete(&format!("{ADDRESSES}10.0.9.1"));
    world.settle();
    address(&store, "10.0.9.1", 300);
    world.settle();
    world.fate.is_kind();
    world.advance(Duration::from_secs(60));
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    world.audit();
}

#[test]
fn this_node_s_endpoints_are_announced_as_cilium_does() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    let number = world.list()[0].id;
    let expected = format!(
        r#"{{"IP":"10.0.0.1","Mask":null,"HostIP":"192.0.2.1","ID":{id},"Key":0,"Metadata":"cilium-global:default:here:{number}","K8sNamespace":"ns","K8sPodName":"pod-1"}}"#
    );
    assert_eq!(store.get(&format!("{ADDRESSES}10.0.0.1")), Some(expected.clone()));
    assert!(store.get(&format!("{ADDRESSES}fd00::1")).is_some());
    // Beside these the node itself.
    assert_eq!(session(&world).written, 4);
    // One that somebody else deletes comes back.
    store.delete(&format!("{ADDRESSES}10.0.0.1"));
    world.settle();
    assert_eq!(store.get(&format!("{ADDRESSES}10.0.0.1")), Some(expected));
    // One that somebody else has by now is left to them when the endpoint goes.
    address(&store, "fd00::1", 777);
    world.settle();
    world.delete(EndpointReference::Id(EndpointId(number.0)));
    world.settle();
    assert_eq!(store.keys(ADDRESSES), [format!("{ADDRESSES}fd00::1")]);
    assert_eq!(store.keys(IDENTITY_USERS), [""; 0]);
}

#[test]
fn rubbish_in_the_store_costs_its_own_key() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    for (key, value) in [
        (format!("{ADDRESSES}not-an-address"), "{}"),
        (format!("{ADDRESSES}10.0.9.2"), "no json"),
        (format!("{ADDRESSES}10.0.9.3"), r#"{"IP":"10.0.9.3"}"#),
        (format!("{}x", IDENTITIES), "k8s:a=b;"),
        (format!("{}400", IDENTITIES), "=;"),
        (format!("{}99999999", IDENTITIES), "k8s:a=b;"),
    ] {
        store.put(&key, value);
    }
    address(&store, "10.0.9.4", 99_999_999);
    world.boot();
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    let view = addresses(&world);
    assert_eq!((view.known, view.mapped, view.waiting), (2, 1, 1));
    world.audit();
}

#[test]
fn a_local_endpoint_s_word_on_its_address_counts_more() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    identity(&store, 400, &labels("client"));
    address(&store, "10.0.0.1", 400);
    world.settle();
    assert_eq!(mapped(&world, "10.0.0.1/32").map(IdentityId), Some(id));
}
