//! For the fuzzer: records of the datapath.

use volvox_bpf_progs::layouts::{Record, SignalRecord};
use volvox_inspect::monitor::Decoder;
use volvox_maps::Event;

use super::{line::Verdicts, text::text};

/// Reads records as they come over the monitor's socket, whole and in pieces whose length the first
/// byte says; and all of it as one record of the ring. Each is a line for people and for programs.
pub(crate) fn records(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let mut verdicts = Verdicts::default();
    let mut show = |event: &Event| {
        let Event::Sample { cpu, bytes } = event else { return };
        SignalRecord::parse(bytes);
        let Some(record) = Record::parse(bytes) else { return };
        let line = verdicts.line(*cpu, &record);
        assert!(!text(&line).is_empty());
        assert!(serde_json::to_vec(&line).is_ok());
        line.concerns(7);
        line.cookie();
    };
    show(&Event::Sample { cpu: first.into(), bytes: rest.to_vec() });
    let mut whole = Decoder::default();
    whole.feed(rest);
    let events = whole.events();
    let mut pieces = Decoder::default();
    let mut in_pieces = Vec::new();
    for piece in rest.chunks(usize::from(first).max(1)) {
        pieces.feed(piece);
        match pieces.events() {
            Ok(events) => in_pieces.extend(events),
            Err(_) => {
                assert!(events.is_err(), "what cannot be read in pieces is read whole");
                return;
            }
        }
    }
    let Ok(events) = events else { panic!("what is read in pieces cannot be read whole") };
    assert_eq!(events, in_pieces);
    assert_eq!(whole.is_greeted(), pieces.is_greeted());
    events.iter().for_each(show);
}
