//! Tests: the newest records are kept, whole, over the end of a life.

use super::*;

fn bytes(number: u64) -> Vec<u8> {
    (0..(number % RECORD_MAX as u64) as u8).map(|at| at ^ number as u8).collect()
}

fn write(writer: &mut RingWriter, numbers: std::ops::Range<u64>) {
    for number in numbers {
        writer.record(1000 + number, (number % 3) as u32, number as u32, &bytes(number));
    }
}

fn check(ring: &Ring, number: u64) {
    let content = Content::Record { cookie: number as u32, bytes: bytes(number) };
    let expected = Stored { number, time: 1000 + number, cpu: (number % 3) as u32, content };
    assert_eq!(ring.get(number), Some(expected));
}

#[test]
fn the_newest_are_kept_and_the_oldest_go() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, trouble) = open(&dir.path().join("flows"), 7).unwrap();
    assert!(trouble.is_none(), "{trouble:?}");
    let ring = Arc::clone(writer.ring());
    assert_eq!((ring.bounds(), ring.get(0)), ((0, 0), None));
    write(&mut writer, 0..20);
    assert_eq!((ring.bounds(), ring.capacity(), ring.seen()), ((13, 20), 7, 20));
    (13..20).for_each(|number| check(&ring, number));
    assert_eq!((ring.get(11), ring.get(20)), (None, None));
    writer.lost(2000, 1, 1, 99, 1990);
    let lost = Content::Lost { source: 1, count: 99, first: 1990 };
    assert_eq!(ring.get(20), Some(Stored { number: 20, time: 2000, cpu: 1, content: lost }));
}

#[test]
fn what_a_life_wrote_the_next_one_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flows");
    let (mut writer, _) = open(&path, 7).unwrap();
    write(&mut writer, 0..10);
    let marks = writer.ring().marks(9);
    // As a kill leaves it: the slot that is being written has no number.
    writer.ring().slot(8)[0].store(0, Ordering::Relaxed);
    drop(writer);
    let (mut writer, trouble) = open(&path, 7).unwrap();
    assert!(trouble.is_none(), "{trouble:?}");
    let ring = Arc::clone(writer.ring());
    assert_eq!((ring.bounds(), ring.seen(), ring.marks(9)), ((3, 10), 0, marks));
    assert_eq!(ring.get(8), None);
    for number in [3, 4, 5, 6, 7, 9] {
        check(&ring, number);
    }
    write(&mut writer, 10..12);
    check(&ring, 11);
    assert_eq!(ring.seen(), 2);
}

#[test]
fn a_file_that_is_no_ring_of_that_size_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flows");
    let (mut writer, _) = open(&path, 7).unwrap();
    write(&mut writer, 0..3);
    drop(writer);
    assert_eq!(open(&path, 15).unwrap().0.ring().bounds(), (0, 0));
    fs::write(&path, "not a ring").unwrap();
    let (writer, trouble) = open(&path, 15).unwrap();
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(writer.ring().bounds(), (0, 0));
    drop(writer);
    // Slots with numbers that cannot be theirs.
    let mut content = fs::read(&path).unwrap();
    content[FRONT * 8..].fill(0xff);
    fs::write(&path, &content).unwrap();
    assert_eq!(open(&path, 15).unwrap().0.ring().bounds(), (0, 0));
}

#[test]
fn without_a_file_flows_are_kept_in_memory_and_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, trouble) = open(&dir.path().join("absent/flows"), 7).unwrap();
    let trouble = trouble.unwrap().to_string();
    assert!(trouble.contains("open") && trouble.contains("--state-dir"), "{trouble}");
    write(&mut writer, 0..3);
    check(writer.ring(), 2);
}

#[test]
fn who_reads_while_another_writes_sees_whole_records_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(&dir.path().join("flows"), 7).unwrap();
    let ring = Arc::clone(writer.ring());
    let writing = std::thread::spawn(move || write(&mut writer, 0..200_000));
    let mut read = 0_u64;
    while !writing.is_finished() || read == 0 {
        let (oldest, next) = ring.bounds();
        for number in oldest..next {
            if let Some(found) = ring.get(number) {
                let content = Content::Record { cookie: number as u32, bytes: bytes(number) };
                assert_eq!((found.time, found.content), (1000 + number, content));
                read += 1;
            }
        }
    }
    writing.join().unwrap();
}

#[test]
fn the_rate_is_that_of_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(&dir.path().join("flows"), 1023).unwrap();
    assert_eq!(writer.ring().rate(), 0.0);
    let end = now();
    // 600 records, 100 of them in the last minute, of a ring that is not full.
    for number in 0..600_u64 {
        writer.record(end - (600 - number) * 600_000_000, 0, 0, &[]);
    }
    let rate = writer.ring().rate();
    assert!((1.5..1.75).contains(&rate), "{rate}");
}
