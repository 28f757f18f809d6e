//! Tests: messages are as Go encodes them, and a slow listener is told how much it lost.

use std::{
    io::Read,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use volvox_maps::Event;

use super::{
    gob::{Decoder, GREETING, encode},
    listener::Listener,
};

fn sample(cpu: u32, length: usize) -> Event {
    Event::Sample { cpu, bytes: vec![4; length] }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What Go 1.21 writes for `type Payload struct { Data []byte; CPU int; Lost uint64; Type int }`.
#[test]
fn messages_are_those_that_go_writes() {
    assert_eq!(
        hex(GREETING),
        "377f030101075061796c6f616401ff80000104010444617461010a00010343505501040001044c6f7374010600\
         0104547970650104000000"
    );
    let first = Event::Sample { cpu: 0, bytes: vec![1, 133, 42] };
    assert_eq!(hex(&encode(&first)), "0aff80010301852a031200");
    let lost = Event::Lost { cpu: 3, count: 300 };
    assert_eq!(hex(&encode(&lost)), "0bff80020601fe012c010400");
    let long = format!("ffd3ff8001ffc8{}01ffc8021200", "04".repeat(200));
    assert_eq!(hex(&encode(&sample(100, 200))), long);
}

#[test]
fn what_is_written_is_read_however_it_is_cut() {
    let events = [
        sample(0, 56),
        Event::Lost { cpu: 0, count: 1 },
        sample(7, 65_000),
        Event::Lost { cpu: 1000, count: u64::MAX },
    ];
    let stream: Vec<u8> = GREETING.iter().copied().chain(events.iter().flat_map(encode)).collect();
    for chunk in [1, 7, 4096, stream.len()] {
        let (mut decoder, mut read) = (Decoder::default(), Vec::new());
        for part in stream.chunks(chunk) {
            decoder.feed(part);
            read.extend(decoder.events().unwrap());
        }
        assert!(decoder.is_greeted());
        assert_eq!(read, events);
    }
}

#[test]
fn a_value_of_another_kind_is_passed_over_and_rubbish_is_refused() {
    let mut decoder = Decoder::default();
    decoder.feed(b"\x04\xff\x80\x04\x02\x00");
    assert_eq!(decoder.events().map(|events| events.len()).unwrap_or(0), 0);
    for (rubbish, why) in [
        (&b"\xfd\xff\xff\xff"[..], "too long"),
        (b"\x80\0\0\0", "a number is too long"),
        (b"\x05\xff\x80\x01\x50\x00", "cut off"),
        (b"\x03\xff\x80\x01", "cut off"),
        (b"\x05\xff\x80\x07\x01\x00", "more fields"),
    ] {
        let mut decoder = Decoder::default();
        decoder.feed(rubbish);
        decoder.feed(&[0; 8]);
        let error = decoder.events().unwrap_err().to_string();
        assert!(error.contains(why), "{rubbish:?}: {error}");
    }
}

proptest! {
    #[test]
    fn no_stream_breaks_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::default();
        decoder.feed(GREETING);
        decoder.feed(&bytes);
        let _ = decoder.events();
    }

    #[test]
    fn every_event_comes_back(cpu: u32, count in 1..u64::MAX, bytes: Vec<u8>) {
        for event in [Event::Lost { cpu, count }, Event::Sample { cpu, bytes }] {
            let mut decoder = Decoder::default();
            decoder.feed(&encode(&event));
            prop_assert_eq!(decoder.events(), Ok(vec![event]));
        }
    }
}

#[test]
fn a_slow_listener_is_told_what_it_lost_and_gets_what_comes_then() {
    let (mine, mut its) = UnixStream::pair().unwrap();
    mine.set_nonblocking(true).unwrap();
    its.set_nonblocking(true).unwrap();
    let mut listener = Listener::greet(mine);
    let (event, message) = (sample(0, 1000), encode(&sample(0, 1000)));
    let (given, mut lost_in_ring) = (5000_u64, 0);
    for number in 0..given {
        listener.take(&event, &message);
        if number == 4000 {
            let lost = Event::Lost { cpu: 1, count: 10 };
            listener.take(&lost, &encode(&lost));
            lost_in_ring += 10;
        }
        assert!(listener.flush(), "it is there");
    }
    // It wakes up and reads all that there is.
    let (mut decoder, mut got, mut lost) = (Decoder::default(), 0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut chunk = vec![0; 1 << 16];
    while got + lost < given + lost_in_ring {
        assert!(Instant::now() < deadline, "{got} came and {lost} are said to be lost");
        listener.flush();
        let Ok(read) = its.read(&mut chunk) else { continue };
        decoder.feed(&chunk[..read]);
        for event in decoder.events().unwrap() {
            match event {
                Event::Sample { .. } => got += 1,
                Event::Lost { count, .. } => lost += count,
            }
        }
    }
    assert!(got > 0 && lost > lost_in_ring, "{got} came, {lost} were lost");
    let last = Event::Sample { cpu: 9, bytes: vec![9] };
    listener.take(&last, &encode(&last));
    assert!(listener.flush() && !listener.has_backlog());
    let read = its.read(&mut chunk).unwrap();
    decoder.feed(&chunk[..read]);
    assert_eq!(decoder.events(), Ok(vec![last]));
}

#[test]
fn one_who_left_is_noticed() {
    let (mine, its) = UnixStream::pair().unwrap();
    mine.set_nonblocking(true).unwrap();
    let mut listener = Listener::greet(mine);
    assert!(listener.is_there() && listener.flush());
    drop(its);
    assert!(!listener.is_there());
    listener.take(&sample(0, 10), &encode(&sample(0, 10)));
    assert!(!listener.flush());
}
