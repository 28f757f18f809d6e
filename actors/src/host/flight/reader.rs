//! Reads a ring, even while it is written: finds whole records and leaves out those that are torn.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    Birth, Event, Flight, FlightError, Life, What,
    decode::{Decoder, name_whom},
    encode::RecordKind,
    fields::Content,
    front::{self, BEGUN, ENDED, Geometry},
    names::RingNames,
    pending,
    segment::{Base, CARRIED, HEAD_WORDS, Head, RecordHeader},
    unfinished,
    words::Words,
};
use crate::host::CellId;

/// Reads a ring: all whole records with a number above `after` that are not overwritten. The writer
/// may go on meanwhile.
pub fn read<W: Words + ?Sized>(words: &W, after: u64) -> Result<Flight, FlightError> {
    read_part(words, after, usize::MAX)
}

/// The first so many of them: what comes later is counted, not read.
pub fn read_part<W: Words + ?Sized>(
    words: &W,
    after: u64,
    limit: usize,
) -> Result<Flight, FlightError> {
    // First, so that what is being written right now is not taken for torn.
    let begun = words.word(BEGUN);
    let (birth, geometry) = front::read(words)?;
    let mut names = RingNames::read(words);
    // Before the records: what ends meanwhile is among those.
    let waits = pending::read(words, geometry, &birth, &mut names);
    let mut reading = Reading {
        words,
        geometry,
        names,
        after,
        limit,
        begun,
        cells: BTreeMap::new(),
        events: Vec::new(),
        oldest: None,
        written: 0,
        newest: 0,
    };
    reading.segments();
    let oldest = reading.oldest.unwrap_or(begun + 1);
    let mut life = Life {
        number: birth.life,
        pid: birth.pid,
        version: birth.version,
        boot_id: birth.boot_id,
        started_unix_ns: birth.started_wall,
        started_ns: birth.started.0,
        ended_unix_ns: words.word(ENDED),
        previous: false,
        torn: (begun.max(reading.newest) + 1).saturating_sub(oldest + reading.written),
        overwritten: oldest - 1,
        capacity: geometry.bytes(),
        unfinished: unfinished::read(words, &mut reading.names),
        waits,
    };
    life.waits.iter_mut().for_each(|wait| name_whom(wait, &reading.cells));
    Ok(Flight { life, events: reading.finish() })
}

/// Whose ring it is.
pub fn birth<W: Words + ?Sized>(words: &W) -> Result<Birth, FlightError> {
    front::read(words).map(|(birth, _)| birth)
}

/// Whether it has no record, nor anything else: what is made for a ring is so until a writer comes.
pub fn is_unwritten<W: Words + ?Sized>(words: &W) -> bool {
    records(words) == 0 && matches!(words.word(0), 0 | front::MAGIC)
}

/// How many records were begun in it.
pub fn records<W: Words + ?Sized>(words: &W) -> u64 {
    words.word(BEGUN)
}

/// Words of a ring whose content is older than its newest `segments` segments: what can be spared where
/// the last moments are to be kept.
pub fn older<W: Words + ?Sized>(
    words: &W,
    segments: usize,
) -> Result<Vec<Range<usize>>, FlightError> {
    let (_, geometry) = front::read(words)?;
    let places = (0..geometry.segments).map(|index| geometry.place(index));
    let mut turns: Vec<_> =
        places.map(|at| (Head::read(words, at).map_or(0, |head| head.turn), at)).collect();
    turns.sort_unstable();
    turns.truncate(turns.len().saturating_sub(segments));
    Ok(turns.into_iter().map(|(_, at)| at..at + geometry.segment_words).collect())
}

struct Reading<'a, W: ?Sized> {
    words: &'a W,
    geometry: Geometry,
    names: RingNames<'a, W>,
    after: u64,
    /// How many events are desired at most.
    limit: usize,
    /// Number of the record that was begun last.
    begun: u64,
    cells: BTreeMap<CellId, Arc<str>>,
    events: Vec<Event>,
    /// Number of the first record that was not overwritten.
    oldest: Option<u64>,
    /// Records found, carried ones not counted.
    written: u64,
    newest: u64,
}

impl<W: Words + ?Sized> Reading<'_, W> {
    fn segments(&mut self) {
        let places = (0..self.geometry.segments).map(|index| self.geometry.place(index));
        let mut heads: Vec<_> =
            places.filter_map(|at| Head::read(self.words, at).map(|head| (head, at))).collect();
        heads.sort_unstable_by_key(|(head, _)| head.turn);
        // Of a file that is damaged, only segments of one round can be meant.
        let newest = heads.last().map_or(0, |(head, _)| head.turn);
        heads.retain(|(head, at)| {
            newest - head.turn < self.geometry.segments && self.geometry.place(head.turn) == *at
        });
        let full = heads.len() as u64 == self.geometry.segments;
        for (index, (head, at)) in heads.iter().enumerate() {
            self.oldest.get_or_insert(head.first.max(1));
            let end = heads.get(index + 1).map(|(next, _)| next.first);
            let known =
                end.is_some_and(|end| end <= self.after.saturating_add(1) && self.after > 0);
            let enough = self.events.len() >= self.limit;
            if known || enough {
                // Counted, not read.
                let end = end.unwrap_or(self.begun + 1);
                self.written += end.saturating_sub(head.first);
            }
            if !known {
                self.segment(*head, *at, enough);
            }
            // The oldest may be overwritten while it is read; that is no damage.
            if let Some(end) =
                end.filter(|end| full && index == 0 && head.first + self.written < *end)
            {
                (self.oldest, self.written) = (Some(end), 0);
            }
        }
    }

    /// Reads a segment, or only what was carried into it, which is older than all others.
    fn segment(&mut self, head: Head, place: usize, only_carried: bool) {
        let (salt, mut next) = (head.salt(), HEAD_WORDS);
        let mut seqs = head.first..;
        while next < self.geometry.segment_words {
            let record = RecordHeader::read(self.words, salt, place + next);
            let Some((label, content)) = record else { return };
            next += 1 + usize::from(label.words);
            if only_carried && label.flags & CARRIED == 0 {
                return;
            }
            let mut content = Content(&content);
            let seq = if label.flags & CARRIED == 0 {
                self.written += 1;
                seqs.next().inspect(|seq| self.newest = self.newest.max(*seq))
            } else {
                content.word()
            };
            if let Some(seq) = seq {
                self.event(seq, label.kind, &head.base, content);
            }
        }
    }

    fn event(&mut self, seq: u64, kind: u8, base: &Base, content: Content<'_>) {
        // A kind that a later version added is no error; its record is left out.
        let Some(kind) = RecordKind::of(kind) else { return };
        if seq <= self.after && kind != RecordKind::Spawned {
            return;
        }
        let decoded = Decoder { names: &mut self.names, base, content }.read(kind);
        let Some(what) = decoded else { return };
        if let What::Spawned { cell, name, .. } = &what {
            self.cells.insert(*cell, Arc::clone(name));
        }
        if seq > self.after {
            self.events.push(Event { seq, what });
        }
    }

    fn finish(mut self) -> Vec<Event> {
        self.events.sort_by_key(|event| event.seq);
        // What was carried over may be there as it was first written, too.
        self.events.dedup_by_key(|event| event.seq);
        self.events.truncate(self.limit);
        for event in &mut self.events {
            if let What::WaitBegan(wait) | What::Waited { wait, .. } = &mut event.what {
                name_whom(wait, &self.cells);
            }
        }
        self.events
    }
}
