//! Rings whose writer died, whose file was cut or scribbled over, or that are none at all.

use std::cell::{Cell, RefCell};

use super::*;

/// A ring in which the first words of writing so much are written, and the rest is as before: what
/// a kill leaves, for words are stored in order.
fn killed(records: u64, store: usize) -> (Flight, u64) {
    let mut writer = writer(LEAST);
    (1..records).for_each(|n| writer.record(message(n)));
    let before = to_bytes(writer.memory());
    writer.record(message(records));
    let after = to_bytes(writer.memory());
    // The commit word is stored last, though it stands first: of the words that the record
    // changed, all but the first come before it.
    let changed: Vec<_> =
        (0..before.len() / 8).filter(|at| before.word(*at) != after.word(*at)).collect();
    let (front, record): (Vec<_>, Vec<_>) = changed.into_iter().partition(|at| *at < 2048);
    let order = front.into_iter().chain(record.into_iter().rev());
    let mut torn = before.clone();
    for at in order.take(store) {
        torn[at * 8..at * 8 + 8].copy_from_slice(&after[at * 8..at * 8 + 8]);
    }
    let whole = if torn == after { records } else { records - 1 };
    (read(&torn[..], 0).unwrap(), whole)
}

/// Whether the one holds nothing that the other does not.
fn is_part(part: &Flight, whole: &Flight) -> bool {
    let find = |seq| whole.events.binary_search_by_key(&seq, |event| event.seq);
    part.events.iter().all(|event| find(event.seq).is_ok_and(|at| whole.events[at] == *event))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_kill_in_the_middle_of_a_record_costs_that_record(
        records in 2..9_000u64,
        store in 0..12usize,
    ) {
        let (flight, whole) = killed(records, store);
        let last = flight.events.last().map(|event| event.seq);
        prop_assert_eq!(last, Some(whole));
        prop_assert!(flight.life.torn <= 1);
        prop_assert_eq!(flight.events.len() as u64, whole - flight.life.overwritten);
    }

    #[test]
    fn a_file_cut_short_gives_what_is_left(records in 1..9_000u64, bytes in 0..LEAST) {
        let mut writer = writer(LEAST);
        (1..=records).for_each(|n| writer.record(message(n)));
        let whole = seen(&writer);
        let cut = &to_bytes(writer.memory())[..bytes];
        if let Ok(flight) = read(cut, 0) {
            prop_assert!(is_part(&flight, &whole));
        } else {
            prop_assert!(bytes < 200);
        }
    }

    #[test]
    fn scribbling_yields_nothing_that_was_not_written(
        records in 1..9_000u64,
        places in proptest::collection::vec((0..LEAST, any::<u8>()), 1..20),
    ) {
        let mut writer = writer(LEAST);
        (1..=records).for_each(|n| writer.record(message(n)));
        let whole = seen(&writer);
        let mut bytes = to_bytes(writer.memory());
        // Names and anchors are the front's; a check stands over the anchors only.
        places.iter().filter(|(at, _)| *at > 16 << 10).for_each(|(at, byte)| bytes[*at] ^= byte);
        let flight = read(&bytes[..], 0).unwrap();
        prop_assert!(is_part(&flight, &whole));
    }

    #[test]
    fn any_bytes_are_survived(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..4096),
        fronted in any::<bool>(),
    ) {
        if fronted {
            let ring = writer(LEAST);
            let mut front = to_bytes(ring.memory())[..16 << 10].to_vec();
            front.splice(192..400, bytes.iter().copied().cycle().take(208));
            front.extend(bytes.iter().copied().cycle().take(LEAST));
            bytes = front;
        }
        if let Ok(flight) = read(&bytes[..], 0) {
            prop_assert!(flight.events.is_empty());
        }
    }
}

#[test]
fn a_damaged_front_is_named() {
    let writer = writer(LEAST);
    let good = to_bytes(writer.memory());
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        read(&bytes[..], 0).unwrap_err()
    };
    assert_eq!(with(0), FlightError::NotARing);
    assert_eq!(with(8), FlightError::Version(2));
    assert_eq!(with(32), FlightError::Damaged);
    assert_eq!(read(&b"hello"[..], 0), Err(FlightError::NotARing));
}

/// A ring that is written while it is read: a record at every so many words.
struct Busy {
    memory: Ring,
    writer: RefCell<Writer<Ring>>,
    written: Cell<u64>,
    looks: Cell<u64>,
    every: u64,
}

impl Busy {
    fn write(&self) {
        self.written.set(self.written.get() + 1);
        self.writer.borrow_mut().record(message(self.written.get()));
    }
}

impl Words for Busy {
    fn count(&self) -> usize {
        self.memory.len()
    }

    fn word(&self, at: usize) -> u64 {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get().is_multiple_of(self.every) {
            self.write();
        }
        self.memory[..].word(at)
    }
}

#[test]
fn one_who_reads_while_it_is_written_sees_whole_records_in_order() {
    for every in [1, 2, 3, 5, 8, 13, 100, 1000] {
        let memory = ring(LEAST);
        let writer = RefCell::new(Writer::new(Arc::clone(&memory), &birth()).unwrap());
        let busy = Busy { memory, writer, written: Cell::new(0), looks: Cell::new(0), every };
        (0..10_000).for_each(|_| busy.write());
        let mut seen = 0;
        for _ in 0..10 {
            let flight = read(&busy, 0).unwrap();
            assert!(flight.events.is_sorted_by(|a, b| a.seq < b.seq));
            for event in &flight.events {
                let What::Message { id, kind, .. } = &event.what else { panic!("{event:?}") };
                assert_eq!((id.0, &**kind), (event.seq, "Regenerate"));
            }
            seen += flight.events.len();
        }
        // One who is overtaken by a whole round may see little, but hardly nothing every time.
        assert!(seen > 0, "nothing, with a record at every {every} words");
    }
}
