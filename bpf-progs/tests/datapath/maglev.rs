//! Backends chosen by a table that every node computes alike.

use crate::common::*;
use aya::maps::{Array, HashOfMaps, MapData};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{Features, maps::MAGLEV_SIZE};

type Table = Array<MapData, [u32; MAGLEV_SIZE as usize]>;

/// A client and a service of three backends, in one family.
struct World {
    node: Node,
    a: Endpoint,
    v6: bool,
    tables: Vec<Table>,
}

impl World {
    fn new(v6: bool, features: Features) -> Self {
        let mut node = Node::with(features);
        let a = node.endpoint(1);
        let key = PolicyKey::any(Direction::Egress, 0);
        node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
        let client = if v6 { a.v6() } else { a.v4() };
        let frontend: SocketAddr = (service_address(client), 80).into();
        for id in 1..=3 {
            let address: IpAddr = match v6 {
                false => Ipv4Addr::new(192, 0, 2, id).into(),
                true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, id.into()).into(),
            };
            node.backend(id.into(), (address, 8080).into(), 0, BackendState::Active);
        }
        let backend = LbRow::choice(LbAlgorithm::Maglev, 0);
        let row = LbRow { backend, ..random_service(SERVICE) };
        node.service(frontend, UDP, row, &[1, 2, 3]);
        Self { node, a, v6, tables: Vec::new() }
    }

    fn both() -> [Self; 2] {
        [false, true].map(|v6| Self::new(v6, Features::default()))
    }

    /// Gives the service a table.
    fn table(&mut self, backend: impl Fn(usize) -> u32) {
        let name = if self.v6 { "cilium_lb6_maglev" } else { "cilium_lb4_maglev" };
        let mut table = Table::create(1, 0).unwrap();
        let ids = std::array::from_fn(backend);
        table.set(0, ids, 0).unwrap();
        self.node.map::<HashOfMaps<_, [u8; 2], Table>>(name, |mut tables| {
            tables.insert(SERVICE.to_be_bytes(), &table, 0).unwrap();
        });
        self.tables.push(table);
    }

    fn reached(&mut self, port: u16) -> u32 {
        let (a, client) = (self.a, if self.v6 { self.a.v6() } else { self.a.v4() });
        let got = self.node.send(&a, &udp(client, service_address(client), port, 80));
        assert_eq!(got.action, OK, "{:?}", self.node.drops());
        got.frame[if self.v6 { 53 } else { 33 }].into()
    }

    fn all(&mut self, ports: std::ops::Range<u16>) -> BTreeSet<u32> {
        ports.map(|port| self.reached(port)).collect()
    }
}

#[test]
fn the_table_decides() {
    for mut world in World::both() {
        world.table(|_| 2);
        assert_eq!(world.all(1..200), [2].into());
        world.table(|at| if at % 2 == 0 { 1 } else { 3 });
        assert_eq!(world.all(200..400), [1, 3].into());
    }
}

#[test]
fn connections_use_the_whole_table() {
    for mut world in World::both() {
        // Each third of the table is another backend's.
        world.table(|at| 1 + (at * 3 / MAGLEV_SIZE as usize) as u32);
        let mut counts = [0; 4];
        for port in 1..=900 {
            counts[world.reached(port) as usize] += 1;
        }
        assert!(counts[1..].iter().all(|count| (200..400).contains(count)), "{counts:?}");
    }
}

#[test]
fn nodes_agree() {
    for v6 in [false, true] {
        let [first, second] = [0, 1].map(|_| {
            let mut world = World::new(v6, Features::default());
            world.table(|at| 1 + at as u32 % 3);
            (1..100).map(|port| world.reached(port)).collect::<Vec<_>>()
        });
        assert_eq!(first, second);
    }
}

#[test]
fn without_a_table_any_backend_serves() {
    for mut world in World::both() {
        assert_eq!(world.all(1..200), [1, 2, 3].into());
    }
}

#[test]
fn a_backend_of_the_table_that_is_gone_is_passed_over() {
    for mut world in World::both() {
        world.table(|_| 77);
        assert_eq!(world.all(1..200), [1, 2, 3].into());
    }
}

#[test]
fn programs_cope_with_tables_of_any_size() {
    for size in [251, 16381] {
        let mut world = World::new(false, Features { maglev: size, ..Features::default() });
        let first = size as usize;
        world.table(|at| if at < first { 2 } else { 1 });
        assert_eq!(world.all(1..500), [2].into(), "only the first {size} are looked at");
    }
}
