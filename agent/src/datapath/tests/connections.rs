//! Tests: connections by services name their backends. A sweep tells who of some is named, and where
//! nobody answers any more nobody is named.

use std::{collections::BTreeSet, net::IpAddr};

use volvox_actors::{
    model::{BackendId, Families, L4Address, Transport},
    ports::{BackendRow, BackendState, ServiceRows, Swept},
};
use volvox_bpf_progs::layouts::{Ct4Key, Ct6Key, CtRow, TupleFlags};

use super::sandbox::Sandbox;
use crate::datapath::{Datapath, conntrack};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Removes what is over, and looks for nobody.
pub(super) fn collect_connections(datapath: &Datapath, families: Families) -> Swept {
    let (swept, used) = conntrack::collect(&datapath.maps, families, &BTreeSet::new()).unwrap();
    assert_eq!(used, BTreeSet::new());
    swept
}

/// An entry of that kind with a backend, by a client's port; of a family.
fn tracked(datapath: &Datapath, is_ipv4: bool, protocol: u8, flags: u8, port: u16, backend: u32) {
    let mut row = CtRow { lifetime: u32::MAX, ..CtRow::default() };
    row.nat_addr[8..12].copy_from_slice(&backend.to_ne_bytes());
    let (sport, dport) = (port.into(), 80.into());
    let at = usize::from(protocol != TCP);
    if is_ipv4 {
        let (daddr, saddr) = ([10, 9, 0, 1], [10, 96, 0, 1]);
        let key = Ct4Key { daddr, saddr, dport, sport, protocol, flags };
        datapath.maps.ct4[at].put(&key, &row).unwrap();
    } else {
        let (daddr, saddr) = ([9; 16], [96; 16]);
        let key = Ct6Key { daddr, saddr, dport, sport, protocol, flags };
        datapath.maps.ct6[at].put(&key, &row).unwrap();
    }
}

fn ids(all: &[u32]) -> BTreeSet<BackendId> {
    all.iter().copied().map(BackendId).collect()
}

/// Who of these is used, by a sweep over some families.
fn used(datapath: &Datapath, families: Families, of: &[u32]) -> BTreeSet<BackendId> {
    conntrack::collect(&datapath.maps, families, &ids(of)).unwrap().1
}

const IPV4: Families = Families { ipv4: true, ipv6: false };

#[test]
fn a_sweep_tells_which_backends_connections_of_tcp_have() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        tracked(&datapath, true, TCP, TupleFlags::SERVICE, 1000, 1);
        tracked(&datapath, true, TCP, TupleFlags::SERVICE, 1001, 1);
        tracked(&datapath, true, TCP, TupleFlags::SERVICE, 1002, 9);
        tracked(&datapath, true, UDP, TupleFlags::SERVICE, 1000, 2);
        tracked(&datapath, false, TCP, TupleFlags::SERVICE, 1000, 3);
        // What another entry has there is an address.
        tracked(&datapath, true, TCP, TupleFlags::OUT, 1000, 4);
        assert_eq!(used(&datapath, Families::DUAL, &[1, 2, 3, 4, 5]), ids(&[1, 3]));
        assert_eq!(used(&datapath, IPV4, &[1, 2, 3, 4, 5]), ids(&[1]));
        assert_eq!(collect_connections(&datapath, Families::DUAL).seen, 6);
    });
}

#[test]
fn who_has_an_address_next_has_no_connections_of_before_by_services() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let backends = [(1, "10.9.0.7"), (2, "10.9.0.8"), (3, "fd00::7"), (4, "10.9.0.7")];
        let backend = |(id, address): &(u32, &str)| {
            let address: IpAddr = address.parse().unwrap();
            let port = 8000 + u16::try_from(*id).unwrap();
            let at = L4Address { address, port, transport: Transport::TCP };
            (BackendId(*id), BackendRow { at, state: BackendState::Terminating, zone: 0 })
        };
        let rows = backends.iter().map(backend).collect();
        datapath.maps.services.put(ServiceRows::Backends(rows)).unwrap();
        let all = [1, 2, 3, 4];
        for (nth, id) in (0..).zip(all) {
            tracked(&datapath, id != 3, TCP, TupleFlags::SERVICE, 1000 + nth, id);
        }
        let scrub = |address: &str| {
            let swept = conntrack::scrub(&datapath.maps, &[address.parse().unwrap()]).unwrap();
            swept.deleted
        };
        assert_eq!(scrub("10.9.0.9"), 0);
        assert_eq!(scrub("10.9.0.7"), 2);
        assert_eq!(used(&datapath, Families::DUAL, &all), ids(&[2, 3]));
        assert_eq!(scrub("fd00::7"), 1);
        assert_eq!(used(&datapath, Families::DUAL, &all), ids(&[2]));
    });
}
