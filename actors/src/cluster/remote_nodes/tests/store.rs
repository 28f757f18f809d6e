//! Tests: nodes announce themselves and find each other in a store, also over outages, crashes,
//! rubbish and names or addresses that two nodes claim.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{NODE, announce, fixture, mapped, node, said, view};
use crate::{
    cluster::kvstore::NODES,
    model::IdentityId,
    testing::{KvLink, World},
};

const OWN: &str = "cilium/state/nodes/v1/default/here";

#[test]
fn this_node_is_announced_byte_for_byte_as_cilium_does() {
    let (mut world, store) = fixture();
    world.settings.pools.ipv4 = "10.10.0.0/16".parse().ok();
    world.settings.pools.ipv6 = None;
    world.boot();
    let expected = concat!(
        r#"{"Name":"here","Cluster":"default","IPAddresses":["#,
        r#"{"Type":"InternalIP","IP":"192.0.2.1"},{"Type":"CiliumInternalIP","IP":"10.1.0.254"}],"#,
        r#""IPv4AllocCIDR":{"IP":"10.10.0.0","Mask":"//8AAA=="},"IPv4SecondaryAllocCIDRs":null,"#,
        r#""IPv6AllocCIDR":null,"IPv6SecondaryAllocCIDRs":null,"IPv4HealthIP":"","#,
        r#""IPv6HealthIP":"","IPv4IngressIP":"","IPv6IngressIP":"","ClusterID":0,"#,
        r#""Source":"local","EncryptionKey":0,"Labels":{},"Annotations":{},"NodeIdentity":1,"#,
        r#""WireguardPubKey":"","BootID":"7af8560e-12b9-4753-bdec-52b254fe026f"}"#,
    );
    assert_eq!(store.get(OWN).as_deref(), Some(expected));
    // The next life says the same once, and what is lost is said again.
    world.restart();
    assert_eq!(store.get(OWN).as_deref(), Some(expected));
    store.expire();
    world.advance(Duration::from_secs(60));
    assert_eq!(store.get(OWN).as_deref(), Some(expected));
    store.delete(OWN);
    world.settle();
    assert_eq!(store.get(OWN).as_deref(), Some(expected));
}

#[test]
fn nodes_find_each_other_and_lose_each_other_with_the_lease() {
    let (mut here, store) = fixture();
    let mut there = node("there", 2);
    there.kvstore = Some(store.clone());
    there.settings.kvstore.other_address = "2001:db8::2".parse().ok();
    here.boot();
    there.boot();
    let run = |worlds: &[&World]| {
        (0..4).for_each(|_| worlds.iter().for_each(|world| world.advance(Duration::from_secs(1))));
    };
    run(&[&here, &there]);
    for ip in ["192.0.2.2", "2001:db8::2", "10.2.0.254"] {
        assert_eq!(mapped(&here, ip), NODE, "{ip}");
    }
    assert_eq!(mapped(&there, "192.0.2.1"), NODE);
    assert_eq!(mapped(&here, "10.1.0.254"), Some(IdentityId::HOST));
    // A restart of the one is nothing to the other.
    there.restart();
    run(&[&here, &there]);
    assert_eq!((mapped(&here, "192.0.2.2"), mapped(&there, "192.0.2.1")), (NODE, NODE));
    // One that never comes back goes with its lease.
    there.crash();
    here.advance(Duration::from_secs(800));
    assert_eq!(mapped(&here, "192.0.2.2"), NODE);
    here.advance(Duration::from_secs(200));
    assert_eq!(mapped(&here, "192.0.2.2"), None);
    assert_eq!(view(&here).known, 0);
    here.audit();
}

#[test]
fn an_earlier_life_s_nodes_stay_until_the_store_has_listed_its_own() {
    let (mut world, store) = fixture();
    announce(&store, "a", &said("a", &[("InternalIP", "192.0.2.7")]));
    let mut b = said("b", &[("InternalIP", "192.0.2.8"), ("ExternalIP", "198.51.100.8")]);
    b["IPv4HealthIP"] = json!("10.8.0.3");
    b["IPv6IngressIP"] = json!("2001:db8::8");
    announce(&store, "b", &b);
    world.boot();
    let all = ["192.0.2.7", "192.0.2.8", "198.51.100.8", "10.8.0.3", "2001:db8::8"];
    let rows = |world: &World| all.map(|ip| mapped(world, ip).map(|id| id.0));
    let before = [Some(6), Some(6), Some(6), Some(4), Some(8)];
    assert_eq!(rows(&world), before);
    world.crash();
    store.set_link(KvLink::Down);
    world.boot();
    world.advance(Duration::from_secs(600));
    assert!(world.report().finished);
    assert_eq!(rows(&world), before);
    assert!(!view(&world).synced);
    store.delete(&format!("{NODES}default/b"));
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(60));
    assert_eq!(rows(&world), [Some(6), None, None, None, None]);
    world.audit();
}

#[test]
fn rubbish_costs_its_own_node() {
    let (mut world, store) = fixture();
    let good = said("good", &[("InternalIP", "192.0.2.7"), ("Hostname", "good.example")]);
    announce(&store, "good", &good);
    let bad = |change: &dyn Fn(&mut Value)| {
        let mut said = said("bad", &[("InternalIP", "192.0.2.8")]);
        change(&mut said);
        said
    };
    world.boot();
    announce(&store, "bad", &bad(&|_| {}));
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.8"), NODE);
    for rubbish in [
        json!("rubbish"),
        bad(&|it| it["Name"] = json!("good")),
        bad(&|it| it["Cluster"] = json!("far")),
        bad(&|it| it["IPAddresses"][0]["IP"] = json!("192.0.2")),
        bad(&|it| it["IPAddresses"][0]["IP"] = json!("127.0.0.1")),
        bad(&|it| it["IPv4HealthIP"] = json!("somewhere")),
    ] {
        announce(&store, "bad", &rubbish);
        world.settle();
        assert_eq!(mapped(&world, "192.0.2.8"), None, "{rubbish}");
        assert_eq!(mapped(&world, "192.0.2.7"), NODE, "{rubbish}");
        announce(&store, "bad", &bad(&|_| {}));
        world.settle();
        assert_eq!(mapped(&world, "192.0.2.8"), NODE);
    }
    store.put(&format!("{NODES}default/"), "{}");
    store.put(&format!("{NODES}default/a/b"), "{}");
    world.settle();
    assert_eq!(view(&world).known, 2);
    world.audit();
}

#[test]
fn an_address_that_two_nodes_name_is_a_node_s_until_neither_does() {
    let (mut world, store) = fixture();
    let mut a = said("a", &[]);
    a["IPv4HealthIP"] = json!("192.0.2.7");
    let b = said("b", &[("InternalIP", "192.0.2.7")]);
    world.boot();
    for (first, second) in [(&a, &b), (&b, &a)] {
        for said in [first, second] {
            announce(&store, said["Name"].as_str().unwrap(), said);
            world.settle();
        }
        assert_eq!(mapped(&world, "192.0.2.7"), NODE);
        let view = view(&world);
        let names: Vec<_> = view.contested.values().flatten().collect();
        assert_eq!(names, ["default/a", "default/b"]);
        store.delete(&format!("{NODES}default/b"));
        world.settle();
        assert_eq!(mapped(&world, "192.0.2.7"), Some(IdentityId::HEALTH));
        store.delete(&format!("{NODES}default/a"));
        world.settle();
        assert_eq!(mapped(&world, "192.0.2.7"), None);
        assert!(super::fixture::view(&world).contested.is_empty());
    }
    // What is this node's stays this node's.
    announce(&store, "a", &said("a", &[("InternalIP", "192.0.2.1"), ("InternalIP", "10.1.0.254")]));
    world.settle();
    assert_eq!(mapped(&world, "10.1.0.254"), Some(IdentityId::HOST));
    assert_eq!(mapped(&world, "192.0.2.1"), None);
}

#[test]
fn a_node_of_the_same_name_is_outdone_at_leisure() {
    let (mut world, store) = fixture();
    world.boot();
    let own = store.get(OWN);
    let theirs = said("here", &[("InternalIP", "192.0.2.9")]);
    announce(&store, "here", &theirs);
    world.advance(Duration::from_secs(5));
    assert_eq!(store.get(OWN), Some(theirs.to_string()));
    assert!(view(&world).usurped);
    world.advance(Duration::from_secs(6));
    assert_eq!(store.get(OWN), own);
    assert!(!view(&world).usurped);
    assert_eq!(mapped(&world, "192.0.2.9"), None);
}

#[test]
fn a_crash_of_the_owner_or_of_the_ipcache_loses_nothing() {
    let (mut world, store) = fixture();
    world.boot();
    let node_supervisor = world.node_supervisor().clone();
    let (nodes, ipcache) =
        (node_supervisor.nodes.as_ref().unwrap().id(), node_supervisor.ipcache.id());
    for (number, cells) in [vec![nodes], vec![ipcache], vec![nodes, ipcache]].iter().enumerate() {
        let ip = format!("192.0.2.{}", 100 + number);
        cells.iter().for_each(|&cell| node_supervisor.host.poison(cell));
        announce(&store, "a", &said("a", &[("InternalIP", &ip)]));
        world.advance(Duration::from_secs(60));
        assert_eq!(mapped(&world, &ip), NODE, "{ip}");
        if number > 0 {
            assert_eq!(mapped(&world, &format!("192.0.2.{}", 99 + number)), None);
        }
        let view = view(&world);
        assert_eq!((view.known, view.mapped, view.open), (1, 1, 0));
    }
    world.audit();
}

#[test]
fn a_node_that_goes_while_nobody_knows_whether_it_is_mapped_leaves_nothing() {
    let (mut world, store) = fixture();
    world.boot();
    world.node_supervisor().host.poison(world.node_supervisor().ipcache.id());
    announce(&store, "there", &said("there", &[("InternalIP", "192.0.2.7")]));
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.7"), NODE);
    store.delete(&format!("{NODES}default/there"));
    world.advance(Duration::from_secs(60));
    assert_eq!(mapped(&world, "192.0.2.7"), None);
    world.audit();
}
