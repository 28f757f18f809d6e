//! Tests: the maps of services are read alike with and without an agent, and rows that an earlier
//! version did not write are added.

use std::net::IpAddr;

use volvox_actors::{
    model::{BackendId, Frontend, L4Address, LookupScope, ServiceId, Transport},
    ports::{
        BackendRow, BackendState, MemberKey, ServiceKeys, ServiceRows, ServiceTables, SlotRow,
        UnusedNumbers, service_flags,
    },
};
use volvox_bpf_progs::layouts::{
    Affinity4Key, Affinity6Key, AffinityRow, Ct4Key, CtRow, TupleFlags,
};
use volvox_maps::{
    Client, Dump, ServedClient,
    sys::Map,
    table::{Plain, Table},
};

use super::{sandbox::Sandbox, upgrade};
use crate::datapath::Datapath;

fn at(address: &str, port: u16) -> L4Address {
    L4Address { address: address.parse().unwrap(), port, transport: Transport::TCP }
}

/// Writes two services of each family, by the agent's own ways: the first of each with affinity, a
/// Maglev table, source ranges and two backends, of which one is quarantined; the second with a
/// backend that no map has. Two clients of the first stay with the backend that they had.
pub(crate) fn serve(sandbox: &Sandbox) -> ServiceTables {
    let datapath = sandbox.open();
    let maps = &datapath.maps.services;
    let mut tables = ServiceTables {
        unused: UnusedNumbers { backend: 30, service: 9 },
        room: 1024,
        ..ServiceTables::default()
    };
    let families =
        [("10.96.0", "10.9.0", "192.0.2.0/24"), ("fd00::96:0", "fd00::9:0", "2001:db8::/32")];
    for (family, (front, back, range)) in (0..).zip(families) {
        let join = |prefix: &str, last: u16| match prefix.contains(':') {
            true => format!("{prefix}:{last}"),
            false => format!("{prefix}.{last}"),
        };
        let first = Frontend { at: at(&join(front, 1), 80), scope: LookupScope::External };
        let second = Frontend { at: at(&join(front, 2), 443), scope: LookupScope::Internal };
        let (one, two) = (BackendId(10 + family), BackendId(20 + family));
        let (id, other) = (ServiceId(3 + 2 * family as u16), ServiceId(4 + 2 * family as u16));
        let flags = service_flags::LOAD_BALANCER
            | service_flags::AFFINITY
            | service_flags::SOURCE_RANGE
            | service_flags::INTERNAL_LOCAL;
        let row = SlotRow { id, ..SlotRow::default() };
        let quarantined = service_flags::QUARANTINED;
        tables.slots.extend([
            ((first, 0), SlotRow { word: 2 << 24 | 600, count: 1, flags, quarantined: 1, ..row }),
            ((first, 1), SlotRow { word: one.0, ..row }),
            ((first, 2), SlotRow { word: two.0, flags: quarantined, ..row }),
            ((second, 0), SlotRow { word: 1 << 24, count: 1, id: other, ..SlotRow::default() }),
            ((second, 1), SlotRow { word: 99, id: other, ..SlotRow::default() }),
        ]);
        let backend =
            |last, state| BackendRow { at: at(&join(back, last), 8080), state, zone: last as u8 };
        tables.backends.extend([
            (one, backend(0, BackendState::Active)),
            (two, backend(1, BackendState::Quarantined)),
        ]);
        tables.members.extend([
            ((id, one), BackendRow { zone: 0, ..backend(0, BackendState::Active) }),
            ((id, two), BackendRow { zone: 0, ..backend(1, BackendState::Quarantined) }),
        ]);
        tables.reverse_nat.extend([(id, first.at.socket()), (other, second.at.socket())]);
        tables.affinity.extend([(one, id), (two, id)]);
        tables.ranges.push((id, range.parse().unwrap()));
        tables.maglev.push((id, family == 0));
        let backends = vec![(one, at(&join(back, 0), 8080)), (two, at(&join(back, 1), 8080))];
        maps.put(ServiceRows::Maglev(vec![(id, family == 0, backends)])).unwrap();
    }
    tables.affinity.sort_unstable();
    for rows in [
        ServiceRows::Unused(tables.unused),
        ServiceRows::Slots(tables.slots.clone()),
        ServiceRows::Backends(tables.backends.clone()),
        ServiceRows::Members(tables.members.clone()),
        ServiceRows::ReverseNat(tables.reverse_nat.clone()),
        ServiceRows::AffinityMatches(tables.affinity.clone()),
        ServiceRows::SourceRanges(tables.ranges.clone()),
    ] {
        maps.put(rows).unwrap();
    }
    let used = |backend| AffinityRow { last_used: 77, backend, pad: 0 };
    let address = Affinity4Key::of_address([192, 0, 2, 7].into(), 3);
    put(sandbox, "cilium_lb4_affinity", &address, &used(10));
    let cookie = Affinity6Key { netns_cookie: 1, ..Affinity6Key::of_address(cookie(4711), 5) };
    put(sandbox, "cilium_lb6_affinity", &cookie, &used(21));
    tables
}

/// The cookie of a network namespace, in the first half of an address.
fn cookie(cookie: u64) -> std::net::Ipv6Addr {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&cookie.to_ne_bytes());
    bytes.into()
}

/// Writes a row as the programs do.
fn put<K: Plain, V: Plain>(sandbox: &Sandbox, name: &str, key: &K, value: &V) {
    let map = Map::pinned(&sandbox.root().join("tc/globals").join(name)).unwrap();
    Table::new(map, name, Default::default(), Default::default()).put(key, value).unwrap();
}

#[test]
fn the_maps_of_services_are_read_alike_with_and_without_an_agent() {
    Sandbox::run(|sandbox| {
        let expected = serve(sandbox);
        assert_eq!(sandbox.open().maps.services.read().unwrap(), expected);
        let dump = Dump::at(sandbox.root());
        let names = [
            "cilium_lb4_services_v2",
            "cilium_lb6_services_v2",
            "cilium_lb4_backends_v3",
            "cilium_lb6_backends_v3",
            "volvox_lb4_members",
            "volvox_lb6_members",
            "cilium_lb4_reverse_nat",
            "cilium_lb6_reverse_nat",
            "cilium_lb_affinity_match",
            "cilium_lb4_source_range",
            "cilium_lb6_source_range",
            "cilium_lb4_maglev",
            "cilium_lb6_maglev",
        ];
        let dumped = dump.services(&names).unwrap();
        let known = ServiceTables { unused: UnusedNumbers::default(), room: 0, ..expected.clone() };
        assert_eq!(dumped, known);
        let four = dump.services(&["cilium_lb4_services_v2"]).unwrap();
        assert_eq!((four.slots.len(), four.backends.len()), (5, 0), "what was asked for, no more");
    });
}

#[test]
fn clients_and_tables_of_maglev_are_read_without_an_agent() {
    Sandbox::run(|sandbox| {
        serve(sandbox);
        let dump = Dump::at(sandbox.root());
        let served = |service, client, backend| ServedClient {
            service: ServiceId(service),
            client,
            backend: BackendId(backend),
            last_used: 77,
        };
        let address = Client::Address(IpAddr::from([192, 0, 2, 7]));
        assert_eq!(dump.served_clients(true).unwrap(), [served(3, address, 10)]);
        let netns = Client::NetnsCookie(4711);
        assert_eq!(dump.served_clients(false).unwrap(), [served(5, netns, 21)]);
        for (is_ipv4, service, backends) in [(true, 3, [10, 20]), (false, 5, [11, 21])] {
            let tables = dump.maglev(is_ipv4).unwrap();
            assert_eq!(tables.keys().collect::<Vec<_>>(), [&ServiceId(service)]);
            let shares = &tables[&ServiceId(service)];
            assert_eq!(shares.keys().copied().collect::<Vec<_>>(), backends.map(BackendId));
            let size: usize = shares.values().sum();
            assert_eq!(size, sandbox.config().sizes.maglev as usize);
            assert!(shares.values().all(|places| places.abs_diff(size / 2) <= 1), "{shares:?}");
        }
    });
}

#[test]
fn programs_that_come_find_whose_backends_are_that_an_earlier_version_did_not_say() {
    Sandbox::run(|sandbox| {
        let mut expected = serve(sandbox).members;
        let datapath = sandbox.open();
        let maps = &datapath.maps.services;
        let keys = |all: &[(MemberKey, BackendRow)]| {
            all.iter().map(|(key, row)| (*key, row.at.address.is_ipv4())).collect()
        };
        // One ends, and has a connection.
        let at = at("10.9.0.7", 8080);
        let ends = BackendRow { at, state: BackendState::Terminating, zone: 0 };
        maps.put(ServiceRows::Backends(vec![(BackendId(40), ends)])).unwrap();
        let mut row = CtRow { rev_nat_index: 3.into(), ..CtRow::default() };
        row.nat_addr[8..12].copy_from_slice(&40u32.to_ne_bytes());
        let key = Ct4Key { flags: TupleFlags::SERVICE, ..Ct4Key::default() };
        datapath.maps.ct4[0].put(&key, &row).unwrap();
        expected.push(((ServiceId(3), BackendId(40)), ends));
        expected.sort_by_key(|(key, row)| (!row.at.address.is_ipv4(), *key));
        maps.delete(ServiceKeys::Members(keys(&expected))).unwrap();
        assert_eq!(sandbox.open().maps.services.read().unwrap().members, [], "it is no upgrade");
        let upgraded = Datapath::open(&upgrade::other(&sandbox.config())).unwrap();
        assert_eq!(upgraded.maps.services.read().unwrap().members, expected);
        // What another version changed meanwhile is mended, what it knows nothing of stays.
        let mut wrong = expected[0];
        wrong.1.at.port = 1;
        let rests = BackendRow { state: BackendState::Maintenance, ..expected[0].1 };
        let more = ((ServiceId(77), BackendId(10)), rests);
        maps.put(ServiceRows::Members(vec![wrong, more])).unwrap();
        let back = sandbox.open();
        expected.push(more);
        expected.sort_by_key(|(key, row)| (!row.at.address.is_ipv4(), *key));
        assert_eq!(back.maps.services.read().unwrap().members, expected);
    });
}
