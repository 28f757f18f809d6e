//! Tests: what is written into a ring is read back as it was, whatever its numbers are.

mod carried;
mod damage;
mod waits;

use std::sync::{Arc, atomic::AtomicU64};

use proptest::prelude::*;

use super::*;
use crate::host::{
    About, CellId, EnvelopeId, Header, KernelStep, Outcome, Record, Recorder, RootId, Time, Wait,
    WaitId, Whom,
};

type Ring = Arc<[AtomicU64]>;

/// The least that a ring takes.
const LEAST: usize = 146 << 10;

fn ring(bytes: usize) -> Ring {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
}

fn birth() -> Birth {
    Birth {
        life: 7,
        pid: 4711,
        version: "0.1.0".into(),
        boot_id: "8d1e6a1c-55bc-4a8c-9f3c-6f2f5d1f0a11".into(),
        started: Time(5_000_000),
        started_wall: 1_700_000_000_000_000_000,
    }
}

fn writer(bytes: usize) -> Writer<Ring> {
    Writer::new(ring(bytes), &birth()).unwrap()
}

fn seen(writer: &Writer<Ring>) -> Flight {
    read(&writer.memory()[..], 0).unwrap()
}

/// A message like any other, the `n`th.
fn message(n: u64) -> Record<'static> {
    let time = |ns| Time(6_000_000 + n * 1000 + ns);
    let header = Header {
        id: EnvelopeId(n),
        kind: "Regenerate",
        from: Some(CellId(3)),
        to: CellId(40),
        cause: EnvelopeId(n - 1),
        root: RootId(1),
        enqueued: time(1),
    };
    Record::Message { header, started: time(20), ended: time(300), outcome: Outcome::Handled }
}

#[test]
fn every_record_comes_back_as_it_was() {
    let mut writer = writer(LEAST);
    let wait = Wait {
        id: WaitId(9),
        who: Some(CellId(40)),
        whom: Whom::Cell(CellId(8)),
        why: "a permit to build".into(),
        since: Time(4_000_000),
        until: Time(99_000_000),
    };
    let port = Wait { id: WaitId(10), who: None, whom: Whom::Port("kernel"), ..wait.clone() };
    let (cell, at) = (CellId(40), Time(8_000_000));
    let kernel = |failed| {
        Record::Kernel(KernelStep {
            cell: Some(cell),
            cause: EnvelopeId(7),
            root: RootId(1),
            op: "FlipPolicy",
            about: About::Slot(24),
            write: true,
            submitted: Time(5),
            started: Time(6),
            ended: Time(9),
            failed,
        })
    };
    for record in [
        Record::Phase { name: "read state directory", started: Time(1), ended: Time(9) },
        Record::Root { root: RootId(1), what: "start", at },
        Record::Spawned { cell: CellId(8), name: "build-queue", parent: None, at },
        Record::Spawned { cell, name: "endpoint 12", parent: Some(CellId(8)), at },
        message(7),
        Record::Crash { cell, kind: "Dump", cause: "division by zero", at },
        Record::State { cell, from: "restoring", to: "ready", why: "built", at },
        Record::WaitBegan { wait: &wait },
        Record::WaitBegan { wait: &port },
        Record::WaitLasts { wait: &port },
        Record::WaitEnded { wait: &wait, answered: true, at },
        kernel(None),
        kernel(Some("the map is full")),
        Record::Stopped { cell, at },
    ] {
        writer.record(record);
    }
    let flight = seen(&writer);
    let Life { number, pid, torn, overwritten, ref version, ref boot_id, .. } = flight.life;
    assert_eq!((number, pid, torn, overwritten), (7, 4711, 0, 0));
    assert_eq!((version, boot_id), (&birth().version, &birth().boot_id));
    let lines: Vec<_> =
        flight.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert_eq!(
        lines,
        [
            r#"{"seq":1,"record":"phase","name":"read state directory","started":1,"ended":9}"#,
            r#"{"seq":2,"record":"root","root":1,"what":"start","at":8000000}"#,
            r#"{"seq":3,"record":"spawned","cell":8,"name":"build-queue","parent":null,"at":8000000}"#,
            r#"{"seq":4,"record":"spawned","cell":40,"name":"endpoint 12","parent":8,"at":8000000}"#,
            r#"{"seq":5,"record":"message","id":7,"kind":"Regenerate","from":3,"to":40,"cause":6,"root":1,"enqueued":6007001,"started":6007020,"ended":6007300,"outcome":"handled"}"#,
            r#"{"seq":6,"record":"crash","cell":40,"kind":"Dump","cause":"division by zero","at":8000000}"#,
            r#"{"seq":7,"record":"state","cell":40,"from":"restoring","to":"ready","why":"built","at":8000000}"#,
            r#"{"seq":8,"record":"wait-began","wait":10,"who":null,"whom":"kernel","whom_cell":null,"why":"a permit to build","since":4000000,"until":99000000}"#,
            r#"{"seq":9,"record":"waited","wait":9,"who":40,"whom":"build-queue","whom_cell":8,"why":"a permit to build","since":4000000,"until":99000000,"ended":8000000,"answered":true}"#,
            r#"{"seq":10,"record":"kernel","cell":40,"cause":7,"root":1,"op":"FlipPolicy","about":"slot 24","write":true,"submitted":5,"started":6,"ended":9,"failed":null}"#,
            r#"{"seq":11,"record":"kernel","cell":40,"cause":7,"root":1,"op":"FlipPolicy","about":"slot 24","write":true,"submitted":5,"started":6,"ended":9,"failed":"the map is full"}"#,
            r#"{"seq":12,"record":"stopped","cell":40,"at":8000000}"#,
        ]
    );
    for (line, event) in lines.iter().zip(&flight.events) {
        assert_eq!(&serde_json::from_str::<Event>(line).unwrap(), event);
    }
}

#[test]
fn a_reader_takes_up_where_it_stopped() {
    let mut writer = writer(LEAST);
    (1..=20_000).for_each(|n| writer.record(message(n)));
    let first = seen(&writer);
    let last = first.events.last().unwrap().seq;
    assert_eq!(last, 20_000);
    (20_001..=20_500).for_each(|n| writer.record(message(n)));
    let next = read(&writer.memory()[..], last).unwrap();
    let numbers: Vec<_> = next.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (20_001..=20_500).collect::<Vec<_>>());
    assert_eq!(next.life.torn, 0);
}

#[test]
fn in_parts_it_reads_as_in_one() {
    let mut writer = writer(LEAST);
    let born = |cell| Record::Spawned { cell, name: "ipam", parent: None, at: Time(6_000_000) };
    (1..=9).for_each(|cell| writer.record(born(CellId(cell))));
    // Goes round a few times: who was born is carried along.
    (1..=20_000).for_each(|n| writer.record(message(n)));
    let whole = seen(&writer);
    let mut parts: Vec<Event> = Vec::new();
    loop {
        let after = parts.last().map_or(0, |event| event.seq);
        let part = read_part(&writer.memory()[..], after, 300).unwrap();
        assert!(part.events.len() <= 300);
        assert_eq!(part.life, whole.life);
        if part.events.is_empty() {
            break;
        }
        parts.extend(part.events);
    }
    assert_eq!(parts.len(), whole.events.len());
    assert!(whole.life.overwritten > 10_000 && parts == whole.events);
}

#[test]
fn a_message_takes_forty_bytes() {
    let mut writer = writer(2 << 20);
    (1..=51_000).for_each(|n| writer.record(message(n)));
    let flight = seen(&writer);
    assert_eq!((flight.life.overwritten, flight.events.len()), (0, 51_000));
}

proptest! {
    #[test]
    fn a_message_comes_back_whatever_its_numbers_are(
        id in extremes(),
        cause in extremes(),
        root in extremes(),
        (from, to) in (0..=u32::MAX, 1..=u32::MAX),
        mut times in [extremes(), extremes(), extremes()],
    ) {
        times.sort_unstable();
        let [enqueued, started, ended] = times.map(Time);
        let header = Header {
            id: EnvelopeId(id),
            kind: "Regenerate",
            from: (from > 0).then_some(CellId(from)),
            to: CellId(to),
            cause: EnvelopeId(cause),
            root: RootId(root),
            enqueued,
        };
        let mut writer = writer(LEAST);
        let outcome = Outcome::Refused;
        writer.record(Record::Message { header, started, ended, outcome });
        let What::Message { id, kind, from, to, cause, root, enqueued, .. } =
            seen(&writer).events.remove(0).what
        else {
            panic!()
        };
        let back = Header { id, kind: header.kind, from, to, cause, root, enqueued };
        prop_assert_eq!((back, &*kind), (header, header.kind));
        let What::Message { started: s, ended: e, outcome: o, .. } =
            seen(&writer).events.remove(0).what
        else {
            panic!()
        };
        prop_assert_eq!((s, e, o), (started, ended, outcome));
    }
}

/// Numbers of every size, those about the limits of 16, 24, 32 and 40 bits among them.
fn extremes() -> impl Strategy<Value = u64> {
    let near = |bits: u32| (1u64 << bits) - 2..=(1u64 << bits) + 2;
    prop_oneof![
        0..100u64,
        near(15),
        near(16),
        near(24),
        near(31),
        near(32),
        near(39),
        near(40),
        any::<u64>(),
    ]
}

#[test]
fn what_was_being_handled_is_named_until_it_is_done() {
    let mut writer = writer(LEAST);
    let Record::Message { header, started, ended, outcome } = message(7) else { panic!() };
    writer.record(Record::Handling { header, started });
    // What another one met meanwhile does not end it.
    let absorbed = Header { id: EnvelopeId(8), ..header };
    let outcome_of_other = Outcome::Absorbed;
    let other = Record::Message { header: absorbed, started, ended, outcome: outcome_of_other };
    writer.record(other);
    let flight = seen(&writer);
    assert_eq!(
        serde_json::to_string(&flight.life.unfinished).unwrap(),
        r#"{"id":7,"kind":"Regenerate","from":3,"to":40,"cause":6,"root":1,"enqueued":6007001,"started":6007020}"#
    );
    assert_eq!((flight.events.len(), flight.life.torn), (1, 0));
    writer.record(Record::Message { header, started, ended, outcome });
    assert_eq!(seen(&writer).life.unfinished, None);
}

#[test]
fn what_a_step_is_about_reads_as_it_would_have_then() {
    let mut writer = writer(LEAST);
    let abouts = [
        About::All,
        About::Endpoint(65535),
        About::Interface(7),
        About::Slot(70_000),
        About::Rows(1),
        About::Rows(300),
        About::Address([10, 1, 2, 3].into()),
        About::Address("fd00::12:3".parse().unwrap()),
    ];
    for about in abouts {
        writer.record(Record::Kernel(KernelStep {
            cell: None,
            cause: EnvelopeId(1),
            root: RootId(1),
            op: "PutLxc",
            about,
            write: false,
            submitted: Time(1),
            started: Time(2),
            ended: Time(3),
            failed: None,
        }));
    }
    let seen = seen(&writer);
    let reported = seen.events.iter().map(|event| match &event.what {
        What::Kernel { about, write: false, cell: None, .. } => about.to_string(),
        _ => panic!("{event:?}"),
    });
    assert_eq!(reported.collect::<Vec<_>>(), abouts.map(|about| about.to_string()));
}

#[test]
fn a_text_too_long_is_cut_at_a_letter() {
    let mut writer = writer(LEAST);
    let what = "ä".repeat(400);
    writer.record(Record::Root { root: RootId(1), what: &what, at: Time(1) });
    let What::Root { what, .. } = &seen(&writer).events[0].what else { panic!() };
    assert_eq!(**what, "ä".repeat(256));
}

#[test]
fn too_little_memory_is_refused_by_its_size() {
    let refused = Writer::new(ring(LEAST - 8), &birth()).err().unwrap();
    assert_eq!(refused, FlightError::TooSmall { least: LEAST, given: LEAST - 8 });
}
