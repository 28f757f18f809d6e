//! All backends of a service are replaced while packets go to it: none is dropped, and each reaches
//! a backend of the old or of the new set.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use aya::maps::{HashMap, MapData};
use common::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use volvox_bpf_progs::layouts::*;

/// Backends of the sets that take turns: they shrink and grow.
const SIZES: [u16; 2] = [100, 60];
const TIME: Duration = Duration::from_secs(2);
/// Sets that have been in use at least, lest the test tell nothing.
const SETS_MIN: u32 = 20;

/// The maps of a family, in the hands of whom replaces.
struct Agent<K, B> {
    services: HashMap<MapData, K, LbRow>,
    backends: HashMap<MapData, u32, B>,
}

/// The id of a set's backend.
fn id(set: u32, n: u16) -> u32 {
    (set % 200) * 100 + u32::from(n) + 1
}

impl<K: aya::Pod, B: aya::Pod> Agent<K, B> {
    fn of(node: &mut Node, services: &str, backends: &str) -> Self {
        let mut take = |name| node.ebpf.take_map(name).unwrap();
        let (services, backends) = (take(services), take(backends));
        Self { services: services.try_into().unwrap(), backends: backends.try_into().unwrap() }
    }

    /// What is new goes in before anything names it; what is old goes when nothing names it.
    fn replace(&mut self, set: u32, key: impl Fn(u16) -> K, row: impl Fn(u32) -> B) {
        let (size, before) = (SIZES[set as usize % 2], SIZES[(set as usize + 1) % 2]);
        for n in 0..size {
            self.backends.insert(id(set, n), row(id(set, n)), 0).unwrap();
        }
        for n in 0..size {
            let slot =
                LbRow { backend: id(set, n), rev_nat: Be16::new(SERVICE), ..LbRow::default() };
            self.services.insert(key(n + 1), slot, 0).unwrap();
        }
        self.services.insert(key(0), LbRow { count: size, ..random_service(SERVICE) }, 0).unwrap();
        if set == 0 {
            return;
        }
        for slot in size + 1..=before {
            self.services.remove(&key(slot)).unwrap();
        }
        for n in 0..before {
            self.backends.remove(&id(set - 1, n)).unwrap();
        }
    }
}

/// Replaces until it is told to stop; `current` is the newest set that may be in use.
fn keep_replacing(stop: &AtomicBool, current: &AtomicU32, mut replace: impl FnMut(u32)) {
    for set in 1.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        current.store(set, Ordering::SeqCst);
        replace(set);
    }
}

/// Sends to the service while its backends are replaced, each packet from one port of some that
/// have a connection already or begin one.
fn run(v6: bool) {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
    let client = if v6 { a.v6() } else { a.v4() };
    let frontend: SocketAddr = (service_address(client), 80).into();
    node.service(frontend, UDP, random_service(SERVICE), &[]);
    let (stop, current) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut replace: Box<dyn FnMut(u32) + Send> = match LbKey::new(frontend, UDP, LbScope::External)
    {
        LbKey::V4(key) => {
            let mut agent =
                Agent::of(&mut node, "cilium_lb4_services_v2", "cilium_lb4_backends_v3");
            let row = |id: u32| {
                let at = SocketAddrV4::new(Ipv4Addr::from(0xc000_0000 + id), 8080);
                Backend4Row::new(at, 0, BackendState::Active)
            };
            Box::new(move |set| agent.replace(set, |slot| Lb4Key { slot, ..key }, row))
        }
        LbKey::V6(key) => {
            let mut agent =
                Agent::of(&mut node, "cilium_lb6_services_v2", "cilium_lb6_backends_v3");
            let row = |id: u32| {
                let at =
                    SocketAddrV6::new(Ipv6Addr::from((0x2001 << 112) + u128::from(id)), 8080, 0, 0);
                Backend6Row::new(at, 0, BackendState::Active)
            };
            Box::new(move |set| agent.replace(set, |slot| Lb6Key { slot, ..key }, row))
        }
    };
    replace(0);
    let sets = std::thread::scope(|scope| {
        scope.spawn(|| keep_replacing(&stop, &current, replace));
        let begin = Instant::now();
        let mut port = 0u16;
        while begin.elapsed() < TIME {
            port = if port.is_multiple_of(3) { port.wrapping_add(7) } else { port.wrapping_add(1) };
            let before = current.load(Ordering::SeqCst);
            let got = node.send(&a, &udp(client, frontend.ip(), 1 + port % 500, 80));
            let after = current.load(Ordering::SeqCst);
            assert_eq!(got.action, OK, "dropped: {:?}", node.drops());
            let reached = reached(&got.frame, v6);
            let known = |set| (0..SIZES[set as usize % 2]).any(|n| id(set, n) == reached);
            let oldest = before.saturating_sub(1);
            assert!((oldest..=after).any(known), "{reached} of none of {oldest} to {after}");
        }
        stop.store(true, Ordering::SeqCst);
        current.load(Ordering::SeqCst)
    });
    assert!(sets >= SETS_MIN, "only {sets} sets");
    assert_eq!(node.drops(), [].into());
}

/// The backend's id, which is the end of its address.
fn reached(frame: &[u8], v6: bool) -> u32 {
    let end = if v6 { 54 } else { 34 };
    u32::from_be_bytes(frame[end - 4..end].try_into().unwrap()) & 0xff_ffff
}

#[test]
fn no_packet_is_dropped_while_all_backends_are_replaced() {
    run(false);
    run(true);
}

#[test]
fn the_addresses_of_the_test_say_which_backend_was_reached() {
    let frame = udp("10.0.0.1".parse::<IpAddr>().unwrap(), "192.0.1.7".parse().unwrap(), 1, 2);
    assert_eq!(reached(&frame, false), 0x107);
}
