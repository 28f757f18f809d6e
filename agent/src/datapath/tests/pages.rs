//! Tests: pages show each row of a map once, and comparisons find what is not as it was written.
//! Every map is compared, or is listed here as one that is not.

use std::{collections::BTreeSet, sync::Arc};

use volvox_actors::{
    model::{EndpointId, IdentityId, drift::MAPS},
    ports::{
        IpcacheRow, PageRows, PolicyCheck, RowMap, RowPage, ServiceKeys, ServiceRows, ServiceTables,
    },
};
use volvox_bpf_progs::{layouts as raw, maps};
use volvox_maps::{
    rows::{config_to_raw, ipcache_key, ipcache_to_raw},
    services::sort,
    sys::{self, Map},
};
use zerocopy::IntoBytes;

use super::{
    sandbox::{Sandbox, config_row, policy},
    services::serve,
};
use crate::datapath::{Datapath, pages};

/// Maps that are not compared: programs fill them, a slot is there only while sizes change, or the
/// kernel shows it to nobody.
const LEFT_ALONE: [&str; 19] = [
    "volvox_ct4_old",
    "volvox_ct6_old",
    "cilium_ct4_global",
    "cilium_ct_any4_global",
    "cilium_ct6_global",
    "cilium_ct_any6_global",
    "cilium_metrics",
    "cilium_events",
    "cilium_signals",
    "cilium_policystats",
    "cilium_snat_v4_external",
    "cilium_snat_v6_external",
    "cilium_ipv4_frag_datagrams",
    "cilium_ipv6_frag_datagrams",
    "cilium_lb4_affinity",
    "cilium_lb6_affinity",
    "cilium_lb4_reverse_sk",
    "cilium_lb6_reverse_sk",
    "volvox_sockets",
];

#[test]
fn every_map_is_compared_or_it_is_known_why_not() {
    let known: BTreeSet<_> = MAPS.into_iter().chain(LEFT_ALONE).collect();
    let all = maps::MAPS.iter().chain([&maps::POLICY]);
    let unknown: Vec<_> = all.map(|map| map.name).filter(|name| !known.contains(name)).collect();
    assert_eq!(
        unknown, [""; 0],
        "say in volvox_actors::model::drift who compares it, or why nobody does"
    );
}

/// Every page of a map.
fn all(datapath: &Datapath, map: RowMap) -> Vec<RowPage> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = pages::read(datapath, map, from).unwrap();
        let next = page.next.clone();
        found.push(page);
        if next.is_none() {
            return found;
        }
        from = next;
    }
}

/// What pages say of the maps of services, each row as it was written.
fn tables(datapath: &Datapath) -> ServiceTables {
    let mut tables = ServiceTables { room: 1024, ..ServiceTables::default() };
    for map in RowMap::SERVICES {
        for RowPage { rows, strange, .. } in all(datapath, map) {
            assert_eq!(strange.len(), 0, "{map:?}");
            match rows {
                PageRows::Unused(unused) => tables.unused = unused,
                PageRows::Backends(rows) => {
                    tables.backends.extend(rows.into_iter().map(|(id, row)| (id, row.unwrap())));
                }
                PageRows::Slots(rows) => {
                    tables.slots.extend(rows.into_iter().map(|(key, row)| (key, row.unwrap())));
                }
                PageRows::Members(rows) => {
                    tables.members.extend(rows.into_iter().map(|(key, row)| (key, row.unwrap())));
                }
                PageRows::ReverseNat(rows) => {
                    tables.reverse_nat.extend(rows.into_iter().map(|(id, at)| (id, at.unwrap())));
                }
                PageRows::AffinityMatches(rows) => tables.affinity.extend(rows),
                PageRows::SourceRanges(rows) => tables.ranges.extend(rows),
                PageRows::Maglev(rows) => {
                    let is_ipv4 = map == RowMap::Maglev4;
                    tables.maglev.extend(rows.into_iter().map(|id| (id, is_ipv4)));
                }
                other => panic!("{map:?} shows {other:?}"),
            }
        }
    }
    sort(&mut tables);
    tables
}

#[test]
fn pages_show_what_was_written() {
    Sandbox::run(|sandbox| {
        let written = serve(sandbox);
        assert_eq!(tables(&sandbox.open()), written);
    });
}

#[test]
fn a_long_map_comes_by_pages_each_row_once() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let prefix = |n: u32| format!("10.{}.{}.0/24", n / 256, n % 256).parse().unwrap();
        let row = IpcacheRow::of(IdentityId(300));
        let rows: Vec<_> =
            (0..5000).map(|n| (ipcache_key(&prefix(n)), ipcache_to_raw(&row))).collect();
        let (keys, values): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        datapath.maps.ipcache.put_all(&keys, &values).unwrap();
        let pages = all(&datapath, RowMap::Ipcache);
        assert!(pages.len() > 3, "{}", pages.len());
        let rows = pages.into_iter().flat_map(|page| match page.rows {
            PageRows::Ipcache(rows) => rows,
            other => panic!("{other:?}"),
        });
        let rows: Vec<_> = rows.collect();
        let seen: BTreeSet<_> = rows.iter().map(|(prefix, _)| *prefix).collect();
        assert_eq!((rows.len(), seen), (5000, (0..5000).map(prefix).collect()));
        assert!(rows.iter().all(|(_, found)| *found == Some(row)));
    });
}

#[test]
fn what_nobody_writes_is_told_apart_and_can_be_removed() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let maps = &datapath.maps;
        let right = raw::IpcacheRow { identity: 7, ..raw::IpcacheRow::default() };
        let key = raw::IpcacheKey::new("10.0.0.1".parse().unwrap(), 32);
        // A value with bytes that mean nothing, and a key of another cluster.
        maps.ipcache.put(&key, &raw::IpcacheRow { pad: [1, 0], ..right }).unwrap();
        let other = raw::IpcacheKey { cluster_id: 5, ..key };
        maps.ipcache.put(&other, &right).unwrap();
        let pages = all(&datapath, RowMap::Ipcache);
        let prefix = "10.0.0.1/32".parse().unwrap();
        assert_eq!(pages[0].rows, PageRows::Ipcache(vec![(prefix, None)]));
        assert_eq!(pages[0].strange, [Box::from(other.as_bytes())]);
        pages::delete(&datapath, RowMap::Ipcache, &pages[0].strange).unwrap();
        assert_eq!(maps.ipcache.get(&other).unwrap(), None);
        assert!(maps.ipcache.get(&key).unwrap().is_some());
        // A backend's row that says it is another one's.
        let row =
            raw::Backend4Row::new(9, "10.0.0.2:80".parse().unwrap(), 6, raw::BackendState::Active);
        maps.services.backends4.put(&8, &row).unwrap();
        let page = &all(&datapath, RowMap::Backends4)[0];
        let PageRows::Backends(rows) = &page.rows else { panic!("{page:?}") };
        assert!(matches!(rows[..], [(id, None)] if id.0 == 8), "{rows:?}");
    });
}

#[test]
fn policies_are_compared_where_they_stand() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let policies = datapath.policies();
        let put = |number: u8| {
            let row = config_row(number, number.into());
            policies.build(row.policy_slot, &policy([80, 443])).unwrap();
            let map = policies.take_built(row.policy_slot);
            policies.write_slots(vec![(row.policy_slot, map)]).remove(0).1.unwrap();
            datapath.maps.config.put(&row.ifindex, &config_to_raw(&row)).unwrap();
            policies.pin(row.endpoint, row.policy_slot).unwrap();
        };
        (1..=5).for_each(put);
        let check = |number: u8| PolicyCheck {
            endpoint: EndpointId(number.into()),
            ifindex: number.into(),
            rows: Arc::new(policy([80, 443])),
        };
        let differing = || {
            let checks: Vec<_> = (1..=5).map(check).collect();
            let ids = policies.differing(&checks).unwrap();
            ids.into_iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(differing(), [0_u16; 0]);
        let slot = |number: u8| config_row(number, 1).policy_slot;
        // One row less, a byte that the agent does not speak of, an empty slot, another's pin.
        policies.delete_row(slot(1), policy([80]).keys().next().unwrap()).unwrap();
        let map = policies.in_slot(slot(2)).unwrap().unwrap();
        let (key, _) = policy([80]).pop_first().unwrap();
        let key = volvox_maps::rows::policy_key_to_raw(&key);
        let mut row = vec![0; map.value_bytes()];
        assert!(map.lookup(key.as_bytes(), &mut row).unwrap());
        row[0] ^= 1;
        map.update(key.as_bytes(), &row).unwrap();
        policies.clear(&[slot(3)]).unwrap();
        let pin = datapath.pins.policy(EndpointId(4));
        std::fs::remove_file(&pin).unwrap();
        sys::pin(policies.in_slot(slot(5)).unwrap().unwrap(), &pin).unwrap();
        assert_eq!(differing(), [1, 2, 3, 4]);
        // It cannot be changed row by row: nobody could name what is there.
        assert_eq!(policies.read(slot(2)).unwrap(), None);
    });
}

#[test]
fn tables_of_maglev_are_compared_by_what_they_are_computed_of() {
    Sandbox::run(|sandbox| {
        let written = serve(sandbox);
        let datapath = sandbox.open();
        let services = &datapath.maps.services;
        let (id, is_ipv4) = written.maglev[0];
        let of_family =
            written.backends.iter().filter(|(_, row)| row.at.address.is_ipv4() == is_ipv4);
        let backends: Vec<_> = of_family.map(|(id, row)| (*id, row.at)).collect();
        let table = (id, is_ipv4, backends);
        services.put(ServiceRows::Maglev(vec![table.clone()])).unwrap();
        let expected = [table.clone()];
        assert_eq!(services.differing_tables(&expected).unwrap(), []);
        // In its next life an agent knows no table by heart.
        let again = sandbox.open();
        assert_eq!(again.maps.services.differing_tables(&expected).unwrap(), []);
        let outer = &services.maglev[usize::from(is_ipv4)];
        let number = outer.get(&raw::Be16::new(id.0)).unwrap().unwrap();
        let map = Map::by_id(number).unwrap();
        let mut rows = vec![0; map.value_bytes()];
        assert!(map.lookup(0_u32.as_bytes(), &mut rows).unwrap());
        rows[0] ^= 1;
        map.update(0_u32.as_bytes(), &rows).unwrap();
        assert_eq!(again.maps.services.differing_tables(&expected).unwrap(), [(id, is_ipv4)]);
        services.put(ServiceRows::Maglev(vec![table])).unwrap();
        assert_eq!(services.differing_tables(&expected).unwrap(), []);
        services.delete(ServiceKeys::Maglev(vec![(id, is_ipv4)])).unwrap();
        assert_eq!(services.differing_tables(&expected).unwrap(), [(id, is_ipv4)]);
    });
}

#[test]
fn the_nodes_row_is_as_it_was_told() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        assert!(datapath.is_node_as_written().unwrap(), "nothing was told");
        datapath.set_tunnel(7, 8472, 0).unwrap();
        assert!(datapath.is_node_as_written().unwrap());
        let row = datapath.maps.node.get(&0).unwrap().unwrap();
        let other = raw::NodeRow { tunnel_ifindex: 9, ..row };
        datapath.maps.node.put(&0, &other).unwrap();
        assert!(!datapath.is_node_as_written().unwrap());
        assert_eq!(datapath.tunnel().unwrap(), (7, 8472, 0), "somebody else's is not believed");
        datapath.put_node().unwrap();
        assert_eq!(datapath.maps.node.get(&0).unwrap(), Some(row));
    });
}
