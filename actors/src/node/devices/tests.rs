//! Tests: the right devices run programs, in a safe order, through changes, failures and restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use super::*;
use crate::{
    host::{Ref, Universe},
    model::{Addresses, Families, Mac, drift::DriftWatch},
    ports::{DeviceKind, DeviceRow, DeviceTables, HookState, KernelOp, Link, device_flags},
    testing::{Fate, MemoryKernel, Turn, crash},
};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

struct Fixture {
    universe: Universe,
    kernel: MemoryKernel,
    fate: Fate,
    devices: Ref<DevicesMsg>,
}

impl Fixture {
    fn new(settings: DevicesSettings) -> Self {
        let (universe, fate) = (Universe::default(), Fate::default());
        let kernel = MemoryKernel::new(&fate);
        let make = Devices::factory(Rc::new(kernel.clone()), settings, DriftWatch::default());
        let devices = universe.spawn("devices", make);
        Self { universe, kernel, fate, devices }
    }

    /// The interfaces are these now; all that follows is done.
    fn links(&self, links: &[Link]) {
        self.kernel.tamper(|state| {
            let gone: Vec<_> = state.rows.links.keys().copied().collect();
            for ifindex in gone {
                if !links.iter().any(|link| link.ifindex == ifindex) {
                    state.unplug(ifindex);
                }
            }
            links.iter().for_each(|link| state.plug(link.clone()));
        });
        let links = links.iter().map(|link| (link.ifindex, link.clone())).collect();
        self.devices.tell(DevicesMsg::Links(Rc::new(links))).unwrap();
        self.settle();
    }

    fn settle(&self) {
        self.universe.settle();
        while self.kernel.step(0) {
            self.universe.settle();
        }
    }

    fn present(&self) -> DeviceTables {
        self.kernel.with(|state| state.devices.clone())
    }

    fn status(&self) -> DevicesStatus {
        let patience = Duration::from_secs(1);
        let ask = self.universe.host.ask(&self.devices, patience, "status", DevicesMsg::Show);
        self.universe.settle();
        let mut ask = ask;
        ask.now().unwrap().unwrap()
    }
}

fn settings() -> DevicesSettings {
    DevicesSettings {
        patterns: Vec::new(),
        pod_interfaces: "lxc".to_owned(),
        node_addresses: ["192.0.2.10".parse().unwrap()].into(),
        families: Families::DUAL,
        masquerade: Families { ipv4: true, ipv6: false },
        unmasqueraded: ["10.0.0.0/8".parse().unwrap()].into(),
        own_prefixes: BTreeSet::new(),
        records: device_flags::DROP,
    }
}

fn link(ifindex: u32, name: &str, addresses: &[&str]) -> Link {
    Link {
        ifindex,
        name: name.to_owned(),
        mac: MAC,
        up: true,
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        ..Link::default()
    }
}

fn uplink(ifindex: u32, name: &str, addresses: &[&str]) -> Link {
    Link { default_route: true, ..link(ifindex, name, addresses) }
}

fn names(tables: &DeviceTables) -> Vec<&str> {
    tables.links.values().map(|links| links.name.as_str()).collect()
}

#[test]
fn devices_that_lead_out_run_programs_and_others_do_not() {
    let fixture = Fixture::new(settings());
    fixture.links(&[
        link(1, "lo", &["127.0.0.1/8", "192.0.2.10/32"]),
        link(2, "eth0", &["192.0.2.10/24"]),
        uplink(3, "eth1", &["169.254.1.1/16", "198.51.100.7/24", "fe80::1/64", "2001:db8::7/64"]),
        link(4, "storage", &["203.0.113.1/24"]),
        uplink(5, "lxc12345", &["192.0.2.10/32"]),
        uplink(6, "cilium_host", &["10.0.0.254/32"]),
    ]);
    let tables = fixture.present();
    assert_eq!(names(&tables), ["eth0", "eth1"]);
    let addresses =
        |ipv4: &str, ipv6: &str| Addresses { ipv4: ipv4.parse().ok(), ipv6: ipv6.parse().ok() };
    let flags = device_flags::DROP | device_flags::MASQUERADE_IPV4;
    let row = |addresses| DeviceRow { addresses, mac: MAC, flags };
    let rows =
        [(2, row(addresses("192.0.2.10", ""))), (3, row(addresses("198.51.100.7", "2001:db8::7")))];
    assert_eq!(tables.rows, BTreeMap::from(rows));
    assert_eq!(tables.unmasqueraded, settings().unmasqueraded);
    assert!(fixture.status().devices.iter().all(|device| device.attached));
}

#[test]
fn the_nodes_own_address_stands_for_others_before_the_first_one() {
    let fixture = Fixture::new(settings());
    fixture.links(&[uplink(2, "eth0", &["192.0.2.200/24", "192.0.2.10/24"])]);
    let row = fixture.present().rows[&2];
    assert_eq!(row.addresses.ipv4, "192.0.2.10".parse().ok());
}

#[test]
fn a_family_without_an_address_or_switched_off_is_not_masqueraded() {
    let off = Families { ipv4: true, ipv6: false };
    let fixture =
        Fixture::new(DevicesSettings { families: off, masquerade: Families::DUAL, ..settings() });
    fixture.links(&[
        uplink(2, "eth0", &["2001:db8::7/64"]),
        uplink(3, "eth1", &["192.0.2.7/24", "2001:db8::8/64"]),
    ]);
    let rows = fixture.present().rows;
    assert_eq!(rows[&2].flags, device_flags::DROP);
    assert_eq!(rows[&2].addresses, Addresses::default());
    assert_eq!(rows[&3].flags, device_flags::DROP | device_flags::MASQUERADE_IPV4);
}

#[test]
fn named_devices_are_taken_as_they_are_and_missing_ones_are_told() {
    let patterns = ["bond0", "ens+"].map(|text| text.parse().unwrap()).into();
    let fixture = Fixture::new(DevicesSettings { patterns, ..settings() });
    fixture.links(&[
        uplink(2, "eth0", &["192.0.2.10/24"]),
        link(3, "ens5", &[]),
        link(4, "e", &[]),
    ]);
    assert_eq!(names(&fixture.present()), ["ens5"]);
    assert_eq!(fixture.status().missing, ["bond0"]);
}

#[test]
fn what_has_no_ethernet_is_passed_over_by_name() {
    let fixture = Fixture::new(settings());
    fixture.links(&[Link { mac: Mac::default(), ..uplink(2, "wg0", &["192.0.2.10/32"]) }]);
    assert_eq!(fixture.present().links.len(), 0);
    assert_eq!(fixture.status().passed_over.keys().collect::<Vec<_>>(), ["wg0"]);
}

#[test]
fn devices_come_and_go_and_get_other_addresses() {
    let fixture = Fixture::new(settings());
    fixture.links(&[uplink(2, "eth0", &["192.0.2.10/24"])]);
    fixture.links(&[uplink(2, "eth0", &["192.0.2.11/24"]), uplink(3, "eth1", &["192.0.2.12/24"])]);
    let tables = fixture.present();
    assert_eq!(names(&tables), ["eth0", "eth1"]);
    assert_eq!(tables.rows[&2].addresses.ipv4, "192.0.2.11".parse().ok());
    fixture.links(&[uplink(3, "eth1", &["192.0.2.12/24"])]);
    let tables = fixture.present();
    assert_eq!((names(&tables), tables.rows.len()), (vec!["eth1"], 1));
    // It comes back with another number, whose pins would have the same name.
    fixture.links(&[uplink(9, "eth0", &["192.0.2.10/24"]), uplink(3, "eth1", &["192.0.2.12/24"])]);
    assert_eq!(fixture.present().links.keys().collect::<Vec<_>>(), [&3, &9]);
    assert_eq!(fixture.present().gone, BTreeSet::new());
    // Out of use, but still there.
    fixture.links(&[link(9, "eth0", &[]), uplink(3, "eth1", &["192.0.2.12/24"])]);
    assert_eq!(names(&fixture.present()), ["eth1"]);
}

#[test]
fn an_unchanged_restart_reads_and_writes_nothing() {
    let fixture = Fixture::new(settings());
    let links = [uplink(2, "eth0", &["192.0.2.10/24"])];
    fixture.links(&links);
    let before = fixture.kernel.writes().len();
    fixture.devices.tell(DevicesMsg::Show(crash())).unwrap();
    fixture.settle();
    fixture.links(&links);
    assert_eq!(fixture.kernel.writes().len(), before);
    // A next life that has not seen the interfaces yet leaves all as it is.
    let make = Devices::factory(Rc::new(fixture.kernel.clone()), settings(), DriftWatch::default());
    let next = fixture.universe.spawn("devices-2", make);
    fixture.settle();
    let links = links.into_iter().map(|link| (link.ifindex, link)).collect();
    next.tell(DevicesMsg::Links(Rc::new(links))).unwrap();
    fixture.settle();
    assert_eq!(fixture.kernel.writes().len(), before);
}

#[test]
fn programs_find_their_rows_before_they_run_and_until_they_do_not() {
    let fixture = Fixture::new(settings());
    fixture.kernel.watch(|state, _| {
        for ifindex in state.devices.links.keys() {
            assert!(state.devices.rows.contains_key(ifindex), "{ifindex} runs without a row");
            assert!(!state.devices.unmasqueraded.is_empty());
        }
    });
    fixture.links(&[uplink(2, "eth0", &["192.0.2.10/24"])]);
    fixture.links(&[link(2, "eth0", &[])]);
    assert_eq!(fixture.present().rows.len(), 0);
}

#[test]
fn who_has_the_name_of_one_that_went_keeps_its_programs() {
    let fixture = Fixture::new(settings());
    fixture.links(&[uplink(2, "eth0", &["192.0.2.10/24"])]);
    fixture.links(&[uplink(3, "eth0", &["192.0.2.10/24"])]);
    // The same as the next run finds it.
    fixture.kernel.tamper(|state| state.unplug(3));
    let four = uplink(4, "eth0", &["192.0.2.10/24"]);
    fixture.kernel.tamper(|state| state.plug(four.clone()));
    let make = Devices::factory(Rc::new(fixture.kernel.clone()), settings(), DriftWatch::default());
    let next = fixture.universe.spawn("devices-2", make);
    next.tell(DevicesMsg::Links(Rc::new([(4, four)].into()))).unwrap();
    fixture.settle();
    let tables = fixture.present();
    assert_eq!(tables.links.keys().chain(tables.rows.keys()).copied().collect::<Vec<_>>(), [4, 4]);
    assert!(tables.gone.is_empty());
    let detached = |op: &KernelOp| matches!(op, KernelOp::DetachDevice { .. });
    assert!(!fixture.kernel.writes().iter().any(detached), "{:?}", fixture.kernel.writes());
}

#[test]
fn what_fails_is_read_again_and_tried_again() {
    let fixture = Fixture::new(settings());
    let mut refused: BTreeSet<_> =
        ["ReadDevices", "PutUnmasqueraded", "PutDevice", "AttachDevice"].into();
    let turn = move |step| if refused.remove(step) { Turn::Fail } else { Turn::Work };
    fixture.fate.is(turn);
    fixture.links(&[uplink(2, "eth0", &["192.0.2.10/24"])]);
    assert!(fixture.status().last_error.is_some());
    for _ in 0..4 {
        fixture.universe.advance(Duration::from_secs(5));
        fixture.settle();
    }
    assert_eq!(names(&fixture.present()), ["eth0"]);
    assert_eq!(fixture.status().last_error, None);
}

#[test]
fn who_waits_for_the_devices_hears_when_programs_run_there_or_cannot() {
    for fails in [false, true] {
        let fixture = Fixture::new(settings());
        if fails {
            fixture.fate.refuses("AttachDevice");
        }
        let host = &fixture.universe.host;
        let mut rests =
            host.ask(&fixture.devices, Duration::from_secs(60), "test", DevicesMsg::AtRest);
        fixture.settle();
        assert!(rests.now().is_none(), "nobody has said which interfaces there are");
        fixture.links(&[uplink(2, "eth0", &["192.0.2.10/24"])]);
        assert_eq!(names(&fixture.present()).is_empty(), fails);
        assert_eq!(rests.now(), Some(Ok(())));
        // Who asks later does not wait.
        let mut rests =
            host.ask(&fixture.devices, Duration::from_secs(60), "test", DevicesMsg::AtRest);
        fixture.settle();
        assert_eq!(rests.now(), Some(Ok(())));
    }
}

#[test]
fn a_device_at_which_something_fails_holds_up_no_other() {
    for refused in ["PutDevice", "AttachDevice"] {
        let fixture = Fixture::new(settings());
        fixture.kernel.refuse(move |op| match op {
            KernelOp::PutDevice { ifindex, .. } | KernelOp::AttachDevice { ifindex, .. } => {
                *ifindex == 2 && op.name() == refused
            }
            _ => false,
        });
        let (first, second) = (uplink(2, "eth0", &["192.0.2.10/24"]), uplink(3, "eth1", &[]));
        fixture.links(&[first.clone(), second.clone()]);
        assert_eq!(names(&fixture.present()), ["eth1"], "{refused} of eth0 is refused");
        let status = fixture.status();
        assert_eq!(status.failing.keys().collect::<Vec<_>>(), ["eth0"]);
        assert_eq!(status.last_error, None);
        // One that comes while the other is not due does not wait, either.
        fixture.links(&[first, second, uplink(4, "eth2", &[])]);
        assert_eq!(names(&fixture.present()), ["eth1", "eth2"]);
        fixture.universe.advance(Duration::from_secs(5));
        fixture.settle();
        assert_eq!(names(&fixture.present()), ["eth1", "eth2"], "it is still refused");
        fixture.kernel.refuse(|_| false);
        fixture.universe.advance(Duration::from_secs(60));
        fixture.settle();
        assert_eq!(names(&fixture.present()), ["eth0", "eth1", "eth2"]);
        assert_eq!(fixture.status().failing, BTreeMap::new());
    }
}

#[test]
fn a_device_that_cannot_be_let_go_keeps_its_row() {
    let fixture = Fixture::new(settings());
    let (first, second) = (uplink(2, "eth0", &["192.0.2.10/24"]), uplink(3, "eth1", &[]));
    fixture.links(&[first.clone(), second.clone()]);
    fixture.kernel.refuse(|op| matches!(op, KernelOp::DetachDevice { name } if name == "eth0"));
    let inner = |it: Link| Link { default_route: false, addresses: Vec::new(), ..it };
    fixture.links(&[inner(first), inner(second)]);
    assert_eq!(fixture.present().rows.keys().collect::<Vec<_>>(), [&2], "eth1 does not wait");
    assert_eq!(fixture.status().failing.keys().collect::<Vec<_>>(), ["eth0"]);
}

#[test]
fn programs_of_another_generation_are_replaced_and_the_tunnels_are_not_ours() {
    let fixture = Fixture::new(settings());
    let links = [uplink(2, "eth0", &["192.0.2.10/24"]), link(7, "cilium_vxlan", &[])];
    fixture.kernel.tamper(|state| {
        links.iter().for_each(|link| state.plug(link.clone()));
        let links = |name: &str, kind| crate::ports::DeviceLinks {
            name: name.to_owned(),
            kind,
            state: HookState::Stale,
        };
        state.devices.links.insert(2, links("eth0", DeviceKind::Native));
        state.devices.links.insert(7, links("cilium_vxlan", DeviceKind::Overlay));
        state.devices.gone.insert("cilium_vxlan".to_owned());
    });
    fixture.links(&links);
    let tables = fixture.present();
    assert_eq!(tables.links[&2].state, HookState::Link);
    assert_eq!(tables.links[&7].state, HookState::Stale);
    let attached = |op: &KernelOp| matches!(op, KernelOp::AttachDevice { .. });
    assert_eq!(fixture.kernel.writes().iter().filter(|op| attached(op)).count(), 1);
    assert_eq!(tables.gone.len(), 1);
}

#[test]
fn programs_that_were_loaded_for_endpoints_run_at_devices_by_the_next_look() {
    let fixture = Fixture::new(settings());
    let links = [uplink(2, "eth0", &["192.0.2.10/24"])];
    fixture.links(&links);
    let stale = |state: &mut crate::testing::KernelState| {
        state.devices.links.values_mut().for_each(|links| links.state = HookState::Stale);
    };
    fixture.kernel.tamper(stale);
    fixture.links(&links);
    assert_eq!(fixture.present().links[&2].state, HookState::Link);
}

#[test]
fn patterns_are_names_of_interfaces_or_how_they_begin() {
    for text in ["eth0", "eth+", "+", "bond0.100"] {
        assert_eq!(text.parse::<DevicePattern>().unwrap().to_string(), text);
    }
    for text in ["", "a/b", "eth 0", "0123456789abcdef"] {
        assert!(text.parse::<DevicePattern>().is_err(), "{text}");
    }
}
