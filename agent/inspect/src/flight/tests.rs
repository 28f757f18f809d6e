//! Tests: a life is recorded and read back, by itself, by the next run and by other processes.

use std::thread;

use volvox_actors::host::{
    CellId,
    flight::{Event, What},
};

use super::*;

const BYTES: u32 = 1 << 20;

fn begin(dir: &Path) -> Recording {
    Recording::begin(dir, BYTES, SystemClock.now())
}

fn stop(recorder: &mut dyn Recorder, cell: u32) {
    recorder.record(Record::Stopped { cell: CellId(cell), at: SystemClock.now() });
}

fn stopped(flight: &Flight) -> Vec<u32> {
    let cells = flight.events.iter().filter_map(|event| match event.what {
        What::Stopped { cell, .. } => Some(cell.0),
        _ => None,
    });
    cells.collect()
}

#[test]
fn a_life_can_be_read_while_it_lasts_and_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let first = begin(dir.path());
    let mut recorder = first.recorder();
    stop(&mut *recorder, 41);
    // Another process reads the file, this one what it has mapped.
    for flight in
        [open(&dir.path().join(CURRENT)).unwrap(), first.view().current(0, usize::MAX).unwrap()]
    {
        assert_eq!((flight.life.number, flight.life.pid), (1, process::id()));
        assert_eq!(stopped(&flight), [41]);
        assert!(!flight.life.previous);
    }
    assert_eq!(first.view().records(), 1);
    // Nothing is closed or written: as after a kill.
    std::mem::forget(recorder);
    let second = begin(dir.path());
    stop(&mut *second.recorder(), 42);
    let (now, before) = (
        second.view().current(0, usize::MAX).unwrap(),
        second.view().previous(0, usize::MAX).unwrap(),
    );
    assert_eq!((now.life.number, before.life.number), (2, 1));
    assert_eq!((stopped(&now), stopped(&before)), (vec![42], vec![41]));
    assert!(before.life.previous && before.life.torn == 0);
}

#[test]
fn it_goes_round_in_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let recording = begin(dir.path());
    let mut recorder = recording.recorder();
    (0..200_000).for_each(|cell| stop(&mut *recorder, cell));
    let flight = open(&dir.path().join(CURRENT)).unwrap();
    assert_eq!(stopped(&flight).last(), Some(&199_999));
    assert!(flight.life.overwritten > 100_000 && flight.life.torn == 0, "{:?}", flight.life);
    assert_eq!(fs::metadata(dir.path().join(CURRENT)).unwrap().len(), u64::from(BYTES));
}

#[test]
fn without_a_file_it_records_in_memory_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let recording = begin(&missing);
    stop(&mut *recording.recorder(), 7);
    assert_eq!(stopped(&recording.view().current(0, usize::MAX).unwrap()), [7]);
    assert_eq!(recording.view().path(), None);
    let said = recording.view().troubles().join("\n");
    assert!(said.contains("in memory only") && said.contains("--state-dir"), "{said}");
}

#[test]
fn what_is_no_ring_is_named_and_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(CURRENT), "this is a shopping list\n").unwrap();
    let refused = open(&dir.path().join(CURRENT)).unwrap_err().to_string();
    assert!(refused.contains(CURRENT) && refused.contains("no flight recorder"), "{refused}");
    let recording = begin(dir.path());
    stop(&mut *recording.recorder(), 1);
    assert_eq!(recording.view().current(0, usize::MAX).unwrap().life.number, 1);
    assert!(recording.view().previous(0, usize::MAX).is_err());
    let missing = open(&dir.path().join("nothing")).unwrap_err().to_string();
    assert!(missing.contains("--state-dir"), "{missing}");
    assert!(open(dir.path()).unwrap_err().to_string().contains("no file"));
}

#[test]
fn a_start_that_fails_leaves_the_life_before_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    stop(&mut *begin(dir.path()).recorder(), 41);
    // One fails before it has a host, one before that records anything.
    drop(begin(dir.path()));
    drop(begin(dir.path()).recorder());
    let third = begin(dir.path());
    stop(&mut *third.recorder(), 42);
    let before = third.view().previous(0, usize::MAX).unwrap();
    assert_eq!((before.life.number, stopped(&before)), (1, vec![41]));
    assert_eq!(third.view().current(0, usize::MAX).unwrap().life.number, 2);
    assert_eq!(third.view().troubles(), [""; 0]);
}

/// A reader that looks on while another thread writes sees whole records only, in order.
#[test]
fn it_is_read_while_it_is_written() {
    const RECORDS: u32 = 150_000;
    let dir = tempfile::tempdir().unwrap();
    let recording = begin(dir.path());
    let ring = dir.path().join(CURRENT);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut recorder = recording.recorder();
            (1..=RECORDS).for_each(|cell| stop(&mut *recorder, cell));
        });
        let mut latest = 0;
        while latest < u64::from(RECORDS) {
            // Before the first record the front may not be whole yet.
            let Ok(flight) = open(&ring) else { continue };
            let whole = |event: &Event| match event.what {
                What::Stopped { cell, .. } => u64::from(cell.0) == event.seq,
                _ => false,
            };
            assert!(flight.events.iter().all(whole));
            assert!(flight.events.is_sorted_by(|a, b| a.seq < b.seq));
            // One who is overtaken by a whole round reads nothing that time.
            latest = latest.max(flight.events.last().map_or(0, |event| event.seq));
        }
    });
}

#[test]
fn a_file_that_is_cut_short_ends_nobody_and_records_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let recording = begin(dir.path());
    let mut recorder = recording.recorder();
    let file = fs::OpenOptions::new().write(true).open(dir.path().join(CURRENT)).unwrap();
    let mut cell = 0;
    for length in [0, 4096, u64::from(BYTES) / 2] {
        stop(&mut *recorder, cell);
        file.set_len(length).unwrap();
        // The front is written with each record, a segment's pages now and then.
        (cell + 1..cell + 60_000).for_each(|cell| stop(&mut *recorder, cell));
        cell += 60_000;
        let flight = recording.view().current(0, usize::MAX).unwrap();
        assert_eq!(stopped(&flight).last(), Some(&(cell - 1)), "cut to {length}");
        let read = open(&dir.path().join(CURRENT)).unwrap();
        assert_eq!(stopped(&read).last(), Some(&(cell - 1)), "cut to {length}");
        assert_eq!(read.life.number, 1);
    }
    assert_eq!(file.metadata().unwrap().len(), u64::from(BYTES));
    assert_eq!(recording.view().troubles(), [""; 0]);
    assert_eq!(recording.view().records(), u64::from(cell));
}
