//! What is still needed when the ring has gone round.

use super::*;

/// Enough messages to go round a least ring twice.
const ROUNDS: u64 = 12_000;

fn spawned(cell: u32, name: &'static str) -> Record<'static> {
    Record::Spawned { cell: CellId(cell), name, parent: None, at: Time(5_000_001) }
}

fn wait(id: u64) -> Wait {
    Wait {
        id: WaitId(id),
        who: Some(CellId(40)),
        whom: Whom::Cell(CellId(3)),
        why: "a permit".into(),
        since: Time(5_000_002),
        until: Time(9_000_000),
    }
}

#[test]
fn names_states_and_waits_outlive_the_records_that_named_them() {
    let mut writer = writer(LEAST);
    let at = Time(5_000_003);
    let state = |to| Record::State { cell: CellId(40), from: "new", to, why: "", at };
    let (open, over) = (wait(1), wait(2));
    for record in [
        Record::Root { root: RootId(1), what: "start", at },
        spawned(3, "policy"),
        spawned(40, "endpoint 12"),
        spawned(41, "endpoint 13"),
        state("restoring"),
        state("waiting-to-regenerate"),
        Record::WaitBegan { wait: &open },
        Record::WaitLasts { wait: &open },
        Record::WaitBegan { wait: &over },
        Record::WaitLasts { wait: &over },
        Record::WaitEnded { wait: &over, answered: true, at },
        Record::Stopped { cell: CellId(41), at },
    ] {
        writer.record(record);
    }
    (1..=ROUNDS).for_each(|n| writer.record(message(n)));
    let flight = seen(&writer);
    assert_eq!(flight.life.torn, 0);
    assert!(flight.life.overwritten > ROUNDS / 4, "{:?}", flight.life);
    let old = flight.events.iter().take_while(|event| event.seq <= 10).map(|event| {
        let json = serde_json::to_value(event).unwrap();
        (event.seq, json["record"].as_str().unwrap().to_owned())
    });
    let expected = [(1, "root"), (2, "spawned"), (3, "spawned"), (6, "state"), (7, "wait-began")];
    assert_eq!(old.collect::<Vec<_>>(), expected.map(|(seq, kind)| (seq, kind.to_owned())));
    let waits = flight.events.iter().find_map(|event| match &event.what {
        What::WaitBegan(wait) => Some(wait.whom.to_string()),
        _ => None,
    });
    assert_eq!(waits.as_deref(), Some("policy"));
}

#[test]
fn a_root_stays_while_it_leads_to_something() {
    let mut writer = writer(LEAST);
    for root in 1..=5 {
        writer.record(Record::Root { root: RootId(root), what: "PUT", at: Time(5_000_001) });
    }
    for n in 1..=ROUNDS {
        let Record::Message { mut header, started, ended, outcome } = message(n) else { panic!() };
        header.root = RootId(4);
        writer.record(Record::Message { header, started, ended, outcome });
    }
    let flight = seen(&writer);
    let roots: Vec<_> = flight
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Root { root, .. } => Some(root.0),
            _ => None,
        })
        .collect();
    // The first is the start, whose timers go on for ever.
    assert_eq!(roots, [1, 4]);
}

#[test]
fn so_much_to_carry_that_it_does_not_fit_leaves_room_for_what_happens() {
    let mut writer = writer(LEAST);
    for cell in 1..=20_000 {
        writer.record(spawned(cell, "endpoint with a rather long name, as names go"));
    }
    (1..=500).for_each(|n| writer.record(message(n)));
    let flight = seen(&writer);
    let messages = flight.events.iter().filter(|it| matches!(it.what, What::Message { .. }));
    assert_eq!(messages.count(), 500);
    assert_eq!(flight.life.torn, 0);
}
