//! Tests: a translation goes when its connection is gone, and not before.

use std::{cell::Cell, net::Ipv4Addr};

use rustix::time::{ClockId, clock_gettime};
use volvox_actors::{model::Families, ports::Swept};
use volvox_bpf_progs::layouts::{
    Ct4Key, Ct6Key, CtRow, Nat4Key, Nat4Row, Nat6Key, Nat6Row, TupleFlags,
};

use super::{connections::collect_connections, sandbox::Sandbox};
use crate::datapath::{Datapath, conntrack, nat};

const TCP: u8 = 6;
const UDP: u8 = 17;
const POD: [u8; 4] = [10, 9, 0, 1];
const NODE: [u8; 4] = [192, 0, 2, 1];
const WORLD: [u8; 4] = [198, 51, 100, 7];

/// Both rows of a flow that leaves with another port.
fn translated(datapath: &Datapath, protocol: u8, port: u16) {
    let nat = &datapath.maps.nat4;
    let (pod, node) = (port.into(), (port + 1000).into());
    let out = Nat4Key {
        daddr: WORLD,
        saddr: POD,
        dport: 443.into(),
        sport: pod,
        protocol,
        flags: TupleFlags::OUT,
    };
    nat.put(&out, &Nat4Row { address: NODE, port: node, ..Nat4Row::default() }).unwrap();
    let back = Nat4Key {
        daddr: NODE,
        saddr: WORLD,
        dport: node,
        sport: 443.into(),
        protocol,
        flags: TupleFlags::IN,
    };
    nat.put(&back, &Nat4Row { address: POD, port: pod, ..Nat4Row::default() }).unwrap();
}

/// The opener's entry of that flow.
fn tracked(datapath: &Datapath, protocol: u8, port: u16, lifetime: u32) {
    let key = Ct4Key {
        daddr: POD,
        saddr: WORLD,
        dport: 443.into(),
        sport: port.into(),
        protocol,
        flags: TupleFlags::OUT,
    };
    let table = &datapath.maps.ct4[usize::from(protocol != TCP)];
    table.put(&key, &CtRow { lifetime, ..CtRow::default() }).unwrap();
}

/// Looks at all translations.
fn collect(datapath: &Datapath) -> Swept {
    nat::collect(&datapath.maps, Families::DUAL).unwrap()
}

/// Second of the clock that programs read.
fn now() -> u32 {
    u32::try_from(clock_gettime(ClockId::Monotonic).tv_sec).unwrap()
}

#[test]
fn translations_go_with_their_connections_and_not_before() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        for (protocol, port) in [(TCP, 40_000), (UDP, 40_000), (TCP, 41_000), (UDP, 41_000)] {
            translated(&datapath, protocol, port);
        }
        tracked(&datapath, TCP, 40_000, now() + 60);
        tracked(&datapath, UDP, 40_000, now() + 60);
        tracked(&datapath, TCP, 41_000, now() - 1);
        let other = Families { ipv4: false, ipv6: true };
        assert_eq!(nat::collect(&datapath.maps, other).unwrap(), Swept::default());
        assert_eq!(collect_connections(&datapath, other), Swept::default());
        assert_eq!(collect(&datapath), Swept { seen: 8, deleted: 2 });
        // What lived a second ago goes with the sweep of connections, in the same round.
        collect_connections(&datapath, Families::DUAL);
        assert_eq!(collect(&datapath), Swept { seen: 6, deleted: 2 });
        assert_eq!(collect(&datapath), Swept { seen: 4, deleted: 0 });
        let left = volvox_maps::Dump::at(sandbox.root()).translations().unwrap();
        let ports = left.iter().map(|it| (it.direction, it.protocol, it.becomes.port));
        let ports: Vec<_> = ports.collect();
        assert_eq!(
            ports,
            [("out", TCP, 41_000), ("out", UDP, 41_000), ("in", TCP, 40_000), ("in", UDP, 40_000)]
        );
        assert!(
            left.iter().all(|it| it.direction == "in" || it.from.address == Ipv4Addr::from(POD))
        );
    });
}

#[test]
fn a_connection_that_revives_while_it_is_collected_stays() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        for port in [40_000, 41_000] {
            tracked(&datapath, TCP, port, now() - 1);
        }
        let mut swept = Swept::default();
        let revived = Cell::new(false);
        let tcp = &datapath.maps.ct4[0];
        // What a packet does between the look at a batch and the removal of its rows.
        let doomed = |key: &Ct4Key, row: &CtRow| {
            if key.sport.get() == 40_000 && !revived.replace(true) {
                tracked(&datapath, TCP, 40_000, now() + 60);
            }
            row.lifetime < now()
        };
        conntrack::sweep(tcp, &mut swept, doomed).unwrap();
        assert_eq!(swept, Swept { seen: 2, deleted: 1 });
        let mut left = Vec::new();
        tcp.for_each(|key, _| left.push(key.sport.get())).unwrap();
        assert_eq!(left, [40_000]);
    });
}

#[test]
fn translations_of_ipv6_go_with_theirs() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        let [pod, node, world] = [1, 2, 3].map(address);
        for port in [50_000, 51_000] {
            let sport = u16::into(port);
            let (protocol, dport) = (UDP, 53.into());
            let out = Nat6Key {
                daddr: world,
                saddr: pod,
                dport,
                sport,
                protocol,
                flags: TupleFlags::OUT,
            };
            let row = |address| Nat6Row { address, port: sport, ..Nat6Row::default() };
            datapath.maps.nat6.put(&out, &row(node)).unwrap();
            let back = Nat6Key {
                daddr: node,
                saddr: world,
                dport: sport,
                sport: dport,
                protocol,
                flags: TupleFlags::IN,
            };
            datapath.maps.nat6.put(&back, &row(pod)).unwrap();
        }
        let key = Ct6Key {
            daddr: pod,
            saddr: world,
            dport: 53.into(),
            sport: 50_000.into(),
            protocol: UDP,
            flags: TupleFlags::OUT,
        };
        datapath.maps.ct6[1]
            .put(&key, &CtRow { lifetime: now() + 60, ..CtRow::default() })
            .unwrap();
        let other = Families { ipv4: true, ipv6: false };
        assert_eq!(nat::collect(&datapath.maps, other).unwrap(), Swept::default());
        assert_eq!(collect_connections(&datapath, other), Swept::default());
        assert_eq!(collect(&datapath), Swept { seen: 4, deleted: 2 });
        assert_eq!(collect(&datapath), Swept { seen: 2, deleted: 0 });
    });
}
