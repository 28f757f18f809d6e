//! Random histories of services, slices, crashes, refusals and restarts: the end is what a naive
//! reading of the objects says, and no packet ever finds half a frontend.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use proptest::prelude::*;

use super::fixture::{Fixture, frontend, gone, place, service, slice};
use crate::{
    model::{Frontend, L4Address, ServiceId},
    testing::{Landing, Turn},
};

const SERVICES: usize = 4;

#[derive(Clone, Debug)]
enum Event {
    /// The service is there at one of three addresses, or gone.
    Service(usize, Option<usize>),
    /// One of its two slices lists these, or is gone.
    Slice(usize, usize, Option<BTreeSet<usize>>),
    /// The kernel does so many steps.
    Steps(usize),
    /// The kernel refuses a step, or half of it.
    Fails(usize, bool),
    /// The actor crashes behind its next message.
    Crash,
    /// The agent dies after so many steps, and lives again.
    Restart(usize),
    /// Time passes.
    Wait,
}

fn event() -> impl Strategy<Value = Event> {
    let members = prop::collection::btree_set(0usize..6, 0..5);
    prop_oneof![
        4 => (0..SERVICES, prop::option::weighted(0.8, 0usize..3)).prop_map(|(it, at)| Event::Service(it, at)),
        8 => (0..SERVICES, 0usize..2, prop::option::weighted(0.9, members)).prop_map(|(it, nth, all)| Event::Slice(it, nth, all)),
        3 => (0usize..9).prop_map(Event::Steps),
        2 => (0usize..6, any::<bool>()).prop_map(|(nth, half)| Event::Fails(nth, half)),
        1 => Just(Event::Crash),
        2 => (0usize..9).prop_map(Event::Restart),
        2 => Just(Event::Wait),
    ]
}

/// What the cluster holds.
#[derive(Default)]
struct Objects {
    services: BTreeMap<usize, usize>,
    slices: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

fn address(service: usize, at: usize) -> String {
    // One address may be desired by two services.
    format!("10.96.0.{}", (service / 2) * 3 + at)
}

fn members(all: &BTreeSet<usize>) -> Vec<String> {
    all.iter().map(|it| format!("10.0.0.{it}")).collect()
}

fn slice_of(service: usize, nth: usize, all: &BTreeSet<usize>) -> serde_json::Value {
    let all = members(all);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    slice(&format!("s{service}-{nth}"), &format!("s{service}"), &all)
}

impl Objects {
    fn all(&self) -> Vec<serde_json::Value> {
        let services =
            self.services.iter().map(|(it, at)| service(&format!("s{it}"), &address(*it, *at)));
        let slices = self.slices.iter().map(|((it, nth), all)| slice_of(*it, *nth, all));
        services.chain(slices).collect()
    }

    /// Where packets to a service's address land, for each service that may have it.
    fn landings(&self, at: &str) -> Vec<Landing> {
        let expected = self.services.iter().filter(|(it, nth)| address(**it, **nth) == at);
        expected
            .map(|(it, _)| {
                let all = (0..2).filter_map(|nth| self.slices.get(&(*it, nth))).flatten();
                let all: BTreeSet<_> = all.map(|it| place(&format!("10.0.0.{it}:8080"))).collect();
                if all.is_empty() { Landing::NoBackend } else { Landing::At(all) }
            })
            .collect()
    }
}

fn steps(fixture: &Fixture, most: usize) {
    for _ in 0..most {
        fixture.universe.settle();
        if !fixture.kernel.step(0) {
            return;
        }
    }
}

/// At each step: nothing that is reached is broken, and no number moves or is had twice.
fn watch(fixture: &Fixture, ids: &Rc<RefCell<BTreeMap<String, ServiceId>>>) {
    let ids = Rc::clone(ids);
    fixture.kernel.watch(move |state, op| {
        let mut seen = BTreeMap::new();
        for ((at, slot), row) in &state.services.slots {
            if *slot > 0 {
                continue;
            }
            let landing = state.services.landing(*at);
            assert!(!matches!(landing, Landing::Broken(_)), "behind {op:?}: {landing:?}");
            assert_eq!(seen.insert(row.id, *at), None, "{} is had twice", row.id);
            let before = *ids.borrow_mut().entry(at.to_string()).or_insert(row.id);
            assert_eq!(before, row.id, "the number of {at} moved");
        }
        ids.borrow_mut().retain(|at, _| seen.values().any(|it| it.to_string() == *at));
    });
}

/// Who has connections by each frontend.
type Connected = BTreeMap<Frontend, BTreeSet<L4Address>>;

/// At each step: whomever packets found has rows of the frontend as long as it is there.
fn watch_connected(fixture: &Fixture, connected: &Rc<RefCell<Connected>>) {
    let connected = Rc::clone(connected);
    fixture.kernel.watch(move |state, op| {
        let maps = &state.services;
        let firsts = maps.slots.iter().filter(|((at, slot), _)| *slot == 0 && at.at.port > 0);
        let mut before = std::mem::take(&mut *connected.borrow_mut());
        for ((at, _), row) in firsts {
            let mut found = before.remove(at).unwrap_or_default();
            let members = maps.members.iter().filter(|((key, _), _)| key.0 == row.id);
            let members: BTreeSet<_> = members.map(|(_, row)| row.at).collect();
            let lost: Vec<_> = found.difference(&members).collect();
            assert!(lost.is_empty(), "{lost:?} are lost by {at} behind {op:?}");
            if let Landing::At(all) = maps.landing(*at) {
                found.extend(all);
            }
            connected.borrow_mut().insert(*at, found);
        }
    });
}

/// Two services are there all the time, and nobody sweeps: whoever leaves them keeps what he has.
fn run_unswept(events: Vec<Event>) {
    let (mut fixture, mut objects) = (Fixture::new(), Objects::default());
    objects.services.extend([(0, 0), (2, 0)]);
    let connected = Rc::default();
    watch_connected(&fixture, &connected);
    fixture.announce(&objects.all());
    for event in events {
        match event {
            Event::Slice(it, nth, all) => {
                let (it, all) = (it / 2 * 2, all.unwrap_or_default());
                fixture.announce(&[slice_of(it, nth, &all)]);
                objects.slices.insert((it, nth), all);
            }
            Event::Steps(most) => steps(&fixture, most),
            Event::Fails(nth, half) => {
                fixture.fate.at(nth, if half { Turn::Half } else { Turn::Fail })
            }
            Event::Crash => fixture.universe.host.poison(fixture.services.id()),
            Event::Restart(most) => {
                steps(&fixture, most);
                fixture.restart();
                watch_connected(&fixture, &connected);
                fixture.announce(&objects.all());
            }
            Event::Wait => fixture.wait(31),
            Event::Service(..) => {}
        }
    }
    fixture.fate.is_kind();
    fixture.wait(120);
    let before = fixture.kernel.writes().len();
    fixture.restart();
    watch_connected(&fixture, &connected);
    fixture.tell(&objects.all());
    assert_eq!(fixture.writes_since(before), [], "of a restart nothing is to be seen");
    connected.borrow_mut().clear();
    fixture.swept();
    let maps = fixture.maps();
    let listed: BTreeSet<usize> = objects.slices.values().flatten().copied().collect();
    assert_eq!(maps.backends.len(), listed.len(), "{:?}", maps.backends);
    let slots = maps.slots.keys().filter(|(at, slot)| *slot > 0 && at.at.port > 0).count();
    assert_eq!(maps.members.len(), slots);
}

fn run(events: Vec<Event>) {
    let (mut fixture, mut objects) = (Fixture::new(), Objects::default());
    let ids = Rc::default();
    watch(&fixture, &ids);
    fixture.announce(&[]);
    for event in events {
        match event {
            Event::Service(it, at) => {
                let before = objects.services.remove(&it);
                match at {
                    Some(at) => {
                        objects.services.insert(it, at);
                        fixture.announce(&[service(&format!("s{it}"), &address(it, at))]);
                    }
                    None if before.is_some() => {
                        fixture.announce(&[gone(service(&format!("s{it}"), ""))])
                    }
                    None => {}
                }
            }
            Event::Slice(it, nth, all) => {
                let before = objects.slices.remove(&(it, nth));
                match all {
                    Some(all) => {
                        fixture.announce(&[slice_of(it, nth, &all)]);
                        objects.slices.insert((it, nth), all);
                    }
                    None if before.is_some() => {
                        fixture.announce(&[gone(slice_of(it, nth, &BTreeSet::new()))])
                    }
                    None => {}
                }
            }
            Event::Steps(most) => steps(&fixture, most),
            Event::Fails(nth, half) => {
                fixture.fate.at(nth, if half { Turn::Half } else { Turn::Fail })
            }
            Event::Crash => fixture.universe.host.poison(fixture.services.id()),
            Event::Restart(most) => {
                steps(&fixture, most);
                fixture.restart();
                watch(&fixture, &ids);
                fixture.announce(&objects.all());
            }
            Event::Wait => fixture.wait(31),
        }
    }
    fixture.fate.is_kind();
    fixture.wait(120);
    fixture.swept();
    let maps = fixture.maps();
    for nth in 0..SERVICES / 2 * 3 {
        let at = format!("10.96.0.{nth}");
        let (landing, all) = (maps.landing(frontend(&format!("{at}:80"))), objects.landings(&at));
        match all.is_empty() {
            true => assert_eq!(landing, Landing::NoService, "{at}"),
            false => assert!(all.contains(&landing), "{at}: {landing:?}, not of {all:?}"),
        }
    }
    let listed: BTreeSet<usize> = objects
        .slices
        .iter()
        .filter(|((it, _), _)| objects.services.contains_key(it))
        .flat_map(|(_, all)| all)
        .copied()
        .collect();
    assert_eq!(maps.backends.len(), listed.len(), "{:?}", maps.backends);
    assert_eq!(
        maps.slots.iter().filter(|((_, slot), _)| *slot == 0).count(),
        maps.reverse_nat.len()
    );
    let slots: usize = maps
        .slots
        .iter()
        .map(|((_, slot), row)| if *slot == 0 { usize::from(row.count) + 1 } else { 0 })
        .sum();
    assert_eq!(maps.slots.len(), slots, "no slot is left over");
    let status = fixture.status();
    assert_eq!(status.open, 0);
    let reported = ["services_v2", "backends_v3", "reverse_nat", "maglev"]
        .map(|map| status.maps[&*format!("cilium_lb4_{map}")]);
    let held = [maps.slots.len(), maps.backends.len(), maps.reverse_nat.len(), maps.maglev.len()];
    assert_eq!(reported, held, "how full the maps are");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_as_the_objects_say(events in prop::collection::vec(event(), 1..40)) {
        run(events);
    }

    #[test]
    fn whoever_leaves_keeps_his_rows_until_a_sweep(events in prop::collection::vec(event(), 1..40)) {
        run_unswept(events);
    }
}
