//! Nanoseconds of the hook that gives a connection a backend, of 100, by the kernel's own count.
//! `cargo run --release -p volvox-bpf-progs --example connect_cost`, as root.

#![allow(clippy::print_stdout, reason = "somebody reads what it measured")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on panics")]

#[path = "../tests/datapath/common/mod.rs"]
mod common;

use aya::sys::{Stats, enable_stats};
use common::{SERVICE, Sockets, UDP, random_service, service_address};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use volvox_bpf_progs::SocketHook;
use volvox_bpf_progs::layouts::BackendState;

const BACKENDS: u32 = 100;
const TURNS: usize = 50;
const CONNECTS: u64 = 1000;

fn main() {
    let mut sockets = Sockets::new();
    let _counted = enable_stats(Stats::RunTime).unwrap();
    for (name, local, hook) in [
        ("IPv4", IpAddr::from([127, 0, 0, 1]), SocketHook::Connect4),
        ("IPv6", Ipv6Addr::LOCALHOST.into(), SocketHook::Connect6),
    ] {
        for id in 1..=BACKENDS {
            let at = (local, 10_000 + id as u16).into();
            sockets.node.backend(id, at, 0, BackendState::Active);
        }
        let service: SocketAddr = (service_address(local), 80).into();
        let ids: Vec<u32> = (1..=BACKENDS).collect();
        sockets.node.service(service, UDP, random_service(SERVICE), &ids);
        for (what, to, fresh) in [
            ("a service, by new sockets", service, true),
            ("a service, once more", service, false),
            ("no service", (local, 9).into(), false),
        ] {
            let socket = UdpSocket::bind((local, 0)).unwrap();
            let mut costs: Vec<u64> = (0..TURNS)
                .map(|_| {
                    let (time, runs) = sockets.cost(hook);
                    for _ in 0..CONNECTS {
                        if fresh {
                            UdpSocket::bind((local, 0)).unwrap().connect(to).unwrap();
                        } else {
                            socket.connect(to).unwrap();
                        }
                    }
                    let (after, all) = sockets.cost(hook);
                    assert_eq!(all - runs, CONNECTS);
                    (after - time) / CONNECTS
                })
                .collect();
            costs.sort_unstable();
            println!("{name}, to {what}: min {}, median {} ns", costs[0], costs[TURNS / 2]);
        }
    }
}
