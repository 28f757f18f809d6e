//! Rows of services.

use std::{net::SocketAddr, time::Duration};

use super::{SWEEP, drift, mends, node, seen, slice};
use crate::{
    model::{BackendId, Frontend, L4Address, ServiceId, Transport},
    ports::{BackendRow, BackendState, MemberKey, SlotRow},
    testing::{KernelServices, Landing},
};

/// The frontend at that address.
fn frontend(services: &KernelServices, address: &str) -> (Frontend, ServiceId) {
    let at: SocketAddr = format!("{address}:80")
        .parse()
        .unwrap_or_else(|_| format!("[{address}]:80").parse().unwrap());
    let ((frontend, _), row) =
        services.slots.iter().find(|((it, slot), _)| it.at.socket() == at && *slot == 0).unwrap();
    (*frontend, row.id)
}

fn services(what: &str, map: &str, tamper: impl Fn(&mut KernelServices)) {
    mends(what, &[(map, 1)], |state| tamper(&mut state.services));
}

#[test]
fn slots_and_backends_come_back() {
    for (address, family) in [("10.96.0.1", 4), ("fd00:96::1", 6)] {
        let map = format!("cilium_lb{family}_services_v2");
        services("no frontend", &map, |it| {
            let (at, _) = frontend(it, address);
            it.slots.remove(&(at, 0)).unwrap();
        });
        services("no slot", &map, |it| {
            let (at, _) = frontend(it, address);
            it.slots.remove(&(at, 2)).unwrap();
        });
        services("fewer backends", &map, |it| {
            let (at, _) = frontend(it, address);
            it.slots.get_mut(&(at, 0)).unwrap().count = 1;
        });
        services("another backend", &map, |it| {
            let (at, _) = frontend(it, address);
            it.slots.get_mut(&(at, 1)).unwrap().word = 4711;
        });
        services("a slot more", &map, |it| {
            let (at, id) = frontend(it, address);
            it.slots.insert((at, 9), SlotRow { word: 1, id, ..SlotRow::default() });
        });
        services("a foreign frontend", &map, |it| {
            let (mut at, _) = frontend(it, address);
            at.at.port = 4711;
            it.slots.insert((at, 0), SlotRow { id: ServiceId(4711), ..SlotRow::default() });
        });
        let unserved = |state: &KernelServices| {
            let (mut at, _) = frontend(state, address);
            (at.at.port, at.at.transport) = (0, Transport::ANY);
            at
        };
        services("ports that nobody serves", &map, |it| {
            let at = unserved(it);
            it.slots.remove(&(at, 0)).unwrap();
        });
        services("somebody serves all ports", &map, |it| {
            let at = unserved(it);
            it.slots.get_mut(&(at, 0)).unwrap().count = 1;
        });
        services("nobody's address", &map, |it| {
            let mut at = unserved(it);
            at.at.address = match family {
                4 => "10.96.0.77".parse().unwrap(),
                _ => "fd00:96::77".parse().unwrap(),
            };
            it.slots.insert((at, 0), SlotRow::default());
        });
        let map = format!("cilium_lb{family}_backends_v3");
        let of_family = |key: &&(BackendId, bool)| key.1 == (family == 4);
        services("no backend", &map, |it| {
            let key = *it.backends.keys().find(of_family).unwrap();
            it.backends.remove(&key);
        });
        services("another place", &map, |it| {
            let key = *it.backends.keys().find(of_family).unwrap();
            it.backends.get_mut(&key).unwrap().at.port = 4711;
        });
        services("another state", &map, |it| {
            let key = *it.backends.keys().find(of_family).unwrap();
            it.backends.get_mut(&key).unwrap().state = BackendState::Maintenance;
        });
        services("a foreign backend", &map, |it| {
            let (at, _) = frontend(it, address);
            let at = L4Address { port: 4711, ..at.at };
            let row = BackendRow { at, state: BackendState::Active, zone: 0 };
            it.backends.insert((BackendId(4711), family == 4), row);
        });
    }
}

#[test]
fn rows_beside_the_slots_come_back() {
    for (address, balanced, family) in
        [("10.96.0.1", "203.0.113.9", 4), ("fd00:96::1", "2001:db8:9::9", 6)]
    {
        let is_ipv4 = family == 4;
        let map = format!("volvox_lb{family}_members");
        let of_family = |key: &&(MemberKey, bool)| key.1 == is_ipv4;
        services("nobody serves", &map, |it| {
            let key = *it.members.keys().find(of_family).unwrap();
            it.members.remove(&key);
        });
        services("one serves otherwise", &map, |it| {
            let key = *it.members.keys().find(of_family).unwrap();
            it.members.get_mut(&key).unwrap().state = BackendState::Maintenance;
        });
        services("one serves elsewhere", &map, |it| {
            let key = *it.members.keys().find(of_family).unwrap();
            it.members.get_mut(&key).unwrap().at.port = 4711;
        });
        services("a foreign one serves", &map, |it| {
            let (key, row) = it.members.iter().find(|(key, _)| of_family(key)).unwrap();
            let (((id, _), _), row) = (*key, *row);
            it.members.insert(((id, BackendId(4711)), is_ipv4), row);
        });
        services("one serves nobody", &map, |it| {
            let (key, row) = it.members.iter().find(|(key, _)| of_family(key)).unwrap();
            let (((_, backend), _), row) = (*key, *row);
            it.members.insert(((ServiceId(4711), backend), is_ipv4), row);
        });
        let map = format!("cilium_lb{family}_reverse_nat");
        services("no way back", &map, |it| {
            let (_, id) = frontend(it, address);
            it.reverse_nat.remove(&(id, is_ipv4)).unwrap();
        });
        services("another way back", &map, |it| {
            let (_, id) = frontend(it, address);
            it.reverse_nat.get_mut(&(id, is_ipv4)).unwrap().set_port(4711);
        });
        services("a foreign way back", &map, |it| {
            let (at, _) = frontend(it, address);
            it.reverse_nat.insert((ServiceId(4711), is_ipv4), at.at.socket());
        });
        let map = format!("cilium_lb{family}_source_range");
        services("a source less", &map, |it| {
            let (_, id) = frontend(it, balanced);
            let range = *it.ranges.iter().find(|(it, _)| *it == id).unwrap();
            it.ranges.remove(&range);
        });
        services("a source more", &map, |it| {
            let (_, id) = frontend(it, balanced);
            let all = if is_ipv4 { "192.0.2.0/24" } else { "2001:db8:66::/48" };
            it.ranges.insert((id, all.parse().unwrap()));
        });
        services("a source of nobody", &map, |it| {
            let all = if is_ipv4 { "192.0.2.0/24" } else { "2001:db8:66::/48" };
            it.ranges.insert((ServiceId(4711), all.parse().unwrap()));
        });
        let map = format!("cilium_lb{family}_maglev");
        services("no table", &map, |it| {
            let (_, id) = frontend(it, balanced);
            it.maglev.remove(&(id, is_ipv4)).unwrap();
        });
        services("another table", &map, |it| {
            let (_, id) = frontend(it, balanced);
            it.maglev.get_mut(&(id, is_ipv4)).unwrap().pop();
        });
        services("a foreign table", &map, |it| {
            it.maglev.insert((ServiceId(4711), is_ipv4), Vec::new());
        });
        let map = "cilium_lb_affinity_match";
        services("nobody stays", map, |it| {
            let (_, id) = frontend(it, address);
            let row = *it.affinity.iter().find(|(_, it)| *it == id).unwrap();
            it.affinity.remove(&row);
        });
        services("somebody stays with another", map, |it| {
            let (_, id) = frontend(it, address);
            it.affinity.insert((BackendId(4711), id));
        });
    }
    services("numbers that may be had again", "volvox_lb", |it| it.unused.backend = 1);
}

/// The whole map is emptied while services change: what is right is never taken for drift.
#[test]
fn rows_come_back_amid_changes() {
    let mut world = node();
    world.kernel.tamper(|state| state.services.slots.clear());
    for round in 0..40 {
        let members: &[&str] =
            if round % 2 == 0 { &["10.0.0.1", "10.0.2.1"] } else { &["10.0.3.1"] };
        world.apply("more", [slice("web-more", "web", members)]);
        world.advance(Duration::from_secs(1));
    }
    world.apply("more", []);
    world.advance(2 * SWEEP);
    assert_eq!(
        seen(&world).services.landing(frontend(&world.kernel.state().services, "10.96.0.1").0),
        {
            let at = |text: &str| L4Address {
                address: text.parse().unwrap(),
                port: 8080,
                transport: Transport::TCP,
            };
            Landing::At([at("10.0.0.1"), at("10.0.1.1")].into())
        }
    );
    let found = drift(&world);
    // Two frontends, two slots of each, and a row of each address for ports that nobody serves.
    assert!(found["cilium_lb6_services_v2"] == 8, "{found:?}");
    let maps: Vec<_> = found.into_keys().collect();
    assert_eq!(maps, ["cilium_lb4_services_v2", "cilium_lb6_services_v2"]);
}
