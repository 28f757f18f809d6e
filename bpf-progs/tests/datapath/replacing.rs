//! Rows are replaced while packets pass by them: none is dropped or goes astray. The tables of these
//! tests have few buckets, so that whoever looks for a row passes others on the way.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use aya::maps::{Array, HashMap, HashOfMaps, MapData};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::maps::MAGLEV_SIZE;

type Table = Array<MapData, [u32; MAGLEV_SIZE as usize]>;

/// Services whose backends are replaced in turn.
const SERVICES: u16 = 8;
/// Backends of each of them, of the sets that take turns: they shrink and grow.
const SIZES: [u16; 2] = [13, 8];
const TIME: Duration = Duration::from_secs(2);
const TIME_MAX: Duration = Duration::from_secs(60);
/// Replacements, and packets meanwhile, at least, lest the test tell nothing.
const TURNS_MIN: u32 = 100;
const PORT: u16 = 30_080;

/// The id of a service's backend in a set.
fn id(set: u32, service: u16, n: u16) -> u32 {
    ((set % 200) * u32::from(SERVICES) + u32::from(service)) * 16 + u32::from(n) + 1
}

/// Whether a backend is of one of these sets of a service.
fn is_of(backend: u32, sets: std::ops::RangeInclusive<u32>, service: u16) -> bool {
    let mut sets = sets;
    sets.any(|set| (0..SIZES[set as usize % 2]).any(|n| id(set, service, n) == backend))
}

/// The address of a backend, which ends with its id.
fn backend_at(id: u32, v6: bool) -> SocketAddr {
    if v6 {
        SocketAddrV6::new(Ipv6Addr::from((0x2001 << 112) + u128::from(id)), 8080, 0, 0).into()
    } else {
        SocketAddrV4::new(Ipv4Addr::from(0x0b00_0000 + id), 8080).into()
    }
}

/// The id of the backend to which a frame goes.
fn reached(frame: &[u8], v6: bool) -> u32 {
    let end = if v6 { 54 } else { 34 };
    u32::from_be_bytes(frame[end - 4..end].try_into().unwrap()) & 0xff_ffff
}

/// The maps of a family, in the hands of whom replaces.
struct Agent<K, B> {
    services: HashMap<MapData, K, LbRow>,
    members: HashMap<MapData, MemberKey, B>,
    /// The key of a service's slot, as a scope has it.
    key: Box<dyn Fn(LbScope, u16, u16) -> K + Send>,
    row: fn(MemberKey, BackendState) -> B,
    /// Slot 0, without what differs between services.
    service: LbRow,
    tables: HashOfMaps<MapData, [u8; 2], Table>,
}

/// Whoever replaces rows of services.
trait Replace: Send {
    /// Writes all rows of a set of backends: what is new goes in before anything names it.
    fn put(&mut self, set: u32, service: u16);
    /// Puts a set in the place of the one before: what is old goes when nothing names it.
    fn replace(&mut self, set: u32, service: u16);
    /// Writes the row of a backend anew, in one of two states.
    fn touch(&mut self, service: u16, backend: u32, state: BackendState);
}

impl<K, B> Agent<K, B> {
    /// Where clients inside the cluster find backends.
    fn scope(&self) -> LbScope {
        let has_two = self.service.flags2 & LbFlags2::TWO_SCOPES != 0;
        if has_two { LbScope::Internal } else { LbScope::External }
    }
}

impl<K: aya::Pod + Send, B: aya::Pod + Send> Replace for Agent<K, B> {
    fn put(&mut self, set: u32, service: u16) {
        let size = SIZES[set as usize % 2];
        let rev_nat = Be16::new(SERVICE + service);
        for n in 0..size {
            self.touch(service, id(set, service, n), BackendState::Active);
        }
        for n in 0..size {
            let slot = LbRow { backend: id(set, service, n), rev_nat, ..LbRow::default() };
            self.services.insert((self.key)(self.scope(), service, n + 1), slot, 0).unwrap();
        }
        if self.service.backend == LbRow::choice(LbAlgorithm::Maglev, 0) {
            let ids = std::array::from_fn(|at| id(set, service, at as u16 % size));
            let mut table = Table::create(1, 0).unwrap();
            table.set(0, ids, 0).unwrap();
            self.tables.insert((SERVICE + service).to_be_bytes(), &table, 0).unwrap();
        }
        let whole = LbRow { count: size, rev_nat, ..self.service };
        self.services.insert((self.key)(self.scope(), service, 0), whole, 0).unwrap();
        if self.scope() == LbScope::Internal {
            // No backend is here for clients outside the cluster.
            let outer = LbRow { count: 0, ..whole };
            self.services.insert((self.key)(LbScope::External, service, 0), outer, 0).unwrap();
        }
    }

    fn replace(&mut self, set: u32, service: u16) {
        let (size, before) = (SIZES[set as usize % 2], SIZES[(set as usize + 1) % 2]);
        self.put(set, service);
        for slot in size + 1..=before {
            self.services.remove(&(self.key)(self.scope(), service, slot)).unwrap();
        }
        for n in 0..before {
            let key = MemberKey::new(id(set - 1, service, n), SERVICE + service);
            self.members.remove(&key).unwrap();
        }
    }

    fn touch(&mut self, service: u16, backend: u32, state: BackendState) {
        let key = MemberKey::new(backend, SERVICE + service);
        self.members.insert(key, (self.row)(key, state), 0).unwrap();
    }
}

/// How a frame gets to the services.
type Sending = Box<dyn Fn(&mut Node, &[u8]) -> Outcome>;

/// A node with services, and who uses them.
struct Way {
    node: Node,
    client: IpAddr,
    service: IpAddr,
    send: Sending,
    action: u32,
    row: LbRow,
}

/// From an endpoint.
fn inside(v6: bool) -> Way {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
    let client = if v6 { a.v6() } else { a.v4() };
    let send = Box::new(move |node: &mut Node, frame: &[u8]| node.send(&a, frame));
    let (service, row) = (service_address(client), random_service(SERVICE));
    Way { node, client, service, send, action: OK, row }
}

/// From the wire.
fn outside(v6: bool) -> Way {
    let world = World::new();
    route_outside();
    let (_, service, client) = world.families()[usize::from(v6)];
    let World { node, up, .. } = world;
    let send = Box::new(move |node: &mut Node, frame: &[u8]| node.receive(&up, frame));
    Way { node, client, service, send, action: REDIRECT, row: open_service(SERVICE) }
}

impl Way {
    /// The first set of each service, and who replaces it.
    fn serve(&mut self) -> Box<dyn Replace> {
        let service = self.service;
        for n in 0..SERVICES {
            let row = LbRow { rev_nat: Be16::new(SERVICE + n), ..self.row };
            self.node.service((service, PORT + n).into(), UDP, row, &[]);
        }
        let key = move |scope, n| LbKey::new((service, PORT + n).into(), UDP, scope);
        let mut take = |name| self.node.ebpf.take_map(name).unwrap();
        let mut agent: Box<dyn Replace> = if service.is_ipv4() {
            let row = |key: MemberKey, state| match backend_at(key.backend, false) {
                SocketAddr::V4(at) => Member4Row::new(key, at, 0, state),
                SocketAddr::V6(_) => unreachable!(),
            };
            let key = move |scope, n, slot| match key(scope, n) {
                LbKey::V4(key) => Lb4Key { slot, ..key },
                LbKey::V6(_) => unreachable!(),
            };
            Box::new(Agent {
                services: take("cilium_lb4_services_v2").try_into().unwrap(),
                tables: take("cilium_lb4_maglev").try_into().unwrap(),
                members: take("volvox_lb4_members").try_into().unwrap(),
                key: Box::new(key),
                row,
                service: self.row,
            })
        } else {
            let row = |key: MemberKey, state| match backend_at(key.backend, true) {
                SocketAddr::V6(at) => Member6Row::new(key, at, 0, state),
                SocketAddr::V4(_) => unreachable!(),
            };
            let key = move |scope, n, slot| match key(scope, n) {
                LbKey::V6(key) => Lb6Key { slot, ..key },
                LbKey::V4(_) => unreachable!(),
            };
            Box::new(Agent {
                services: take("cilium_lb6_services_v2").try_into().unwrap(),
                tables: take("cilium_lb6_maglev").try_into().unwrap(),
                members: take("volvox_lb6_members").try_into().unwrap(),
                key: Box::new(key),
                row,
                service: self.row,
            })
        };
        (0..SERVICES).for_each(|n| agent.put(0, n));
        agent
    }

    /// Sends to one of the services from a port; tells which backend it reaches.
    fn ask(&mut self, service: u16, port: u16) -> u32 {
        let frame = sealed(udp(self.client, self.service, port, PORT + service));
        let got = (self.send)(&mut self.node, &frame);
        assert_eq!(got.action, self.action, "dropped: {:?}", self.node.drops());
        reached(&got.frame, self.service.is_ipv6())
    }
}

/// Ends the other thread, also when this one fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Has `replace` called with the number of each turn, from 1 on, while `ask` is called again and again
/// with what counts the turns, the one that runs included.
fn while_it_replaces(mut replace: impl FnMut(u32) + Send, mut ask: impl FnMut(&AtomicU32)) {
    let (stopped, turn) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut asked = 0;
    thread::scope(|scope| {
        let _stop = Stop(&stopped);
        scope.spawn(|| {
            for n in 1.. {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                turn.store(n, Ordering::SeqCst);
                replace(n);
            }
        });
        let begin = Instant::now();
        // On a busy machine one of the two may hardly run: that is no fault of theirs.
        let few = |asked: u32| turn.load(Ordering::SeqCst).min(asked) < TURNS_MIN;
        while begin.elapsed() < TIME || (few(asked) && begin.elapsed() < TIME_MAX) {
            ask(&turn);
            asked += 1;
        }
    });
    let turns = turn.into_inner();
    assert!(turns.min(asked) >= TURNS_MIN, "only {turns} turns and {asked} packets");
}

/// Sends to services while their backends are replaced, those of `replaced` services at each turn, each
/// packet from one port of some that have a connection already or begin one.
fn backends_are_replaced(mut way: Way, replaced: u16) {
    let mut agent = way.serve();
    let mut sent = 0u16;
    let replace = |set| (0..replaced).for_each(|service| agent.replace(set, service));
    while_it_replaces(replace, |set| {
        sent = sent.wrapping_add(1);
        let (service, port) = (sent % replaced, 1024 + sent % 499);
        let oldest = set.load(Ordering::SeqCst).saturating_sub(1);
        let reached = way.ask(service, port);
        let sets = oldest..=set.load(Ordering::SeqCst);
        assert!(is_of(reached, sets.clone(), service), "{reached} is in none of the sets {sets:?}");
    });
    assert_eq!(way.node.drops(), [].into());
}

fn all_backends_are_replaced(way: Way) {
    backends_are_replaced(way, SERVICES);
}

#[test]
fn no_packet_is_dropped_while_all_backends_are_replaced() {
    all_backends_are_replaced(inside(false));
    all_backends_are_replaced(inside(true));
}

#[test]
fn no_packet_from_outside_is_dropped_while_all_backends_are_replaced() {
    all_backends_are_replaced(outside(false));
    all_backends_are_replaced(outside(true));
}

#[test]
fn no_packet_is_dropped_while_a_service_with_two_scopes_is_replaced() {
    for v6 in [false, true] {
        let mut way = inside(v6);
        way.row.flags2 |= LbFlags2::TWO_SCOPES;
        all_backends_are_replaced(way);
    }
}

#[test]
fn no_packet_is_dropped_while_tables_are_replaced() {
    for v6 in [false, true] {
        for mut way in [inside(v6), outside(v6)] {
            way.row.backend = LbRow::choice(LbAlgorithm::Maglev, 0);
            // Each table waits for the kernel.
            backends_are_replaced(way, 1);
        }
    }
}

/// The rows of backends are written while connections have them.
fn backends_change(mut way: Way) {
    let mut agent = way.serve();
    let ports = 2000..2016;
    let of = |port: u16| port % SERVICES;
    let had: Vec<u32> = ports.clone().map(|port| way.ask(of(port), port)).collect();
    let states = [BackendState::Terminating, BackendState::Active];
    let replace = |turn: u32| {
        for service in 0..SERVICES {
            for n in 0..SIZES[0] {
                agent.touch(service, id(0, service, n), states[turn as usize % 2]);
            }
        }
    };
    let mut asked = ports.clone().zip(had).cycle();
    while_it_replaces(replace, |_| {
        let (port, had) = asked.next().unwrap();
        assert_eq!(way.ask(of(port), port), had, "port {port} got another backend");
    });
}

#[test]
fn a_connection_keeps_its_backend_while_the_backends_row_is_replaced() {
    backends_change(inside(false));
    backends_change(inside(true));
    backends_change(outside(false));
    backends_change(outside(true));
}

/// All rows of services are written anew while a client that keeps its backend opens connections.
fn clients_stay(mut way: Way) {
    way.row.backend = LbRow::choice(LbAlgorithm::Random, 600);
    way.row.flags |= LbFlags::AFFINITY;
    for service in 0..SERVICES {
        for n in 0..SIZES[0] {
            let key = AffinityMatchKey::new(id(0, service, n), SERVICE + service);
            way.node.put("cilium_lb_affinity_match", key, 0u8);
        }
    }
    let mut agent = way.serve();
    let had: Vec<u32> = (0..SERVICES).map(|service| way.ask(service, 1000)).collect();
    let mut sent = 0u16;
    while_it_replaces(
        |_| (0..SERVICES).for_each(|service| agent.put(0, service)),
        |_| {
            sent = sent.wrapping_add(1);
            let (service, port) = (sent % SERVICES, 1024 + sent % 60_000);
            let had = had[usize::from(service)];
            assert_eq!(way.ask(service, port), had, "another backend of service {service}");
        },
    );
}

#[test]
fn a_client_stays_with_its_backend_while_all_rows_of_the_service_are_replaced() {
    clients_stay(inside(false));
    clients_stay(inside(true));
}

#[test]
fn an_endpoint_is_never_without_its_row_while_it_is_replaced() {
    let mut way = inside(false);
    let endpoint = way.node.endpoint(2);
    let key = PolicyKey::any(Direction::Egress, 0);
    way.node.rules(&endpoint, &[(key, PolicyRow::allow(&key, 0))]);
    let map = way.node.ebpf.take_map("volvox_config").unwrap();
    let mut configs: HashMap<MapData, u32, ConfigRow> = map.try_into().unwrap();
    let row = endpoint.config();
    // Others fill the buckets, and are replaced as well.
    let others = (1000..1120).map(|ifindex| ConfigRow { ifindex, ..row });
    let rows: Vec<_> = others.chain([row]).collect();
    let replace = |_| {
        for row in &rows {
            configs.insert(row.ifindex, row, 0).unwrap();
        }
    };
    let frame = udp(endpoint.v4(), "192.0.2.1".parse().unwrap(), 1, 2);
    while_it_replaces(replace, |_| {
        let got = way.node.send(&endpoint, &frame);
        assert_eq!(got.action, OK, "dropped: {:?}", way.node.drops());
    });
}

#[test]
fn the_addresses_of_the_test_say_which_backend_was_reached() {
    let client: IpAddr = "10.0.0.1".parse().unwrap();
    let frame = udp(client, backend_at(id(3, 2, 1), false).ip(), 1, 2);
    assert_eq!(reached(&frame, false), id(3, 2, 1));
    assert!(is_of(id(3, 2, 1), 2..=3, 2) && !is_of(id(3, 2, 1), 2..=2, 2));
}
