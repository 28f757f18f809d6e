//! Somebody else changes the kernel's rows: one sweep later they are as they were written.

mod services;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    endpoints::{
        endpoint::Level,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::{
        Addresses, Direction, EndpointId, IdentityId, Mac, PolicyEntry, PolicyKey, drift::Drift,
    },
    node::auditor::AuditorMsg,
    policy::ipcache::IpcacheMsg,
    ports::{ConfigRow, DeviceRow, EndpointRow, IpcacheRow, KernelOp, Link, LxcRow, lxc_flags},
    services::service_cache::{Algorithm, ServicesMsg},
    testing::{KernelState, World, allow_from, pod, spec},
};

const SWEEP: Duration = Duration::from_secs(30);
const WEB: EndpointId = EndpointId(1);

fn slice(name: &str, of: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": of } },
        "addressType": if addresses[0].contains(':') { "IPv6" } else { "IPv4" },
        "ports": [{ "port": 8080 }],
        "endpoints": addresses.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
    })
}

/// A node with endpoints, policies, prefixes, a device, and services of all kinds of rows.
fn node() -> World {
    let mut world = World::off();
    world.settings.serving.balancing = Algorithm::Maglev.into();
    world.settings.devices.patterns = vec!["eth+".parse().unwrap()];
    world.kernel.tamper(|state| {
        let addresses = vec!["192.0.2.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()];
        let (name, default_route) = ("eth0".to_owned(), true);
        let mac = Mac([2, 0, 0, 0, 0, 2]);
        let link =
            Link { ifindex: 2, name, addresses, default_route, up: true, mac, ..Link::default() };
        state.plug(link);
    });
    world.boot();
    world.apply("pods", [pod(1, "web"), pod(2, "client")]);
    let from = json!({ "fromEndpoints": [{ "matchLabels": { "app": "client" } }] });
    let prefixes = json!({ "fromCIDR": ["198.51.100.0/24", "2001:db8:1::/48"] });
    world.apply(
        "policy",
        [allow_from("web", from), {
            let mut other = allow_from("web", prefixes);
            other["metadata"]["name"] = json!("prefixes");
            other
        }],
    );
    world.apply(
        "services",
        [
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "namespace": "shop", "name": "web" },
                "spec": {
                    "type": "LoadBalancer", "clusterIPs": ["10.96.0.1", "fd00:96::1"],
                    "ports": [{ "port": 80 }], "sessionAffinity": "ClientIP",
                    "loadBalancerSourceRanges": ["198.51.100.0/24", "2001:db8:1::/48"],
                },
                "status": { "loadBalancer": { "ingress": [
                    { "ip": "203.0.113.9" }, { "ip": "2001:db8:9::9" },
                ] } },
            }),
            slice("web-4", "web", &["10.0.0.1", "10.0.1.1"]),
            slice("web-6", "web", &["fd00::1", "fd00:1::1"]),
        ],
    );
    for number in [1, 2] {
        world.create(spec(number)).unwrap();
    }
    world.advance(2 * SWEEP);
    assert!(world.all_ready());
    assert_eq!(drift(&world), BTreeMap::new(), "nobody changed anything");
    world
}

/// How many rows of each map drifted so far.
fn drift(world: &World) -> BTreeMap<String, u64> {
    let view = world.ask(&world.node_supervisor().auditor, AuditorMsg::Show);
    let rows = view.drift.iter();
    rows.map(|(map, it)| (map.clone(), it.missing + it.changed + it.foreign)).collect()
}

/// What packets can see: in which slot a policy stands, and how often it was built, they cannot.
fn seen(world: &World) -> KernelState {
    let mut state = world.kernel.state();
    let stand = |slots: &BTreeMap<u32, _>, slot| slots.get(&slot).cloned().unwrap_or_default();
    let slots = state
        .rows
        .config
        .values()
        .map(|row| (row.policy_slot & !1, stand(&state.slots, row.policy_slot)));
    let slots = slots.collect();
    let pins = state.pins.iter().map(|(id, slot)| (*id, *slot));
    let is_right = |(id, slot): &(EndpointId, u32)| {
        state.rows.config.values().any(|row| row.endpoint == *id && row.policy_slot == *slot)
    };
    let (right, wrong): (BTreeMap<_, _>, BTreeMap<_, _>) = pins.partition(is_right);
    state.pins = right.into_keys().map(|id| (id, id.slot(0))).chain(wrong).collect();
    state.slots = slots;
    for row in state.rows.config.values_mut() {
        (row.generation, row.policy_slot) = (0, row.policy_slot & !1);
    }
    state
}

fn mends(what: &str, maps: &[(&str, u64)], tamper: impl FnOnce(&mut KernelState)) {
    let world = node();
    let before = seen(&world);
    world.kernel.tamper(tamper);
    assert_ne!(seen(&world), before, "{what}: it was changed");
    world.advance(SWEEP);
    assert_eq!(seen(&world), before, "{what}: it is as it was");
    let maps = maps.iter().map(|(map, rows)| ((*map).to_owned(), *rows)).collect();
    assert_eq!(drift(&world), maps, "{what}");
    let writes = world.kernel.writes().len();
    world.advance(2 * SWEEP);
    assert_eq!(world.kernel.writes().len(), writes, "{what}: and that is the end of it");
    assert_eq!(drift(&world), maps, "{what}: nor is it counted again");
    world.audit();
}

fn slot_of(state: &KernelState) -> u32 {
    state.rows.config[&101].policy_slot
}

#[test]
fn rows_of_endpoints_come_back() {
    mends("no policy row", &[("cilium_policy_v2", 1)], |state| {
        let slot = slot_of(state);
        state.slots.get_mut(&slot).unwrap().pop_first();
    });
    mends("another verdict", &[("cilium_policy_v2", 1)], |state| {
        let slot = slot_of(state);
        let mut rows = state.slots.get_mut(&slot).unwrap().values_mut();
        let entry = rows.next().unwrap();
        entry.deny = !entry.deny;
    });
    mends("a foreign policy row", &[("cilium_policy_v2", 1)], |state| {
        let slot = slot_of(state);
        let (direction, identity) = (Direction::Ingress, IdentityId(4711));
        let key = PolicyKey { direction, identity, protocol: 0, port: 0, bits: 0 };
        let entry = PolicyEntry { deny: false, precedence: 1, cookie: 0 };
        state.slots.get_mut(&slot).unwrap().insert(key, entry);
    });
    mends("no policy map", &[("volvox_policy", 1)], |state| {
        let slot = slot_of(state);
        state.slots.remove(&slot);
    });
    mends("a pin of another map", &[], |state| {
        state.pins.insert(WEB, EndpointId(2).slot(0));
    });
    mends("no configuration", &[("volvox_config", 1)], |state| {
        state.rows.config.remove(&101);
    });
    mends("another identity", &[("volvox_config", 1)], |state| {
        state.rows.config.get_mut(&101).unwrap().identity = IdentityId(2);
    });
    mends("a local address of another", &[("cilium_lxc", 1)], |state| {
        let row = state.rows.lxc.values_mut().find(|row| row.endpoint == 1).unwrap();
        row.identity = IdentityId(2);
    });
    mends("no record", &[("volvox_endpoint", 1)], |state| {
        state.rows.endpoints.remove(&WEB);
    });
    mends("another record", &[("volvox_endpoint", 1)], |state| {
        state.rows.endpoints.get_mut(&WEB).unwrap().container_id = "somebody-else's".to_owned();
    });
}

#[test]
fn rows_of_nobodys_endpoints_go() {
    let id = EndpointId(3000);
    let maps =
        [("cilium_lxc", 1), ("cilium_policy_v2", 1), ("volvox_config", 1), ("volvox_endpoint", 1)];
    mends("an endpoint of nobody", &maps, |state| {
        let config = state.rows.config[&101];
        let config =
            ConfigRow { endpoint: id, ifindex: 9999, policy_slot: slot_of(state), ..config };
        state.rows.config.insert(9999, config);
        let row = LxcRow { endpoint: id.0, ifindex: 9999, ..LxcRow::default() };
        state.rows.lxc.insert("10.0.0.99".parse().unwrap(), row);
        state.rows.endpoints.insert(id, EndpointRow::default());
        state.pins.insert(id, id.slot(0));
    });
}

#[test]
fn rows_of_the_ipcache_come_back() {
    let all = node().kernel.state().rows.ipcache.len() as u64;
    mends("no rows at all", &[("cilium_ipcache_v2", all)], |state| state.rows.ipcache.clear());
    let map = [("cilium_ipcache_v2", 1)];
    mends("no row of a rule's prefix", &map, |state| {
        state.rows.ipcache.remove(&"198.51.100.0/24".parse().unwrap()).unwrap();
    });
    mends("no row of an endpoint", &map, |state| {
        let address = spec(1).addresses.ipv4.unwrap();
        state.rows.ipcache.remove(&std::net::IpAddr::from(address).into()).unwrap();
    });
    mends("another identity", &map, |state| {
        let row = state.rows.ipcache.get_mut(&"2001:db8:1::/48".parse().unwrap()).unwrap();
        row.identity = IdentityId(1);
    });
    mends("a tunnel to nowhere", &map, |state| {
        let row = state.rows.ipcache.get_mut(&"0.0.0.0/0".parse().unwrap()).unwrap();
        row.tunnel = "192.0.2.66".parse().ok();
    });
    mends("a row of nobody", &map, |state| {
        let row = IpcacheRow::of(IdentityId::HOST);
        state.rows.ipcache.insert("198.18.0.0/15".parse().unwrap(), row);
    });
}

#[test]
fn rows_of_the_node_come_back() {
    let address = "192.0.2.1".parse().unwrap();
    mends("no row of the host", &[("cilium_lxc", 1)], |state| {
        state.rows.lxc.remove(&address).unwrap();
    });
    mends("the host's is no host's", &[("cilium_lxc", 1)], |state| {
        state.rows.lxc.get_mut(&address).unwrap().flags = 0;
    });
    mends("another host", &[("cilium_lxc", 1)], |state| {
        let row = LxcRow { flags: lxc_flags::HOST, ..LxcRow::default() };
        state.rows.lxc.insert("10.0.0.77".parse().unwrap(), row);
    });
    mends("a pod is the host", &[("cilium_lxc", 2)], |state| {
        let row = LxcRow { flags: lxc_flags::HOST, ..LxcRow::default() };
        let address = spec(1).addresses.ipv4.unwrap();
        state.rows.lxc.insert(address.into(), row);
    });
    mends("another tunnel", &[("volvox_node", 1)], |state| state.routing.tunnel = 77);
    mends("no row of a device", &[("volvox_device", 1)], |state| state.devices.rows.clear());
    mends("a device of another address", &[("volvox_device", 1)], |state| {
        state.devices.rows.get_mut(&2).unwrap().addresses = Addresses::default();
    });
    mends("a foreign device", &[("volvox_device", 1)], |state| {
        state.devices.rows.insert(77, DeviceRow::default());
    });
    mends("no prefix that is not masqueraded", &[("cilium_ipmasq_v4", 1)], |state| {
        state.devices.unmasqueraded.clear();
    });
    mends("a foreign prefix", &[("cilium_ipmasq_v6", 1)], |state| {
        state.devices.unmasqueraded.insert("2001:db8::/32".parse().unwrap());
    });
}

/// Changes without anybody else's hand are no drift.
#[test]
fn own_changes_are_no_drift() {
    let mut world = node();
    for round in 0..90 {
        let name = |prefix: u8| format!("198.18.{prefix}.0/24");
        let prefixes = json!({ "fromCIDR": [name(round), name(round + 1)] });
        world.apply("policy", [allow_from("web", prefixes)]);
        let members = [format!("10.0.{round}.1"), "10.0.0.1".to_owned()];
        let members: Vec<_> = members.iter().map(String::as_str).collect();
        world.apply("more", [slice("web-more", "web", &members)]);
        if round % 9 == 0 {
            world.delete(EndpointReference::Id(world.list()[0].id));
        }
        if round % 9 == 4 {
            world.create(spec(if round % 2 == 0 { 1 } else { 2 })).ok();
        }
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(drift(&world), BTreeMap::new());
    world.audit();
}

/// Who asks for an endpoint to be built again hears what was put right, at once.
#[test]
fn a_regeneration_by_hand_puts_right_and_says_what() {
    let world = node();
    world.kernel.tamper(|state| {
        let slot = slot_of(state);
        state.slots.get_mut(&slot).unwrap().clear();
        state.rows.ipcache.remove(&"198.51.100.0/24".parse().unwrap());
        state.services.reverse_nat.clear();
    });
    let rows = |all: &[Drift]| all.iter().map(|it| (it.map, it.rows())).collect::<Vec<_>>();
    let ask = IpcacheMsg::Compare;
    let found = world.ask(&world.node_supervisor().ipcache, ask);
    assert_eq!(rows(&found), [("cilium_ipcache_v2", 1)]);
    let found = world.ask(&world.node_supervisor().services, ServicesMsg::Compare);
    assert_eq!(rows(&found), [("cilium_lb4_reverse_nat", 2), ("cilium_lb6_reverse_nat", 2)]);
    let (level, reason) = (Level::Rewrite, "a test".into());
    let view = world.ask(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Regenerate {
        target: EndpointReference::Id(WEB),
        level,
        reason,
        reply,
    });
    let view = view.unwrap();
    let had = view.realised.policy.len() as u64;
    assert_eq!(rows(&view.drift), [("cilium_policy_v2", had)]);
    let state = world.kernel.state();
    assert_eq!(state.policy_of(101), Some(&*view.realised.policy));
    assert!(state.rows.ipcache.contains_key(&"198.51.100.0/24".parse().unwrap()));
    assert_eq!(state.services.reverse_nat.len(), 4);
    // What is right is left alone.
    let writes = world.kernel.writes().len();
    let reason = "again".into();
    let view = world.ask(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Regenerate {
        target: EndpointReference::Id(WEB),
        level,
        reason,
        reply,
    });
    assert_eq!((view.unwrap().drift.len(), world.kernel.writes().len()), (0, writes));
}

/// A policy that somebody emptied comes back, and no packet meets a third verdict.
#[test]
fn an_emptied_policy_comes_back_without_a_third_verdict() {
    let world = node();
    let whole = world.kernel.state().policy_of(101).unwrap().clone();
    assert!(whole.len() > 2);
    world.kernel.tamper(|state| {
        let slot = slot_of(state);
        state.slots.get_mut(&slot).unwrap().clear();
    });
    let expected = whole.clone();
    world.kernel.watch(move |state, op: &KernelOp| {
        let seen = state.policy_of(101).unwrap();
        // A packet meets one of the rows: that it is not there yet, or that it is.
        let is_expected = seen.iter().all(|(key, entry)| expected.get(key) == Some(entry));
        assert!(is_expected, "after {op:?}: {seen:?}");
    });
    world.advance(SWEEP);
    assert_eq!(world.kernel.state().policy_of(101), Some(&whole));
}

/// With sweeps switched off nothing is read.
#[test]
fn without_a_watchdog_nothing_is_compared() {
    let mut world = World::off();
    world.settings.schedule.sweep = Duration::ZERO;
    world.boot();
    world.apply("pods", [pod(1, "web")]);
    world.create(spec(1)).unwrap();
    world.kernel.tamper(|state| state.rows.ipcache.clear());
    world.advance(4 * SWEEP);
    assert!(world.kernel.state().rows.ipcache.is_empty());
}
