//! Restarts, outages, and clusters that go.

use std::time::Duration;

use super::{CLIENT, Region, address, cluster, identity, node, service};
use crate::{
    cluster::sharing::tests::store::fixture,
    host::{Message, Ref, Reply},
    model::IdentityId,
    services::service_cache::{ServicesMsg, ServicesStatus},
    testing::{KvLink, MemoryKvStore},
};

const ADDRESSES: &str = "cilium/state/ip/v1/default/";
const IDENTITIES: &str = "cilium/state/identities/v1/id/";
const NODES: &str = "cilium/state/nodes/v1/";

/// With a node of cluster b, too.
fn region() -> (Region, MemoryKvStore) {
    let (region, b) = Region::meshed();
    node(&b, NODES, "b", "far", "198.51.100.7");
    region.world.settle();
    assert!(region.is_whole());
    (region, b)
}

impl Region {
    /// Whether all is in force that cluster b says.
    fn is_whole(&self) -> bool {
        let node = Some(IdentityId::REMOTE_NODE.0);
        self.mapped("10.2.0.1/32") == Some(CLIENT)
            && self.mapped("198.51.100.7/32") == node
            && self.lets_in()
    }
}

#[test]
fn a_restart_without_the_other_cluster_forgets_nothing() {
    let (mut region, b) = region();
    b.set_link(KvLink::Down);
    region.world.restart();
    region.world.advance(Duration::from_secs(600));
    assert!(region.is_whole());
    assert!(!region.view("b").is_connected());
    // What went meanwhile goes when it is back.
    b.delete(&format!("{ADDRESSES}10.2.0.1"));
    b.delete(&format!("{NODES}b/far"));
    b.set_link(KvLink::Up);
    region.world.advance(Duration::from_secs(15));
    assert_eq!((region.mapped("10.2.0.1/32"), region.mapped("198.51.100.7/32")), (None, None));
    assert!(!region.lets_in() && region.view("b").is_ready());
    region.world.audit();
}

#[test]
fn a_cluster_whose_store_was_restored_or_is_another_one_is_read_again() {
    let (region, b) = region();
    b.back_up();
    address(&b, ADDRESSES, "10.2.0.2", CLIENT);
    region.world.advance(Duration::from_secs(20));
    assert_eq!(region.mapped("10.2.0.2/32"), Some(CLIENT));
    b.restore();
    address(&b, ADDRESSES, "10.2.0.3", CLIENT);
    region.world.advance(Duration::from_secs(3));
    let rows = ["10.2.0.2/32", "10.2.0.3/32"].map(|row| region.mapped(row));
    assert_eq!((rows, region.is_whole()), ([None, Some(CLIENT)], true));
    // A copy that was made anew.
    b.replace();
    for number in 0..100 {
        b.put("noise", &number.to_string());
    }
    b.put("cilium/cluster-config/b", r#"{"id":2}"#);
    identity(&b, IDENTITIES, CLIENT, "b");
    address(&b, ADDRESSES, "10.2.0.4", CLIENT);
    region.world.advance(Duration::from_secs(3));
    let rows = ["10.2.0.1/32", "10.2.0.3/32", "10.2.0.4/32"].map(|row| region.mapped(row));
    assert_eq!(rows, [None, None, Some(CLIENT)]);
    let view = region.view("b");
    let replaced = view.watchers.values().flatten().filter_map(|it| it.hearing.replaced.as_ref());
    assert!(replaced.count() > 0 && view.is_ready() && region.lets_in());
    region.world.audit();
}

#[test]
fn a_restart_waits_for_nobody() {
    let (mut region, b) = region();
    for store in [&b, &region.own] {
        store.set_link(KvLink::Silent);
    }
    region.world.restart();
    assert!(region.is_whole() && region.world.all_ready());
    assert!(region.world.report().finished);
}

#[test]
fn nobody_speaks_for_a_cluster_of_which_is_not_known_whether_it_is_configured() {
    let (mut region, _) = region();
    let own = 1 << 16 | 400;
    fixture::identity(&region.own, own, &fixture::labels("db"));
    fixture::address(&region.own, "10.0.9.1", own);
    region.world.settle();
    assert_eq!(region.mapped("10.0.9.1/32"), Some(own));
    region.own.delete(&format!("{ADDRESSES}10.0.9.1"));
    region.world.crash();
    // The directory cannot be read.
    region.world.clusters = None;
    region.world.boot();
    region.world.advance(Duration::from_secs(60));
    assert!(region.is_whole());
    assert_eq!(region.mapped("10.0.9.1/32"), None, "this cluster has spoken for its own");
}

#[test]
fn what_a_cluster_said_goes_with_its_configuration() {
    let (mut region, b) = region();
    let other = cluster("c", 3);
    node(&other, NODES, "c", "near", "198.51.100.9");
    region.clusters.configure("c", &other);
    region.world.settle();
    region.clusters.remove("b");
    region.world.settle();
    assert_eq!((region.mapped("10.2.0.1/32"), region.mapped("198.51.100.7/32")), (None, None));
    assert!(!region.lets_in());
    assert_eq!(region.mapped("198.51.100.9/32"), Some(IdentityId::REMOTE_NODE.0));
    assert_eq!(region.views().len(), 1);
    // What it says now is nobody's business.
    address(&b, ADDRESSES, "10.2.0.2", CLIENT);
    region.world.advance(Duration::from_secs(60));
    assert_eq!(region.mapped("10.2.0.2/32"), None);
    // And while the agent is down.
    region.clusters.configure("b", &b);
    region.world.settle();
    assert!(region.is_whole());
    region.world.crash();
    region.clusters.remove("b");
    region.world.boot();
    region.world.advance(Duration::from_secs(60));
    assert_eq!((region.mapped("10.2.0.1/32"), region.mapped("198.51.100.7/32")), (None, None));
    assert_eq!(region.mapped("198.51.100.9/32"), Some(IdentityId::REMOTE_NODE.0));
    region.world.audit();
}

#[test]
fn another_store_of_a_cluster_takes_over_without_a_gap() {
    let (region, old) = region();
    address(&old, ADDRESSES, "10.2.0.2", CLIENT);
    for name in ["gone", "torn"] {
        service(&old, "b", name, true);
    }
    old.put("cilium/state/services/v1/b/ns/never", "rubbish");
    region.world.settle();
    let shared = region.view("b").services;
    let services = &region.world.node_supervisor().services;
    let refused = || region.world.ask(services, ServicesMsg::Show).refused.len();
    assert_eq!(refused(), 1);
    let new = super::b();
    new.put("cilium/state/services/v1/b/ns/torn", "rubbish");
    node(&new, NODES, "b", "far", "198.51.100.7");
    identity(&new, IDENTITIES, CLIENT + 1, "b");
    address(&new, ADDRESSES, "10.2.0.3", CLIENT + 1);
    new.set_link(KvLink::Down);
    region.clusters.configure("b", &new);
    region.world.advance(Duration::from_secs(60));
    assert!(region.is_whole() && region.mapped("10.2.0.2/32") == Some(CLIENT));
    // The old one is not heeded any more.
    address(&old, ADDRESSES, "10.2.0.9", CLIENT);
    new.set_link(KvLink::Up);
    region.world.advance(Duration::from_secs(15));
    assert!(region.is_whole());
    assert_eq!(region.mapped("10.2.0.2/32"), None, "the new one does not say it");
    assert_eq!(region.mapped("10.2.0.3/32"), Some(CLIENT + 1));
    assert_eq!(region.mapped("10.2.0.9/32"), None);
    assert_eq!((region.view("b").services, refused()), (shared - 1, 1), "one stays as it was");
    region.world.audit();
}

#[test]
fn a_cluster_that_becomes_a_copy_loses_nothing() {
    let (region, b) = region();
    identity(&b, "cilium/cache/identities/v1/b/id/", CLIENT, "b");
    address(&b, "cilium/cache/ip/v1/b/", "10.2.0.1", CLIENT);
    node(&b, "cilium/cache/nodes/v1/", "b", "far", "198.51.100.7");
    address(&b, ADDRESSES, "10.2.0.2", CLIENT);
    region.world.settle();
    b.put("cilium/cluster-config/b", r#"{"id":2,"capabilities":{"cached":true}}"#);
    region.world.settle();
    assert!(region.is_whole() && region.view("b").cached);
    assert_eq!(region.mapped("10.2.0.2/32"), None, "the copy does not have it");
}

#[test]
fn crashes_of_those_who_read_lose_nothing() {
    let (region, b) = region();
    let cells = region.world.life().universe.host.cells();
    let theirs: Vec<_> =
        cells.iter().filter(|cell| cell.name.starts_with("clustermesh")).map(|it| it.id).collect();
    assert_eq!(theirs.len(), 7, "the supervisor, the reader, and five watchers");
    for id in theirs {
        region.world.life().universe.host.poison(id);
        region.world.settle();
        region.world.advance(Duration::from_secs(5));
        assert!(region.is_whole());
    }
    address(&b, ADDRESSES, "10.2.0.2", CLIENT);
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.2/32"), Some(CLIENT));
    region.clusters.remove("b");
    region.world.settle();
    assert_eq!(region.mapped("10.2.0.2/32"), None);
    region.world.audit();
}

/// Has an actor rest after crashes, with a mailbox that takes nothing more.
fn crowd<M: Message>(region: &Region, actor: &Ref<M>, make: impl Fn() -> M) {
    let host = &region.world.life().universe.host;
    let rests = || host.cells().iter().any(|cell| cell.id == actor.id() && cell.waiting > 0);
    while !rests() {
        host.poison(actor.id());
        (0..2).for_each(|_| actor.tell(make()).unwrap());
        region.world.settle();
    }
    while actor.tell(make()).is_ok() {}
}

#[test]
fn what_a_full_mailbox_does_not_take_is_told_again() {
    let (region, b) = region();
    let services = &region.world.node_supervisor().services;
    let refused = || -> Vec<_> {
        let status: ServicesStatus = region.world.ask(services, ServicesMsg::Show);
        status.refused.into_iter().map(|(cluster, _)| cluster).collect()
    };
    crowd(&region, services, || ServicesMsg::Show(Reply::to(|_| {})));
    // What it says of a service nobody can read, which is told.
    b.put("cilium/state/services/v1/b/ns/web", "?");
    let c = cluster("c", 3);
    c.put("cilium/state/services/v1/c/ns/web", "?");
    node(&c, NODES, "c", "near", "198.51.100.9");
    region.clusters.configure("c", &c);
    region.world.settle();
    region.world.advance(Duration::from_secs(5));
    assert_eq!(refused(), ["cluster b", "cluster c"]);
    assert_eq!(region.mapped("198.51.100.9/32"), Some(IdentityId::REMOTE_NODE.0));
}
