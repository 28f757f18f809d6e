//! Tests: maps are found again, are resized with their rows, or are refused. What is written to
//! them is counted, and many rows are read by batches.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
};

use rustix::mount::{MountFlags, mount_remount};
use volvox_actors::{
    model::{EndpointId, Families, IdentityId},
    ports::{EndpointRow, LxcRow},
};
use volvox_bpf_progs::layouts::{Ct4Key, CtRow, LxcKey};
use volvox_maps::{
    DatapathError, Dump,
    rows::{config_to_raw, endpoint_to_raw, lxc_to_raw},
    sys::{Map, NewMap},
    tally::POLICY_MAP,
};

use super::{
    connections::collect_connections,
    sandbox::{Sandbox, addresses, config_row, policy},
};
use crate::datapath::{Datapath, conntrack};

fn lxc_row() -> LxcRow {
    LxcRow { ifindex: 4, endpoint: 9, identity: IdentityId(300), ..LxcRow::default() }
}

/// A connection of the endpoint of that number that may be forgotten after `lifetime`.
fn connection(number: u8, lifetime: u32) -> (Ct4Key, CtRow) {
    let daddr = addresses(number).ipv4.unwrap().octets();
    let key = Ct4Key { daddr, saddr: [192, 0, 2, 1], protocol: 6, ..Ct4Key::default() };
    (key, CtRow { lifetime, src_sec_id: 300, ..CtRow::default() })
}

#[test]
fn a_second_open_finds_the_same_maps_and_programs_and_writes_nothing() {
    Sandbox::run(|sandbox| {
        let first = sandbox.open();
        let key = LxcKey::new([10, 9, 0, 1].into());
        first.maps.lxc.put(&key, &lxc_to_raw(&lxc_row())).unwrap();
        let second = sandbox.open();
        assert_eq!(second.maps.ids, first.maps.ids);
        assert_eq!(second.maps.empty.info(), first.maps.empty.info());
        assert_eq!(second.maps.lxc.get(&key).unwrap(), Some(lxc_to_raw(&lxc_row())));
        assert_eq!(program_ids(&second), program_ids(&first));
        assert!(second.writes().counts().iter().all(|(_, count)| *count == 0));
    });
}

fn program_ids(datapath: &Datapath) -> Vec<u32> {
    let generation = datapath.generation();
    volvox_maps::pins::HOOKS.map(|hook| generation.id(hook).unwrap()).to_vec()
}

#[test]
fn what_is_done_to_a_map_is_counted_and_how_full_it_is() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let table = &datapath.maps.lxc;
        let key = |last| LxcKey::new([10, 9, 0, last].into());
        for last in 1..=3 {
            table.put(&key(last), &lxc_to_raw(&lxc_row())).unwrap();
        }
        assert!(table.delete(&key(3)).unwrap() && !table.delete(&key(3)).unwrap());
        let slot = EndpointId(1).slot(0);
        datapath.policies().build(slot, &policy(1..=64)).unwrap();
        datapath.policies().build(slot, &policy(1..=65)).unwrap_err();
        datapath.snapshot().unwrap();
        let writes = datapath.writes().clone();
        let tally = |expected| writes.maps().find(|(name, _)| *name == expected).unwrap().1;
        let counts = |expected| tally(expected).ops().map(|(_, _, count)| count);
        assert_eq!(counts("lxc"), [3, 0, 1, 0]);
        assert_eq!((tally("lxc").rows(), tally("lxc").room()), (2, Some(65535)));
        assert_eq!(counts(POLICY_MAP), [128, 1, 0, 0]);
        assert_eq!(tally(POLICY_MAP).room(), Some(64));
    });
}

#[test]
fn a_map_of_another_layout_is_refused_and_kept() {
    Sandbox::run(|sandbox| {
        let globals = sandbox.root().join("tc/globals");
        fs::create_dir_all(&globals).unwrap();
        let foreign = Map::create(&NewMap {
            name: "cilium_lxc",
            map_type: 1,
            key_size: 20,
            value_size: 40,
            max_entries: 10,
            flags: 0,
            inner: None,
        })
        .unwrap();
        let path = globals.join("cilium_lxc");
        volvox_maps::sys::pin(foreign.as_fd(), &path).unwrap();
        let refused = Datapath::open(&sandbox.config()).err().unwrap();
        let DatapathError::Layout { name, found, desired: expected, .. } = &refused else {
            panic!("{refused}")
        };
        assert_eq!(name, "cilium_lxc");
        assert!(
            found.contains("value 40 bytes") && expected.contains("value 48 bytes"),
            "{refused}"
        );
        assert_eq!(Map::pinned(&path).unwrap().info(), foreign.info());
    });
}

#[test]
fn a_directory_in_the_place_of_a_pin_is_named_and_not_taken_for_missing_rights() {
    Sandbox::run(|sandbox| {
        let path = sandbox.root().join("tc/globals/cilium_lxc");
        fs::create_dir_all(&path).unwrap();
        let refused = Datapath::open(&sandbox.config()).err().unwrap().to_string();
        let name = path.to_str().unwrap();
        assert!(refused.contains(name) && refused.contains("rmdir"), "{refused}");
        assert!(!refused.contains("CAP_BPF"), "{refused}");
        assert!(path.is_dir());
        fs::remove_dir(&path).unwrap();
        let datapath = sandbox.open();
        let link = datapath.pins.link(EndpointId(7), volvox_actors::ports::Hook::FromContainer);
        fs::create_dir_all(&link).unwrap();
        let refused = datapath.snapshot().unwrap_err().to_string();
        assert!(refused.contains(link.to_str().unwrap()), "{refused}");
        assert!(refused.contains("rmdir") && !refused.contains("CAP_BPF"), "{refused}");
    });
}

#[test]
fn a_map_of_another_size_keeps_its_rows() {
    Sandbox::run(|sandbox| {
        let small = sandbox.open();
        let (key, row) = connection(1, u32::MAX);
        small.maps.ct4[0].put(&key, &row).unwrap();
        let mut config = sandbox.config();
        config.sizes.ct_tcp *= 2;
        let large = Datapath::open(&config).unwrap();
        assert_eq!(large.maps.ct4[0].get(&key).unwrap(), Some(row));
        let id = |datapath: &Datapath| {
            let mut ids = datapath.maps.ids.iter();
            ids.find(|(name, _)| *name == "cilium_ct4_global").unwrap().1
        };
        assert_ne!(id(&large), id(&small));
        let used: Vec<_> = large.generation().maps().iter().map(|map| map.info().id).collect();
        assert!(used.contains(&id(&large)) && !used.contains(&id(&small)));
        // Once more: nothing is left to do.
        assert_eq!(program_ids(&Datapath::open(&config).unwrap()), program_ids(&large));
    });
}

#[test]
fn tables_of_another_size_need_new_maps_and_new_programs() {
    Sandbox::run(|sandbox| {
        let small = sandbox.open();
        let id = |datapath: &Datapath| {
            let mut ids = datapath.maps.ids.iter();
            ids.find(|(name, _)| *name == "cilium_lb4_maglev").unwrap().1
        };
        assert_eq!(id(&sandbox.open()), id(&small));
        let mut config = sandbox.config();
        config.sizes.maglev = 509;
        let large = Datapath::open(&config).unwrap();
        assert_ne!(id(&large), id(&small));
        assert_ne!(program_ids(&large), program_ids(&small));
        let tables = Map::by_id(id(&large)).unwrap();
        let table = |size: u32| {
            let table = NewMap {
                name: "table",
                map_type: 2,
                key_size: 4,
                value_size: size * 4,
                max_entries: 1,
                flags: 0,
                inner: None,
            };
            Map::create(&table).unwrap()
        };
        let put = |table: &Map| tables.update(&[0, 7], &table.as_fd().as_raw_fd().to_ne_bytes());
        put(&table(251)).unwrap_err();
        put(&table(509)).unwrap();
        let again = Datapath::open(&config).unwrap();
        assert_eq!((id(&again), program_ids(&again)), (id(&large), program_ids(&large)));
        assert!(tables.lookup(&[0, 7], &mut [0; 4]).unwrap());
    });
}

#[test]
fn a_lost_pin_is_made_again_for_the_map_that_programs_use() {
    Sandbox::run(|sandbox| {
        let first = sandbox.open();
        fs::remove_file(sandbox.root().join("tc/globals/volvox_config")).unwrap();
        first.maps.config.put(&4, &config_to_raw(&config_row(1, 4))).unwrap();
        let second = sandbox.open();
        assert_eq!(second.maps.ids, first.maps.ids);
        assert!(second.maps.config.get(&4).unwrap().is_some());
        assert_eq!(program_ids(&second), program_ids(&first));
    });
}

#[test]
fn a_missing_or_read_only_file_system_is_named() {
    Sandbox::run(|sandbox| {
        let mut config = sandbox.config();
        config.bpf_root = "/proc".into();
        let missing = Datapath::open(&config).err().unwrap().to_string();
        assert!(missing.contains("mount -t bpf bpf \"/proc\""), "{missing}");
        mount_remount(sandbox.root(), MountFlags::RDONLY, "").unwrap();
        let read_only = Datapath::open(&sandbox.config()).err().unwrap().to_string();
        assert!(read_only.contains("remount,rw"), "{read_only}");
    });
}

#[test]
fn connections_are_forgotten_by_age_and_by_address() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let table = &datapath.maps.ct4[0];
        for (number, lifetime) in [(1, 1), (2, u32::MAX), (3, u32::MAX)] {
            let (key, row) = connection(number, lifetime);
            table.put(&key, &row).unwrap();
        }
        let swept = collect_connections(&datapath, Families::DUAL);
        assert_eq!((swept.seen, swept.deleted), (3, 1));
        let scrubbed: Vec<_> = addresses(2).iter().collect();
        assert_eq!(conntrack::scrub(&datapath.maps, &scrubbed).unwrap().deleted, 1);
        let left = Dump::at(sandbox.root()).connections().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].from.address, addresses(3).ipv4.unwrap());
        assert_eq!(left[0].identity, IdentityId(300));
    });
}

#[test]
fn many_rows_are_read_by_batches() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        for number in 0..5000_u32 {
            let row = lxc_row();
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + number);
            datapath.maps.lxc.put(&LxcKey::new(address.into()), &lxc_to_raw(&row)).unwrap();
        }
        let rows = datapath.snapshot().unwrap().lxc;
        assert_eq!(rows.len(), 5000);
        assert!(rows.values().all(|row| *row == lxc_row()));
    });
}

#[test]
fn a_torn_row_is_told_apart() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let row = EndpointRow {
            container_id: "c0ffee".into(),
            pod_name: "p".repeat(300),
            addresses: addresses(1),
            ..EndpointRow::default()
        };
        let good = endpoint_to_raw(&row);
        let mut torn = good;
        torn.identity += 1;
        datapath.maps.endpoint.put(&1, &good).unwrap();
        datapath.maps.endpoint.put(&2, &torn).unwrap();
        let snapshot = datapath.snapshot().unwrap();
        assert_eq!(snapshot.torn_rows, [EndpointId(2)]);
        let read = &snapshot.endpoints[&EndpointId(1)];
        assert_eq!(read.pod_name, row.pod_name[..200]);
        assert_eq!((&read.container_id, read.addresses), (&row.container_id, row.addresses));
        assert_eq!(snapshot.endpoints.len(), 1);
    });
}
