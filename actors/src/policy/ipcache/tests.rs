//! Tests: the kernel gets the rows that count, in a safe order, also after failures and crashes.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use ipnet::IpNet;

use super::*;
use crate::{
    host::{Answer, Ref, Reply, Universe},
    model::{EndpointId, IdentityId, drift::DriftWatch},
    ports::{IpcacheRow, KernelError, KernelOp},
    testing::{FakeKernel, crash},
};

const PATIENCE: Duration = Duration::from_secs(600);

type Written = Answer<Result<(), KernelError>>;

struct Fixture {
    universe: Universe,
    kernel: Rc<FakeKernel>,
    ipcache: Ref<IpcacheMsg>,
}

impl Fixture {
    fn new(kernel_has: &[(&str, u32)]) -> Self {
        let universe = Universe::default();
        let kernel = FakeKernel::new();
        let ipcache = universe.spawn(
            "ipcache",
            Ipcache::factory(Rc::clone(&kernel) as _, DriftWatch::default(), None),
        );
        let rows = kernel_has.iter().map(|&(prefix, identity)| (net(prefix), row(identity)));
        ipcache.tell(IpcacheMsg::Restore(rows.collect())).unwrap();
        Self { universe, kernel, ipcache }
    }

    fn pose<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IpcacheMsg) -> Answer<T> {
        let answer = self.universe.host.ask(&self.ipcache, PATIENCE, "rows", make);
        self.universe.settle();
        answer
    }

    fn upsert(&self, source: IpcacheSource, entries: &[(&str, u32)]) -> Written {
        let entry = |identity| IpcacheEntry::of(IdentityId(identity), source);
        let entries = entries.iter().map(|&(prefix, id)| (net(prefix), entry(id))).collect();
        self.pose(|reply| IpcacheMsg::Upsert { entries, reply })
    }

    fn remove(&self, source: IpcacheSource, prefixes: &[&str]) -> Written {
        let prefixes = prefixes.iter().copied().map(net).collect();
        self.pose(|reply| IpcacheMsg::Remove { prefixes, source, reply })
    }

    fn list(&self) -> BTreeMap<IpNet, IpcacheEntry> {
        self.pose(IpcacheMsg::List).now().unwrap().unwrap()
    }

    fn succeed(&self) -> Vec<KernelOp> {
        let ops = self.kernel.succeed();
        self.universe.settle();
        ops
    }

    fn fail(&self) {
        self.kernel.fail();
        self.universe.settle();
    }
}

#[test]
fn an_address_is_whose_the_longest_prefix_says() {
    let fixture = Fixture::new(&[("10.9.0.0/16", 9)]);
    fixture.upsert(
        IpcacheSource::Policy,
        &[("0.0.0.0/0", 2), ("10.1.0.0/16", 300), ("10.1.2.0/24", 301), ("fd00::/8", 302)],
    );
    fixture.upsert(IpcacheSource::Cluster, &[("10.1.2.3/32", 400)]);
    let whose = |text: &str| {
        let address = text.parse().unwrap();
        let found = fixture.pose(|reply| IpcacheMsg::Find { address, reply }).now().unwrap();
        found.unwrap().map(|(prefix, entry)| (prefix.to_string(), entry.identity.0))
    };
    for (address, prefix, identity) in [
        ("10.1.2.3", "10.1.2.3/32", 400),
        ("10.1.2.4", "10.1.2.0/24", 301),
        ("10.1.3.4", "10.1.0.0/16", 300),
        ("192.0.2.1", "0.0.0.0/0", 2),
        ("fd00::7", "fd00::/8", 302),
        // Nobody named it yet, but the kernel has it.
        ("10.9.1.1", "10.9.0.0/16", 9),
    ] {
        assert_eq!(whose(address), Some((prefix.to_owned(), identity)), "{address}");
    }
    assert_eq!(whose("2001:db8::1"), None);
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn row(identity: u32) -> IpcacheRow {
    IpcacheRow { identity: IdentityId(identity), tunnel: None, key: 0, flags: 0 }
}

fn put(rows: &[(&str, u32)]) -> KernelOp {
    KernelOp::PutIpcache(rows.iter().map(|&(prefix, id)| (net(prefix), row(id))).collect())
}

fn delete(prefixes: &[&str]) -> KernelOp {
    KernelOp::DeleteIpcache(prefixes.iter().copied().map(net).collect())
}

fn is_ok(answer: &mut Written) -> bool {
    answer.now() == Some(Ok(Ok(())))
}

const A: &str = "10.0.0.1/32";
const B: &str = "10.0.0.2/32";
const C: &str = "fd00::3/128";

#[test]
fn what_the_kernel_has_already_is_not_written() {
    let fixture = Fixture::new(&[(A, 300), (B, 301)]);
    assert!(is_ok(&mut fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)])));
    let mut changed = fixture.upsert(IpcacheSource::Endpoint(EndpointId(2)), &[(B, 302), (C, 302)]);
    assert_eq!(changed.now(), None);
    assert_eq!(fixture.succeed(), [put(&[(B, 302), (C, 302)])]);
    assert!(is_ok(&mut changed));
    assert_eq!(fixture.kernel.pending(), 0);
}

#[test]
fn one_write_is_under_way_and_the_rest_goes_together() {
    let fixture = Fixture::new(&[]);
    let mut first = fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    let mut second = fixture.upsert(IpcacheSource::Endpoint(EndpointId(2)), &[(B, 301)]);
    let mut third = fixture.upsert(IpcacheSource::Endpoint(EndpointId(3)), &[(C, 302)]);
    let mut same = fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    assert_eq!(fixture.kernel.pending(), 1);
    assert_eq!(fixture.succeed(), [put(&[(A, 300)])]);
    assert!(is_ok(&mut first));
    assert_eq!(second.now(), None);
    assert_eq!(fixture.succeed(), [put(&[(B, 301), (C, 302)])]);
    assert!(is_ok(&mut second) && is_ok(&mut third) && is_ok(&mut same));
}

#[test]
fn exceptions_are_written_before_what_they_are_cut_out_of() {
    let fixture = Fixture::new(&[]);
    let (wide, narrow, host) = ("192.0.2.0/24", "192.0.2.128/25", "192.0.2.1/32");
    fixture.upsert(IpcacheSource::Policy, &[(wide, 1), (narrow, 2), (host, 3)]);
    assert_eq!(fixture.succeed(), [put(&[(host, 3), (narrow, 2), (wide, 1)])]);
}

#[test]
fn an_endpoint_covers_the_node_and_the_node_a_policy() {
    let fixture = Fixture::new(&[]);
    fixture.upsert(IpcacheSource::Policy, &[(A, 1 << 24 | 1)]);
    fixture.succeed();
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(7)), &[(A, 300)]);
    fixture.succeed();
    assert!(is_ok(&mut fixture.upsert(IpcacheSource::Node, &[(A, 1)])));
    assert_eq!(fixture.list()[&net(A)].source, IpcacheSource::Endpoint(EndpointId(7)));

    fixture.remove(IpcacheSource::Endpoint(EndpointId(7)), &[A]);
    assert_eq!(fixture.succeed(), [put(&[(A, 1)])]);
    fixture.remove(IpcacheSource::Node, &[A]);
    assert_eq!(fixture.succeed(), [put(&[(A, 1 << 24 | 1)])]);
    let mut last = fixture.remove(IpcacheSource::Policy, &[A]);
    assert_eq!(fixture.succeed(), [delete(&[A])]);
    assert!(is_ok(&mut last));
    assert!(fixture.list().is_empty());
}

#[test]
fn of_two_endpoints_the_latest_counts_and_the_earlier_takes_nothing_away() {
    let fixture = Fixture::new(&[]);
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(7)), &[(A, 300)]);
    fixture.succeed();
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(5)), &[(A, 301)]);
    fixture.succeed();
    assert!(is_ok(&mut fixture.remove(IpcacheSource::Endpoint(EndpointId(7)), &[A])));
    assert_eq!(fixture.list()[&net(A)].identity, IdentityId(301));
}

#[test]
fn only_prune_deletes_what_nobody_named() {
    let fixture = Fixture::new(&[(A, 300), (B, 301), (C, 302)]);
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    assert!(is_ok(&mut fixture.remove(IpcacheSource::Policy, &[B])));
    assert_eq!(fixture.kernel.pending(), 0);
    fixture.ipcache.tell(IpcacheMsg::Prune).unwrap();
    fixture.universe.settle();
    assert_eq!(fixture.succeed(), [delete(&[B, C])]);
    assert_eq!(fixture.list().len(), 1);
}

#[test]
fn what_an_earlier_life_mapped_for_an_endpoint_goes_with_it() {
    let fixture = Fixture::new(&[("10.0.0.1/32", 300), ("10.0.0.2/32", 301)]);
    let mut gone = fixture.remove(IpcacheSource::Endpoint(EndpointId(1)), &["10.0.0.1/32"]);
    assert_eq!(fixture.succeed(), [delete(&["10.0.0.1/32"])]);
    assert!(is_ok(&mut gone));
    assert_eq!(fixture.list().len(), 1);
}

#[test]
fn a_failed_write_is_told_at_once_and_tried_again_ever_later() {
    let fixture = Fixture::new(&[]);
    let mut failed = fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    fixture.fail();
    assert_eq!(failed.now(), Some(Ok(Err(FakeKernel::error()))));
    for wait in [1, 2, 3] {
        assert_eq!(fixture.kernel.pending(), 0);
        fixture.universe.advance(Duration::from_secs(wait));
        assert_eq!(fixture.kernel.pending(), 1, "after {wait} s");
        fixture.fail();
    }
    fixture.universe.advance(Duration::from_secs(4));
    assert_eq!(fixture.succeed(), [put(&[(A, 300)])]);
    fixture.universe.advance(Duration::from_secs(60));
    assert_eq!(fixture.kernel.pending(), 0);
}

#[test]
fn a_row_whose_write_failed_is_written_even_if_it_seems_to_be_there() {
    let fixture = Fixture::new(&[(A, 300)]);
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 301)]);
    fixture.fail();
    let mut back = fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    assert_eq!(back.now(), None);
    assert_eq!(fixture.succeed(), [put(&[(A, 300)])]);
    assert!(is_ok(&mut back));
}

#[test]
fn a_failing_row_does_not_hold_up_others() {
    let fixture = Fixture::new(&[]);
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    fixture.fail();
    let mut other = fixture.upsert(IpcacheSource::Endpoint(EndpointId(2)), &[(B, 301)]);
    assert_eq!(fixture.succeed(), [put(&[(B, 301)])]);
    assert!(is_ok(&mut other));
}

#[test]
fn silence_of_the_kernel_is_a_failure() {
    let fixture = Fixture::new(&[]);
    let mut unheard = fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    fixture.universe.advance(Duration::from_secs(60));
    assert!(matches!(unheard.now(), Some(Ok(Err(error))) if error.cause.contains("deadline")));
    fixture.universe.advance(Duration::from_secs(1));
    assert_eq!(fixture.kernel.pending(), 2);
}

#[test]
fn a_crash_forgets_no_source_and_writes_again_what_was_under_way() {
    let fixture = Fixture::new(&[(A, 300)]);
    fixture.upsert(IpcacheSource::Endpoint(EndpointId(1)), &[(A, 300)]);
    let mut under_way = fixture.upsert(IpcacheSource::Endpoint(EndpointId(2)), &[(B, 301)]);
    fixture.ipcache.tell(IpcacheMsg::List(crash())).unwrap();
    fixture.universe.settle();
    assert!(matches!(under_way.now(), Some(Err(_))));
    fixture.succeed();
    assert_eq!(fixture.succeed(), [put(&[(B, 301)])]);
    fixture.ipcache.tell(IpcacheMsg::Prune).unwrap();
    fixture.universe.settle();
    assert_eq!(fixture.kernel.pending(), 0);
    assert_eq!(fixture.list().len(), 2);
}

#[test]
fn who_asks_again_for_a_removal_that_failed_waits_until_it_is_done() {
    let fixture = Fixture::new(&[]);
    fixture.upsert(IpcacheSource::Cluster, &[(A, 300)]);
    fixture.succeed();
    let mut failed = fixture.remove(IpcacheSource::Cluster, &[A]);
    let mut meanwhile = fixture.remove(IpcacheSource::Cluster, &[A]);
    fixture.fail();
    assert_eq!(failed.now(), Some(Ok(Err(FakeKernel::error()))));
    assert_eq!(meanwhile.now(), None);
    fixture.fail();
    assert_eq!(meanwhile.now(), Some(Ok(Err(FakeKernel::error()))));
    let mut again = fixture.remove(IpcacheSource::Cluster, &[A]);
    assert_eq!(again.now(), None);
    assert_eq!(fixture.succeed(), [delete(&[A])]);
    assert!(is_ok(&mut again));
}

/// Has a row refused for lack of room while others are to go; what is asked of the kernel then.
fn refused(kernel_has: &[(&str, u32)], expected: &str) -> (Fixture, Option<Vec<KernelOp>>) {
    let fixture = Fixture::new(kernel_has);
    // The first batch is of something else: the two in question come in one.
    fixture.upsert(IpcacheSource::Node, &[("192.0.2.1/32", 1)]);
    fixture.upsert(IpcacheSource::Cluster, &[(expected, 400)]);
    fixture.ipcache.tell(IpcacheMsg::Prune).unwrap();
    fixture.universe.settle();
    fixture.succeed();
    fixture.fail();
    let next = (fixture.kernel.pending() > 0).then(|| fixture.succeed());
    (fixture, next)
}

#[test]
fn removals_do_not_wait_for_additions_that_find_no_room() {
    let (fixture, next) = refused(&[(A, 300), (B, 301)], C);
    assert_eq!(next, Some(vec![delete(&[A, B])]));
    assert_eq!(fixture.succeed(), [put(&[(C, 400)])], "at once");
    fixture.universe.advance(Duration::from_secs(60));
    assert_eq!(fixture.kernel.pending(), 0);
    assert_eq!(fixture.list().len(), 2);
}

#[test]
fn who_asks_while_room_is_made_is_answered_when_the_row_is_there() {
    let fixture = Fixture::new(&[(A, 300)]);
    fixture.upsert(IpcacheSource::Node, &[("192.0.2.1/32", 1)]);
    fixture.upsert(IpcacheSource::Cluster, &[(C, 400)]);
    fixture.ipcache.tell(IpcacheMsg::Prune).unwrap();
    let mut asked = fixture.upsert(IpcacheSource::Cluster, &[(B, 401)]);
    fixture.succeed();
    let mut meanwhile = fixture.upsert(IpcacheSource::Cluster, &[("10.0.0.9/32", 402)]);
    fixture.fail();
    assert!(matches!(asked.now(), Some(Ok(Err(_)))));
    assert_eq!(fixture.succeed(), [delete(&[A])]);
    assert_eq!(meanwhile.now(), None, "its row is not there yet");
    assert_eq!(fixture.succeed(), [put(&[(B, 401), ("10.0.0.9/32", 402), (C, 400)])]);
    assert!(is_ok(&mut meanwhile));
}

#[test]
fn a_removal_waits_for_additions_around_it_and_within_it() {
    for (gone, expected) in [(A, "10.0.0.0/24"), ("10.0.0.0/24", A)] {
        let (fixture, next) = refused(&[(gone, 300)], expected);
        assert_eq!(next, None, "{gone} goes with {expected}");
        fixture.universe.advance(Duration::from_secs(1));
        assert_eq!(fixture.succeed(), [put(&[(expected, 400)]), delete(&[gone])]);
    }
    let (_, next) = refused(&[("10.0.0.0/24", 300), (B, 301)], "10.0.0.128/25");
    assert_eq!(next, Some(vec![delete(&[B])]), "beside it");
}
