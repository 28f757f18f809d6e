//! What Cilium left is taken over in an order that loses nothing, also by a start that is killed before any of its
//! steps; and it is left alone by who was not told.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use volvox_actors::{
    model::EndpointId,
    ports::{ConfigRow, DeviceKind, Hook},
};
use volvox_bpf_progs::maps::by_name;
use volvox_maps::{
    crash::killed_before,
    error::CILIUM_PROGRAMS,
    pins::{Pins, make_dir},
    policies::rows,
    programs::is_ours_by_id,
    rows::{config_from_raw, policy_entry_to_raw, policy_key_to_raw},
    sys::{self, Map, NewMap, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};
use zerocopy::IntoBytes;

use super::{
    crashes::MANY,
    hooks::{hooks, settle},
    sandbox::{Sandbox, config_row, policy},
    upgrade::{filtered, linked, programs},
};
use crate::datapath::{
    Datapath, DatapathConfig, Inheritance, hand_back,
    hooks::Place,
    maps::{new_map, policy_spec},
    survey,
};

const FROM: &str = "cil_from_container";

/// Two endpoints and a device as Cilium leaves them.
struct Left {
    places: Vec<Place>,
    rows: Vec<ConfigRow>,
    device: u32,
}

fn cilium_program(name: &str) -> OwnedFd {
    let program = sys::load_pass_as(name).unwrap();
    assert!(name.starts_with(CILIUM_PROGRAMS));
    program
}

fn pin_link(path: &std::path::Path, ifindex: u32, (name, hook): (&str, u32)) {
    make_dir(path.parent().unwrap()).unwrap();
    let link = sys::link_create(cilium_program(name), ifindex, hook).unwrap();
    sys::pin(&link, path).unwrap();
}

impl Left {
    /// A map of services that is allocated in advance, and one of connections of a size of its own.
    fn make(sandbox: &Sandbox) -> Self {
        let pins = Pins::prepare(sandbox.root()).unwrap();
        for (name, max_entries) in [("cilium_lb4_services_v2", 1024), ("cilium_ct4_global", 1000)] {
            let like = new_map(by_name(name).unwrap(), max_entries);
            let map = Map::create(&NewMap { flags: 0, ..like }).unwrap();
            sys::pin(&map, &pins.map(name)).unwrap();
        }
        let calls = NewMap {
            name: "cilium_call_pol",
            map_type: 3,
            key_size: 4,
            value_size: 4,
            max_entries: 16,
            flags: 0,
            inner: None,
        };
        sys::pin(Map::create(&calls).unwrap(), &pins.map("cilium_call_policy")).unwrap();
        let mut left = Self { places: Vec::new(), rows: Vec::new(), device: 0 };
        for number in 1..=2 {
            let ifindex = sandbox.veth(number);
            let endpoint = EndpointId(number.into());
            left.places.push(Place { endpoint, ifindex });
            left.rows.push(config_row(number, ifindex));
            let map = Map::create(&policy_spec(sandbox.config().sizes)).unwrap();
            for (key, entry) in policy([80 + u16::from(number)]) {
                let key = policy_key_to_raw(&key);
                let row = policy_entry_to_raw(&key, &entry);
                map.update(key.as_bytes(), row.as_bytes()).unwrap();
            }
            sys::pin(&map, &pins.policy(endpoint)).unwrap();
            pin_link(&pins.link(endpoint, Hook::FromContainer), ifindex, (FROM, TCX_INGRESS));
        }
        left.device = sandbox.veth(9);
        for (name, hook) in [("cil_from_netdev", TCX_INGRESS), ("cil_to_netdev", TCX_EGRESS)] {
            let path = pins.device("lxc9").join("links").join(name);
            pin_link(&path, left.device, (name, hook));
        }
        left
    }

    fn config(&self, sandbox: &Sandbox) -> DatapathConfig {
        let inheritance = Inheritance { endpoints: self.rows.clone(), tunnel: false };
        DatapathConfig { take_over: Some(inheritance), ..sandbox.config() }
    }

    /// Cilium's agent has it back.
    fn give_back(&self, sandbox: &Sandbox) {
        let pins = Pins::at(sandbox.root());
        for place in &self.places {
            let link = sys::get(&pins.link(place.endpoint, Hook::FromContainer)).unwrap();
            let old = sys::program_by_id(sys::link_info(&link).unwrap().prog_id).unwrap();
            sys::link_update(&link, cilium_program(FROM), &old).unwrap();
            let _ = std::fs::remove_file(pins.link(place.endpoint, Hook::ToContainer));
            let mut socket = Socket::open().unwrap();
            let _ = socket.filter_clear(place.ifindex, Direction::Egress, "cil_to_container");
        }
    }

    /// Whose program runs at each endpoint's first hook: there is exactly one, and none of ours without all
    /// rows.
    fn check(&self, sandbox: &Sandbox, about: &str) -> usize {
        let (mut ours, mut judged) = (0, 0);
        for place in &self.places {
            let ([from, _], [_, to]) = (linked(*place), filtered(*place));
            assert_eq!(from.len(), 1, "{about}");
            ours += usize::from(is_ours_by_id(from[0]).unwrap());
            judged += to.len();
        }
        // What the stack sends is judged here only when nobody asks policies by tail calls any more.
        assert!(judged == 0 || ours == self.places.len(), "{about}");
        let pins = Pins::at(sandbox.root());
        if ours > 0 {
            let config = Map::pinned(&pins.map("volvox_config")).unwrap();
            let slots = Map::pinned(&pins.map("volvox_policy")).unwrap();
            for row in &self.rows {
                let mut found = volvox_bpf_progs::layouts::ConfigRow::default();
                let there = config.lookup(row.ifindex.as_bytes(), found.as_mut_bytes());
                assert!(there.unwrap(), "{about}: no row of endpoint {}", row.endpoint);
                let mut id = 0_u32;
                let slot = config_from_raw(&found).policy_slot;
                assert!(slots.lookup(slot.as_bytes(), id.as_mut_bytes()).unwrap(), "{about}");
                let number = u16::try_from(row.ifindex).map(|_| row.endpoint.0).unwrap();
                assert_eq!(
                    rows(&Map::by_id(id).unwrap()).unwrap(),
                    policy([80 + number]),
                    "{about}"
                );
            }
        }
        ours
    }

    fn maps(sandbox: &Sandbox) -> Vec<u32> {
        let pins = Pins::at(sandbox.root());
        ["cilium_lb4_services_v2", "cilium_ct4_global", "cilium_call_policy"]
            .map(|name| Map::pinned(&pins.map(name)).unwrap().info().id)
            .to_vec()
    }
}

fn open(config: &DatapathConfig) -> Arc<Datapath> {
    Arc::new(Datapath::open(config).unwrap())
}

#[test]
fn what_cilium_left_is_taken_over_with_its_maps_and_stays_ours() {
    Sandbox::run(|sandbox| {
        let left = Left::make(sandbox);
        let (maps, config) = (Left::maps(sandbox), left.config(sandbox));
        let found = survey(&config, &Default::default()).unwrap();
        assert_eq!(found.endpoints.len(), 2);
        assert_eq!((&found.refused[..], &found.lacking[..]), (&[][..], &[][..]));
        let datapath = open(&config);
        assert_eq!(left.check(sandbox, "taken over"), 2);
        assert_eq!(Left::maps(sandbox), maps, "a map was replaced under Cilium's programs");
        // Who made it asked for neighbours' addresses.
        let mut socket = Socket::open().unwrap();
        let before = socket.device("lxc9").unwrap().unwrap();
        assert!(!before.ours && !before.noarp);
        socket.adopt_device(left.device).unwrap();
        let after = socket.device("lxc9").unwrap().unwrap();
        assert!(after.ours && after.noarp && after.ifindex == before.ifindex, "{after:?}");
        let [from, to] = programs(&datapath);
        for place in &left.places {
            assert_eq!(linked(*place), [vec![from], vec![]]);
            assert_eq!(filtered(*place), [vec![], vec![to]]);
            settle(&datapath, *place).unwrap();
            assert_eq!(linked(*place), [vec![from], vec![to]]);
        }
        assert_eq!(Socket::open().unwrap().routes().unwrap().len(), 4, "of both families");
        // The device's owner attaches when its row is there.
        let native = DeviceKind::Native;
        datapath.devices(|devices| devices.attach(left.device, "lxc9", native)).unwrap();
        let running = super::tcx_programs(left.device, TCX_INGRESS).unwrap();
        assert!(running.len() == 1 && is_ours_by_id(running[0]).unwrap());
        drop(datapath);
        // Nothing is left to take: nothing is written, with the flag and, but for sizes, without.
        let again = open(&config);
        let written = again.writes().counts().iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(written, 0);
        assert!(survey(&config, &Default::default()).unwrap().endpoints.is_empty());
        drop(again);
        let next = sandbox.open();
        assert_eq!(left.check(sandbox, "without the flag"), 2);
        assert_ne!(programs(&next), [from, to], "they use the maps of the new sizes");
        assert_ne!(Left::maps(sandbox)[..2], maps[..2], "sizes are ours again");
    });
}

#[test]
fn a_takeover_killed_anywhere_is_finished_or_given_back() {
    Sandbox::run(|sandbox| {
        let left = Left::make(sandbox);
        let (maps, config) = (Left::maps(sandbox), left.config(sandbox));
        let mut partly = 0;
        for number in 0..MANY {
            let killed = killed_before(number, || drop(open(&config)));
            let about = format!("killed before step {number}");
            let ours = left.check(sandbox, &about);
            partly += usize::from(ours == 1);
            assert_eq!(Left::maps(sandbox), maps, "{about}");
            if number % 2 == 0 {
                left.give_back(sandbox);
                assert_eq!(left.check(sandbox, &about), 0, "{about}");
            }
            drop(open(&config));
            assert_eq!(left.check(sandbox, &about), 2, "{about}");
            if !killed {
                return assert!(partly > 0 && number > 10, "{partly} of {number}");
            }
            hand_back(sandbox.root()).unwrap();
            left.give_back(sandbox);
        }
        panic!("it takes more than {MANY} steps");
    });
}

#[test]
fn who_is_not_told_replaces_neither_programs_nor_maps_of_cilium_and_says_the_way() {
    Sandbox::run(|sandbox| {
        let left = Left::make(sandbox);
        let maps = Left::maps(sandbox);
        let datapath = sandbox.open();
        assert_eq!(left.check(sandbox, "not told"), 0);
        assert_eq!(Left::maps(sandbox), maps);
        let errors = [
            hooks(&datapath, |hooks| hooks.attach(left.places[0])).unwrap_err(),
            datapath
                .devices(|devices| devices.attach(left.device, "lxc9", DeviceKind::Native))
                .unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            for words in ["it is Cilium's", "--take-over=cilium", "volvox migrate check"] {
                assert!(text.contains(words), "{text}");
            }
            assert!(!text.contains("CAP_"), "{text}");
        }
        assert_eq!(left.check(sandbox, "not told"), 0);
    });
}

#[test]
fn filters_of_cilium_are_taken_over() {
    for tcx in [true, false] {
        Sandbox::run(|sandbox| {
            let left = Left::make(sandbox);
            let pins = Pins::at(sandbox.root());
            // An older way of attaching.
            let place = left.places[0];
            std::fs::remove_file(pins.link(place.endpoint, Hook::FromContainer)).unwrap();
            let mut socket = Socket::open().unwrap();
            socket.clsact_add(place.ifindex).unwrap();
            let program = cilium_program(FROM);
            let name = "cil_from_container-lxc1";
            socket.filter_add(place.ifindex, Direction::Ingress, program.as_fd(), name).unwrap();
            while !linked(place)[0].is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            let config = DatapathConfig { tcx, ..left.config(sandbox) };
            let datapath = open(&config);
            let [from, _] = programs(&datapath);
            assert_eq!(filtered(place)[0], [from]);
            settle(&datapath, place).unwrap();
            if tcx {
                assert_eq!(linked(place)[0], [from]);
            }
        });
    }
}

#[test]
fn a_third_agents_program_is_left_alone_in_a_takeover_too() {
    Sandbox::run(|sandbox| {
        let left = Left::make(sandbox);
        let (pins, place) = (Pins::at(sandbox.root()), left.places[0]);
        let link = sys::get(&pins.link(place.endpoint, Hook::FromContainer)).unwrap();
        let old = sys::program_by_id(sys::link_info(&link).unwrap().prog_id).unwrap();
        let third = sys::load_pass_as("third_party").unwrap();
        sys::link_update(&link, &third, &old).unwrap();
        let datapath = open(&left.config(sandbox));
        let error = hooks(&datapath, |hooks| hooks.attach(place)).unwrap_err();
        assert!(error.to_string().contains("neither this agent's nor Cilium's"), "{error}");
        assert!(!is_ours_by_id(linked(place)[0][0]).unwrap());
    });
}
