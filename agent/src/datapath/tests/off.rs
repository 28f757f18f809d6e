//! What is switched off leaves nothing behind: no pin, and no map once no program uses it. Switched on again it
//! is empty.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use volvox_bpf_progs::{
    Features, Parts,
    layouts::{Ct4Key, Ct6Key, CtRow, Nat4Key, Nat4Row},
};
use volvox_maps::{Dump, pins::names, sys::Map};

use super::{sandbox::Sandbox, upgrade::settled};
use crate::datapath::{Datapath, DatapathConfig};

/// Maps that are always there, and pins beside those of maps.
const ALWAYS: [&str; 13] = [
    "cilium_events",
    "cilium_ipcache_v2",
    "cilium_lb_affinity_match",
    "cilium_lxc",
    "cilium_metrics",
    "cilium_policystats",
    "cilium_signals",
    "volvox_config",
    "volvox_device",
    "volvox_endpoint",
    "volvox_lb",
    "volvox_node",
    "volvox_policy",
];
const EMPTY: &str = "volvox_policy_empty";
const OF_IPV4: [&str; 9] = [
    "cilium_ct4_global",
    "cilium_ct_any4_global",
    "cilium_ipv4_frag_datagrams",
    "cilium_lb4_affinity",
    "cilium_lb4_backends_v3",
    "cilium_lb4_reverse_nat",
    "cilium_lb4_services_v2",
    "volvox_ct4_old",
    "volvox_lb4_members",
];
const NAT: [&str; 2] = ["cilium_snat_v4_external", "cilium_snat_v6_external"];
const MASQUERADE: [&str; 2] = ["cilium_ipmasq_v4", "cilium_ipmasq_v6"];
const RANGES: [&str; 2] = ["cilium_lb4_source_range", "cilium_lb6_source_range"];
const MAGLEV: [&str; 2] = ["cilium_lb4_maglev", "cilium_lb6_maglev"];
const SOCKETS: [&str; 2] = ["cilium_lb4_reverse_sk", "cilium_lb6_reverse_sk"];

/// What of the datapath is on.
#[derive(Clone, Copy)]
struct On {
    ipv6: bool,
    parts: Parts,
}

const ALL: On = On { ipv6: true, parts: Parts::ALL };

/// The pins that are to be there.
fn expected(on: On) -> BTreeSet<String> {
    let has = |parts: Parts| on.parts.has(parts);
    let mut pins: Vec<String> = ALWAYS.into_iter().chain([EMPTY]).map(str::to_owned).collect();
    let sixth = |name: &str| name.replace('4', "6");
    pins.extend(OF_IPV4.map(str::to_owned));
    if on.ipv6 {
        pins.extend(OF_IPV4.map(sixth));
    }
    for (pair, parts) in [
        (NAT, [Parts::NAT_IPV4, Parts::NAT_IPV6]),
        (MASQUERADE, [Parts::MASQUERADE_IPV4, Parts::MASQUERADE_IPV6]),
        (RANGES, [Parts::NODE_PORT; 2]),
        (MAGLEV, [Parts::MAGLEV; 2]),
        (SOCKETS, [Parts::SOCKETS; 2]),
    ] {
        let families = [true, on.ipv6].into_iter().zip(parts).zip(pair);
        let there = families.filter(|((family, part), _)| *family && has(*part));
        pins.extend(there.map(|(_, name)| name.to_owned()));
    }
    pins.extend(has(Parts::MAGLEV).then(|| "volvox_maglev_table".to_owned()));
    pins.extend(has(Parts::SOCKETS).then(|| "volvox_sockets".to_owned()));
    pins.into_iter().collect()
}

fn config(sandbox: &Sandbox, on: On) -> DatapathConfig {
    let mut config = sandbox.config();
    config.features = Features { ipv6: on.ipv6, parts: on.parts, ..config.features };
    config
}

fn pinned(datapath: &Datapath) -> BTreeSet<String> {
    names(&datapath.pins.maps()).unwrap().into_iter().collect()
}

fn without(parts: &[Parts]) -> On {
    On { parts: parts.iter().fold(Parts::ALL, |all, part| all.without(*part)), ..ALL }
}

/// Ways to switch something off.
fn ways() -> Vec<On> {
    let (masquerade4, masquerade6) = (Parts::MASQUERADE_IPV4, Parts::MASQUERADE_IPV6);
    vec![
        On { ipv6: false, ..ALL },
        without(&[Parts::NODE_PORT]),
        without(&[masquerade4, masquerade6]),
        without(&[masquerade6]),
        without(&[Parts::NODE_PORT, Parts::NAT_IPV4, Parts::NAT_IPV6, masquerade4, masquerade6]),
        without(&[Parts::MAGLEV]),
        without(&[Parts::SOCKETS]),
        On { ipv6: false, ..without(&[Parts::NODE_PORT, Parts::MAGLEV, Parts::SOCKETS]) },
    ]
}

#[test]
fn the_pins_are_those_of_what_is_on_after_each_change_in_both_directions() {
    Sandbox::run(|sandbox| {
        for on in ways() {
            for _ in 0..2 {
                for now in [ALL, on, on] {
                    let datapath = Datapath::open(&config(sandbox, now)).unwrap();
                    assert_eq!(pinned(&datapath), expected(now));
                }
            }
        }
    });
}

/// Whether a map is there; the kernel lets go of one some time after its last user.
fn goes(id: u32) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if Map::by_id(id).is_err() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_map_goes_from_the_kernel_with_the_programs_and_comes_back_empty() {
    Sandbox::run(|sandbox| {
        let (on, _) = settled(sandbox);
        let row = Nat4Row::default();
        on.maps.nat4.put(&Nat4Key::default(), &row).unwrap();
        on.maps.ct6[0].put(&Ct6Key::default(), &CtRow::default()).unwrap();
        let kept = CtRow { lifetime: u32::MAX, ..CtRow::default() };
        on.maps.ct4[0].put(&Ct4Key::default(), &kept).unwrap();
        let ids = on.maps.ids.clone();
        drop(on);
        let way = On {
            ipv6: false,
            ..without(&[
                Parts::NODE_PORT,
                Parts::NAT_IPV4,
                Parts::MASQUERADE_IPV4,
                Parts::MAGLEV,
                Parts::SOCKETS,
            ])
        };
        let off = Datapath::open(&config(sandbox, way)).unwrap();
        let stay: BTreeSet<&str> = off.maps.ids.iter().map(|(name, _)| *name).collect();
        for (name, id) in ids.iter().filter(|(name, _)| !stay.contains(name)) {
            assert!(goes(*id), "{name}");
        }
        // What programs name in its place is small.
        let named = off.generation().maps();
        let stand_ins = named.iter().filter(|map| map.info().name.starts_with(b"volvox_off\0"));
        assert!(stand_ins.clone().count() > 0);
        assert!(stand_ins.clone().all(|map| map.info().max_entries == 1));
        assert_eq!(off.maps.nat4.get(&Nat4Key::default()).unwrap(), None);
        let refused = off.maps.nat4.put(&Nat4Key::default(), &row).unwrap_err().to_string();
        assert!(refused.contains("cilium_snat_v4_external"), "{refused}");
        // Readers find no rows, and no error.
        let dump = Dump::at(sandbox.root());
        assert_eq!(dump.translations().unwrap().len(), 0);
        assert_eq!(dump.connections().unwrap().len(), 1);
        off.snapshot_at_boot().unwrap();
        drop(off);
        let on = Datapath::open(&config(sandbox, ALL)).unwrap();
        assert_eq!(on.maps.nat4.get(&Nat4Key::default()).unwrap(), None);
        assert_eq!(on.maps.ct6[0].get(&Ct6Key::default()).unwrap(), None);
        assert_eq!(on.maps.ct4[0].get(&Ct4Key::default()).unwrap(), Some(kept), "connections stay");
    });
}

#[test]
fn a_start_with_the_same_switched_off_loads_and_writes_nothing() {
    Sandbox::run(|sandbox| {
        let way = On { ipv6: false, ..without(&[Parts::NODE_PORT]) };
        let ids = |datapath: &Datapath| {
            let generation = datapath.generation();
            volvox_maps::pins::HOOKS.map(|hook| generation.id(hook).unwrap())
        };
        let first = Datapath::open(&config(sandbox, way)).unwrap();
        let second = Datapath::open(&config(sandbox, way)).unwrap();
        assert_eq!((ids(&second), &second.maps.ids), (ids(&first), &first.maps.ids));
        assert!(second.writes().counts().iter().all(|(_, count)| *count == 0));
    });
}
