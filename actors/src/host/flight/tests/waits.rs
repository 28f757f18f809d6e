//! Waits: one record where they end soon, and never unseen while they are open.

use super::*;

/// Waits for which a least ring has places.
const PLACES: u64 = 32;

fn wait(id: u64) -> Wait {
    Wait {
        id: WaitId(id),
        who: Some(CellId(40)),
        whom: Whom::Cell(CellId(8)),
        why: "a permit to build".into(),
        since: Time(6_000_000),
        until: Time(99_000_000),
    }
}

fn ended(wait: &Wait) -> Record<'_> {
    Record::WaitEnded { wait, answered: true, at: Time(8_000_000) }
}

/// Numbers of waits that the record tells of: as just begun, as lasting, and as over.
fn reported(flight: &Flight) -> [Vec<u64>; 3] {
    let of = |pick: fn(&What) -> Option<u64>| {
        flight.events.iter().filter_map(|event| pick(&event.what)).collect()
    };
    [
        flight.life.waits.iter().map(|wait| wait.wait.0).collect(),
        of(|what| match what {
            What::WaitBegan(wait) => Some(wait.wait.0),
            _ => None,
        }),
        of(|what| match what {
            What::Waited { wait, .. } => Some(wait.wait.0),
            _ => None,
        }),
    ]
}

#[test]
fn one_that_ends_soon_is_one_record() {
    let mut writer = writer(LEAST);
    writer.record(Record::Spawned {
        cell: CellId(8),
        name: "build-queue",
        parent: None,
        at: Time(5_000_001),
    });
    writer.record(Record::WaitBegan { wait: &wait(1) });
    let flight = seen(&writer);
    assert_eq!((reported(&flight), flight.life.torn), ([vec![1], vec![], vec![]], 0));
    assert_eq!(
        serde_json::to_string(&flight.life.waits[0]).unwrap(),
        r#"{"wait":1,"who":40,"whom":"build-queue","whom_cell":8,"why":"a permit to build","since":6000000,"until":99000000}"#
    );
    writer.record(ended(&wait(1)));
    let flight = seen(&writer);
    assert_eq!((reported(&flight), flight.life.torn), ([vec![], vec![], vec![1]], 0));
    assert_eq!(flight.events.last().map(|event| event.seq), Some(2));
}

#[test]
fn one_that_lasts_is_told_of_before_it_ends() {
    let mut writer = writer(LEAST);
    writer.record(Record::WaitBegan { wait: &wait(1) });
    writer.record(Record::WaitLasts { wait: &wait(1) });
    assert_eq!(reported(&seen(&writer)), [vec![], vec![1], vec![]]);
    writer.record(ended(&wait(1)));
    assert_eq!(reported(&seen(&writer)), [vec![], vec![1], vec![1]]);
}

#[test]
fn one_without_a_place_is_told_of_at_once_and_once() {
    let mut writer = writer(LEAST);
    let why = String::from("the identity of k8s:app=web").into();
    let (first, second, wordy) = (wait(1), wait(1 + PLACES), Wait { why, ..wait(2) });
    for wait in [&first, &second, &wordy] {
        writer.record(Record::WaitBegan { wait });
    }
    assert_eq!(reported(&seen(&writer)), [vec![1], vec![1 + PLACES, 2], vec![]]);
    for wait in [&first, &second, &wordy] {
        writer.record(Record::WaitLasts { wait });
    }
    let flight = seen(&writer);
    assert_eq!(reported(&flight), [vec![], vec![1 + PLACES, 2, 1], vec![]]);
    let whys = flight.events.iter().map(|event| match &event.what {
        What::WaitBegan(wait) => &*wait.why,
        _ => panic!("{event:?}"),
    });
    let permit = "a permit to build";
    assert_eq!(whys.collect::<Vec<_>>(), [permit, "the identity of k8s:app=web", permit]);
    // Its place is free again.
    writer.record(Record::WaitBegan { wait: &wait(1 + 2 * PLACES) });
    assert_eq!(reported(&seen(&writer))[0], [1 + 2 * PLACES]);
}

#[test]
fn whenever_the_writer_is_killed_an_open_wait_is_seen() {
    let mut writer = writer(LEAST);
    let wait = wait(1);
    let begun = Record::WaitBegan { wait: &wait };
    let lasts = Record::WaitLasts { wait: &wait };
    // In the order of their stores: the front, the record with its first word last, the place. A
    // wait that begins has only a place, whose first word is the last.
    for (record, least) in [(begun, 0), (lasts, 1), (ended(&wait), 1)] {
        let before = to_bytes(writer.memory());
        writer.record(record);
        let after = to_bytes(writer.memory());
        let changed: Vec<_> =
            (0..before.len() / 8).filter(|at| before.word(*at) != after.word(*at)).collect();
        let (front, rest): (Vec<_>, Vec<_>) = changed.into_iter().partition(|at| *at < 2048);
        let begin = 2048 + PLACES as usize * 8;
        let (place, segment): (Vec<_>, Vec<_>) = rest.into_iter().partition(|at| *at < begin);
        let order = [front, segment.into_iter().rev().collect(), place.into_iter().rev().collect()];
        let mut torn = before;
        for at in order.concat() {
            let count = |bytes: &[u8]| reported(&read(bytes, 0).unwrap()).concat().len();
            assert!((least..=2).contains(&count(&torn)), "killed before word {at} of {record:?}");
            torn[at * 8..at * 8 + 8].copy_from_slice(&after[at * 8..at * 8 + 8]);
        }
        assert!(torn == after);
    }
}

#[test]
fn one_that_is_over_takes_forty_bytes() {
    let mut writer = writer(2 << 20);
    (1..=51_000).for_each(|id| writer.record(ended(&wait(id))));
    let flight = seen(&writer);
    assert_eq!((flight.life.overwritten, flight.events.len()), (0, 51_000));
}

proptest! {
    #[test]
    fn one_comes_back_whatever_its_numbers_are(
        id in extremes(),
        (who, whom) in (0..=u32::MAX, 1..=u32::MAX),
        (port, text, answered) in any::<(bool, bool, bool)>(),
        (since, until, at) in (extremes(), extremes(), extremes()),
    ) {
        let whom = if port { Whom::Port("kernel") } else { Whom::Cell(CellId(whom)) };
        let why = if text { String::from("its map").into() } else { "its map".into() };
        let who = (who > 0).then_some(CellId(who));
        let wait =
            Wait { id: WaitId(id), who, whom, why, since: Time(since), until: Time(until) };
        let mut writer = writer(LEAST);
        writer.record(Record::WaitEnded { wait: &wait, answered, at: Time(at) });
        let What::Waited { wait: back, ended, answered: end } =
            seen(&writer).events.remove(0).what
        else {
            panic!()
        };
        let whom = match back.whom_cell {
            Some(cell) => Whom::Cell(cell),
            None => Whom::Port("kernel"),
        };
        let back = Wait {
            id: back.wait,
            who: back.who,
            whom,
            why: back.why.to_string().into(),
            since: back.since,
            until: back.until,
        };
        prop_assert_eq!((back, ended, end), (wait, Time(at), answered));
    }
}
