//! Tests: the overlay and the routes to other nodes are read as they were made, and an uninstall
//! removes them wherever it was killed before. Devices of others stay.

use std::{collections::BTreeMap, process::Command};

use volvox_actors::{
    model::Addresses,
    ports::{
        DeviceKind, HOST_DEVICE, HOST_PEER, Hop, KernelOp, KernelOutcome, LOCAL_RULE_PRIORITY,
        LocalRule, LocalRules, OVERLAY, Routing, RoutingOp,
    },
};
use volvox_maps::crash::killed_before;
use volvox_system::netlink::Socket;

use super::{crashes::MANY, sandbox::Sandbox};
use crate::datapath::{step::Stepper, uninstall};

fn read(stepper: &mut Stepper) -> Routing {
    match stepper.step(KernelOp::ReadRouting).unwrap() {
        KernelOutcome::Routing(routing) => *routing,
        other => panic!("{other:?}"),
    }
}

fn all(stepper: &mut Stepper, ops: impl IntoIterator<Item = RoutingOp>) {
    for op in ops {
        stepper.step(KernelOp::Routing(op.clone())).unwrap_or_else(|error| {
            panic!("{op:?}: {error}");
        });
    }
}

/// Rules that look up the node's own addresses, where the kernel has them first or elsewhere.
fn rules(priority: u32) -> [LocalRule; 2] {
    [false, true].map(|ipv6| LocalRule { ipv6, priority })
}

/// The same as they are read.
fn read_as(priority: u32) -> BTreeMap<bool, LocalRules> {
    let one = |ipv6| (ipv6, LocalRules { priorities: [priority].into(), others: false });
    [false, true].map(one).into()
}

/// Makes devices, and a route in a tunnel, and moves rules.
fn overlay(stepper: &mut Stepper) -> Routing {
    let make =
        [RoutingOp::MakeOverlay { port: 8472, mtu: 1500 }, RoutingOp::MakeHostPair { mtu: 1500 }];
    all(stepper, make);
    let made = read(stepper);
    for (name, device) in &made.devices {
        assert!(device.ours && device.fit && !device.prepared, "{name}: {device:?}");
        all(stepper, [RoutingOp::Prepare { name: name.clone() }]);
        stepper.step(KernelOp::LinkUp { ifindex: device.ifindex }).unwrap();
    }
    let router = Addresses { ipv4: "10.1.0.254".parse().ok(), ipv6: "fd01::fe".parse().ok() };
    let (host, ifindex) = (made.devices[HOST_DEVICE].ifindex, made.devices[OVERLAY].ifindex);
    let assign = |address| RoutingOp::Assign { ifindex: host, address };
    all(stepper, router.iter().map(assign));
    let node = "192.0.2.2".parse().unwrap();
    let routes = ["10.2.0.0/24", "fd02::/64"].into_iter().zip(router.iter()).map(|(to, source)| {
        let hop = Hop::Tunnel { node, ifindex, source: Some(source), mtu: 1450 };
        RoutingOp::Route { prefix: to.parse().unwrap(), hop, replaces: false }
    });
    let (name, kind) = (OVERLAY.to_owned(), DeviceKind::Overlay);
    stepper.step(KernelOp::AttachDevice { ifindex, name, kind }).unwrap();
    let tunnel = RoutingOp::Tunnel { ifindex, port: 8472, records: 8 };
    all(stepper, [tunnel].into_iter().chain(routes));
    all(stepper, rules(LOCAL_RULE_PRIORITY).into_iter().map(RoutingOp::PutLocalRule));
    all(stepper, rules(0).into_iter().map(RoutingOp::DeleteLocalRule));
    read(stepper)
}

#[test]
fn what_leads_to_other_nodes_is_read_as_it_was_made_and_goes_with_the_devices() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let mut stepper = Stepper::new(&datapath);
        let before = read(&mut stepper);
        assert_eq!((before.devices, before.routes.len(), before.tunnel), (BTreeMap::new(), 0, 0));
        assert_eq!(before.rules, read_as(0));
        let made = overlay(&mut stepper);
        assert!(made.devices.values().all(|device| device.prepared), "{made:?}");
        let device = &made.devices[OVERLAY];
        assert_eq!((device.port, device.ifindex, device.attached), (8472, made.tunnel, true));
        assert_eq!((made.routes.len(), made.odd.len()), (2, 0));
        assert_eq!((made.port, made.records), (8472, 8));
        assert_eq!(made.rules, read_as(LOCAL_RULE_PRIORITY));
        // They are what they are, made and removed twice, and beside rules for some packets only.
        all(&mut stepper, rules(LOCAL_RULE_PRIORITY).into_iter().map(RoutingOp::PutLocalRule));
        all(&mut stepper, rules(0).into_iter().map(RoutingOp::DeleteLocalRule));
        for words in [
            "rule add from 10.1.0.0/24 lookup local pref 7",
            "rule add from 10.1.0.0/24 lookup local pref 0",
        ] {
            assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success());
        }
        all(&mut stepper, rules(0).into_iter().map(RoutingOp::DeleteLocalRule));
        let shown = Command::new("ip").args(["rule", "show"]).output().unwrap().stdout;
        let selective = String::from_utf8(shown).unwrap().matches("from 10.1.0.0/24").count();
        assert_eq!(selective, 2, "those are somebody else's");
        let host = &made.links[&made.devices[HOST_DEVICE].ifindex];
        assert!(host.up && host.addresses.contains(&"10.1.0.254/32".parse().unwrap()), "{host:?}");
        // The row of the programs is the next agent's, too.
        let again = sandbox.open();
        assert_eq!(read(&mut Stepper::new(&again)), made);

        let remove = |name: &str| RoutingOp::Remove {
            ifindex: made.devices[name].ifindex,
            name: name.to_owned(),
        };
        // A number that another one has by now is left alone.
        let other = RoutingOp::Remove { ifindex: made.devices[OVERLAY].ifindex, name: "lo".into() };
        all(&mut stepper, [other]);
        assert_eq!(read(&mut stepper), made);
        all(
            &mut stepper,
            [
                RoutingOp::Tunnel { ifindex: 0, port: 0, records: 0 },
                remove(OVERLAY),
                remove(HOST_DEVICE),
            ],
        );
        all(&mut stepper, [remove(HOST_PEER)]);
        let after = read(&mut stepper);
        assert_eq!((after.devices, after.routes.len(), after.tunnel), (BTreeMap::new(), 0, 0));
    });
}

#[test]
fn devices_of_somebody_else_are_told_apart_and_never_removed() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let mut stepper = Stepper::new(&datapath);
        let words = "link add cilium_vxlan type vxlan external dstport 8472";
        let status = Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(status.success());
        let found = read(&mut stepper).devices[OVERLAY].clone();
        assert!(!found.ours && !found.fit, "{found:?}");
        all(&mut stepper, [RoutingOp::Remove { ifindex: found.ifindex, name: OVERLAY.into() }]);
        let make = RoutingOp::MakeOverlay { port: 8472, mtu: 1500 };
        let refused = stepper.step(KernelOp::Routing(make)).unwrap_err().to_string();
        assert!(refused.contains("create the interface cilium_vxlan"), "{refused}");
        uninstall(sandbox.root()).unwrap();
        let mut socket = Socket::open().unwrap();
        assert_eq!(socket.device(OVERLAY).unwrap().unwrap().ifindex, found.ifindex);
    });
}

#[test]
fn uninstalling_leaves_nothing_wherever_it_is_killed_before() {
    for number in 0..MANY {
        let mut killed = false;
        Sandbox::run(|sandbox| {
            let datapath = sandbox.open();
            overlay(&mut Stepper::new(&datapath));
            drop(datapath);
            killed = killed_before(number, || drop(uninstall(sandbox.root()).unwrap()));
            let removed = uninstall(sandbox.root()).unwrap();
            assert!(killed || removed.is_empty(), "{removed:?}");
            let mut socket = Socket::open().unwrap();
            assert!(socket.node_routes().unwrap().hops.is_empty());
            let rules = socket.local_rules().unwrap();
            assert_eq!(rules, read_as(0), "killed before step {number}");
            for name in [OVERLAY, HOST_DEVICE, HOST_PEER] {
                assert_eq!(socket.device(name).unwrap(), None, "killed before step {number}");
            }
        });
        if number > 12 || !killed {
            return assert!(number > 4, "{number} steps");
        }
    }
}
