//! Clients that keep their backend from connection to connection.

use crate::common::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use volvox_bpf_progs::layouts::*;

/// Seconds.
const TIMEOUT: u32 = 100;

/// Two clients and a service of four backends, in one family.
struct World {
    node: Node,
    clients: [Endpoint; 2],
    v6: bool,
}

impl World {
    fn both() -> [Self; 2] {
        [false, true].map(|v6| {
            let mut node = Node::new();
            let clients = [node.endpoint(1), node.endpoint(2)];
            let key = PolicyKey::any(Direction::Egress, 0);
            for client in &clients {
                node.rules(client, &[(key, PolicyRow::allow(&key, 0))]);
            }
            let mut world = Self { node, clients, v6 };
            let frontend: SocketAddr = (service_address(world.client(0)), 80).into();
            for id in 1..=4 {
                let address: IpAddr = match v6 {
                    false => Ipv4Addr::new(192, 0, 2, id).into(),
                    true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, id.into()).into(),
                };
                let id = id.into();
                world.node.backend(id, (address, 8080).into(), 0, BackendState::Active);
                world.node.put("cilium_lb_affinity_match", AffinityMatchKey::new(id, SERVICE), 0u8);
            }
            let backend = LbRow::choice(LbAlgorithm::Random, TIMEOUT);
            let row = LbRow { backend, flags: LbFlags::AFFINITY, ..random_service(SERVICE) };
            world.node.service(frontend, UDP, row, &[1, 2, 3, 4]);
            world
        })
    }

    fn client(&self, which: usize) -> IpAddr {
        if self.v6 { self.clients[which].v6() } else { self.clients[which].v4() }
    }

    /// The backend that a client's connection from a port reaches.
    fn reached(&mut self, which: usize, port: u16) -> u32 {
        let (from, client) = (self.clients[which], self.client(which));
        let got = self.node.send(&from, &udp(client, service_address(client), port, 80));
        assert_eq!(got.action, OK, "{:?}", self.node.drops());
        got.frame[if self.v6 { 53 } else { 33 }].into()
    }

    /// What is noted of a client.
    fn noted(&mut self, which: usize) -> Option<AffinityRow> {
        match self.client(which) {
            IpAddr::V4(client) => {
                self.node.read("cilium_lb4_affinity", Affinity4Key::of_address(client, SERVICE))
            }
            IpAddr::V6(client) => {
                self.node.read("cilium_lb6_affinity", Affinity6Key::of_address(client, SERVICE))
            }
        }
    }

    fn note(&mut self, which: usize, row: AffinityRow) {
        match self.client(which) {
            IpAddr::V4(client) => {
                self.node.put("cilium_lb4_affinity", Affinity4Key::of_address(client, SERVICE), row)
            }
            IpAddr::V6(client) => {
                self.node.put("cilium_lb6_affinity", Affinity6Key::of_address(client, SERVICE), row)
            }
        }
    }
}

#[test]
fn a_client_keeps_its_backend() {
    for mut world in World::both() {
        let first = world.reached(0, 1);
        assert_eq!(world.noted(0).unwrap().backend, first);
        for port in 2..200 {
            assert_eq!(world.reached(0, port), first);
        }
    }
}

#[test]
fn each_client_has_its_own() {
    for mut world in World::both() {
        world.note(0, AffinityRow { last_used: now().into(), backend: 3, pad: 0 });
        world.note(1, AffinityRow { last_used: now().into(), backend: 4, pad: 0 });
        assert_eq!((world.reached(0, 1), world.reached(1, 1)), (3, 4));
    }
}

#[test]
fn after_a_while_without_use_the_choice_is_free() {
    for mut world in World::both() {
        let long_ago = u64::from(now()) - u64::from(TIMEOUT) - 1;
        let mut reached = BTreeSet::new();
        for port in 1..200 {
            world.note(0, AffinityRow { last_used: long_ago, backend: 3, pad: 0 });
            reached.insert(world.reached(0, port));
        }
        assert_eq!(reached, (1..=4).collect());
    }
}

#[test]
fn a_connection_that_goes_on_is_use() {
    for mut world in World::both() {
        let backend = world.reached(0, 1);
        let earlier = u64::from(now()) - u64::from(TIMEOUT) + 10;
        world.note(0, AffinityRow { last_used: earlier, backend, pad: 0 });
        // Used in this second already, as far as tracking knows: the next one counts.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert_eq!(world.reached(0, 1), backend);
        assert!(world.noted(0).unwrap().last_used > earlier);
    }
}

#[test]
fn a_backend_that_the_service_has_no_more_is_not_kept() {
    for mut world in World::both() {
        for port in 1..50 {
            world.note(0, AffinityRow { last_used: now().into(), backend: 9, pad: 0 });
            assert_ne!(world.reached(0, port), 9);
        }
    }
}

#[test]
fn a_backend_that_takes_nobody_new_is_not_kept() {
    for mut world in World::both() {
        let address: IpAddr = match world.v6 {
            false => Ipv4Addr::new(192, 0, 2, 3).into(),
            true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3).into(),
        };
        world.node.backend(3, (address, 8080).into(), 0, BackendState::Terminating);
        for port in 1..50 {
            world.note(0, AffinityRow { last_used: now().into(), backend: 3, pad: 0 });
            assert_ne!(world.reached(0, port), 3);
        }
    }
}
