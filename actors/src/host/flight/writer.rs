//! The recorder that writes to a ring: it appends records and opens the next segment in time.
//! Before a segment is used again, it carries over the records that are still needed.

use std::{ops::Range, sync::atomic::AtomicU64};

use super::{
    Birth, FlightError, Memory,
    encode::{Encoder, RecordKind},
    fields::{RecordFields, text_words},
    front::{self, BEGUN, Geometry},
    live::Live,
    message,
    names::NameNumbers,
    pending::Pending,
    segment::{Base, CARRIED, HEAD_WORDS, Head, RecordHeader},
    unfinished,
    wait::{OVER_WIDE, WaitEnd},
    words::{Words, put},
};
use crate::host::{EnvelopeId, Header, Outcome, Record, Recorder, Time, Wait};

/// Writes records into a ring.
pub struct Writer<M> {
    memory: M,
    geometry: Geometry,
    names: NameNumbers,
    pending: Pending,
    live: Live,
    tail: Tail,
    /// Number of the last record.
    seq: u64,
    /// What the next segment's messages will be told as distances from.
    latest: Base,
    /// The message that is being handled.
    unfinished: EnvelopeId,
    /// The record's content.
    content: Box<RecordFields>,
}

impl<M: Memory> Writer<M> {
    /// A writer over memory; whatever was there is gone.
    pub fn new(memory: M, birth: &Birth) -> Result<Self, FlightError> {
        let geometry = front::write(memory.words(), birth)?;
        let latest = Base { id: 1, root: 1, time: birth.started.0 };
        let head = Head { turn: geometry.segments, first: 1, base: latest };
        let tail = Tail::open(head, geometry, memory.words());
        Ok(Self {
            memory,
            geometry,
            names: NameNumbers::new(),
            pending: Pending::new(geometry, birth),
            live: Live::default(),
            tail,
            seq: 0,
            latest,
            unfinished: EnvelopeId::default(),
            content: Box::new(RecordFields::new()),
        })
    }

    /// Begins anew in memory that lost what it held; the numbers of records go on.
    pub fn renew(&mut self, birth: &Birth) -> Result<(), FlightError> {
        let words = self.memory.words();
        self.geometry = front::write(words, birth)?;
        put(words, BEGUN, self.seq);
        (self.names, self.pending) = (NameNumbers::new(), Pending::new(self.geometry, birth));
        let head = Head { turn: self.turn() + 1, first: self.seq + 1, base: self.latest };
        self.tail = Tail::open(head, self.geometry, words);
        Ok(())
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Counts the segments that were begun: when it changes, what was written before is left alone
    /// for a long time.
    pub fn turn(&self) -> u64 {
        self.tail.head.turn
    }

    /// How often it has gone round.
    pub fn rounds(&self) -> u64 {
        self.turn() / self.geometry.segments - 1
    }

    /// The words that are written in this turn.
    pub fn segment(&self) -> Range<usize> {
        self.tail.place..self.tail.end
    }

    /// The words that are written in turn.
    pub fn segments(&self) -> Range<usize> {
        self.geometry.segments()
    }

    fn message(&mut self, header: &Header, started: Time, ended: Time, outcome: Outcome) {
        self.make_room(message::WIDE);
        let words = self.memory.words();
        if header.id == self.unfinished {
            unfinished::end(words);
        }
        let kind = self.names.number(words, header.kind);
        let fields = message::MessageFields::of(kind, header, started, ended, outcome);
        match fields.narrow(&self.tail.head.base) {
            Some(content) => self.tail.append(words, RecordKind::Message, 0, &content),
            None => self.tail.append(words, RecordKind::WideMessage, 0, &fields.wide()),
        }
        self.latest = Base { id: header.id.0, root: header.root.0, time: header.enqueued.0 };
        self.live.used(header.root, self.tail.head.turn);
    }

    fn waited(&mut self, wait: &Wait, end: WaitEnd) {
        self.make_room(OVER_WIDE + text_words(wait.why.len()));
        let base = self.tail.head.base;
        let kind = self.encoder().waited(wait, end, &base);
        self.tail.append(self.memory.words(), kind, 0, self.content.content());
    }

    fn other(&mut self, record: &Record<'_>) {
        let Some(kind) = self.encoder().write(record) else { return };
        self.make_room(self.content.content().len());
        self.tail.append(self.memory.words(), kind, 0, self.content.content());
    }

    /// Puts a wait into its place; false if it has none.
    fn begin(&mut self, wait: &Wait) -> bool {
        self.encoder().began(wait);
        self.pending.begin(self.memory.words(), wait.id, self.content.content())
    }

    /// Writes the content anew.
    fn encoder(&mut self) -> Encoder<'_> {
        self.content.clear();
        let (names, words) = (&mut self.names, self.memory.words());
        Encoder { names, words, out: &mut self.content }
    }

    /// Begins the next segment if a record with so many words of content does not fit this one.
    fn make_room(&mut self, words: usize) {
        if !self.tail.fits(words) {
            self.turn_over();
        }
    }

    /// Begins the next segment, with what is still needed of the one that goes after it.
    #[cold]
    fn turn_over(&mut self) {
        let head = Head { turn: self.turn() + 1, first: self.seq, base: self.latest };
        self.tail = Tail::open(head, self.geometry, self.memory.words());
        let old = head.turn + 1 - self.geometry.segments;
        self.live.turn(old);
        self.carry(old);
        self.live.forget(old);
    }

    fn carry(&mut self, old: u64) {
        let (place, words) = (self.geometry.place(old), self.memory.words());
        let Some(head) = Head::read(words, place).filter(|head| head.turn == old) else { return };
        let (salt, mut seqs, mut next) = (head.salt(), head.first.., HEAD_WORDS);
        while next < self.geometry.segment_words && self.tail.is_half_empty() {
            // Nearly all are such as nothing needs: only their labels are looked at.
            let (at, label) = (place + next, RecordHeader::peek(words, place + next));
            let Some(kind) = RecordKind::of(label.kind).filter(|_| label.words > 0) else { return };
            next += 1 + usize::from(label.words);
            let carried = usize::from(label.flags & CARRIED);
            let seq = if carried == 0 { seqs.next() } else { Some(words.word(at + 1)) };
            let subject = kind.subject(|| words.word(at + 1 + carried));
            let (Some(seq), Some(subject)) = (seq, subject) else { continue };
            if !self.live.needs(kind, subject, seq, old) {
                continue;
            }
            let Some((_, content)) = RecordHeader::read(words, salt, at) else { return };
            let content = content.get(carried..).unwrap_or_default();
            if self.tail.fits(1 + content.len()) {
                self.tail.append(words, kind, CARRIED, &[&[seq], content].concat());
            }
        }
    }
}

/// Where the next record goes.
struct Tail {
    head: Head,
    /// What the checks of the segment's records begin with.
    salt: u64,
    /// The segment, and the record within it, in words from the beginning.
    place: usize,
    next: usize,
    end: usize,
}

impl Tail {
    fn open(head: Head, geometry: Geometry, words: &[AtomicU64]) -> Self {
        let place = geometry.place(head.turn);
        head.write(words, place);
        let (next, end) = (place + HEAD_WORDS, place + geometry.segment_words);
        Self { head, salt: head.salt(), place, next, end }
    }

    fn fits(&self, words: usize) -> bool {
        self.next + 1 + words <= self.end
    }

    /// What is carried over takes half of a segment at most: there must be room for what happens.
    fn is_half_empty(&self) -> bool {
        self.next - self.place < (self.end - self.place) / 2
    }

    fn append(&mut self, words: &[AtomicU64], kind: RecordKind, flags: u8, content: &[u64]) {
        let label = RecordHeader { words: content.len() as u16, kind: kind as u8, flags };
        label.write(words, self.salt, self.next, content);
        self.next += 1 + content.len();
    }
}

impl<M: Memory> Recorder for Writer<M> {
    fn record(&mut self, record: Record<'_>) {
        if let Record::Handling { header, started } = record {
            self.unfinished = header.id;
            let kind = self.names.number(self.memory.words(), header.kind);
            return unfinished::begin(self.memory.words(), kind, &header, started);
        }
        let reported = match record {
            // Told of when it lasts, or is over.
            Record::WaitBegan { wait } => self.begin(wait),
            Record::WaitLasts { wait } => !self.pending.holds(wait.id),
            _ => false,
        };
        if reported {
            return;
        }
        self.seq += 1;
        put(self.memory.words(), BEGUN, self.seq);
        match record {
            Record::Message { header, started, ended, outcome } => {
                return self.message(&header, started, ended, outcome);
            }
            Record::WaitEnded { wait, answered, at } => self.waited(wait, WaitEnd { at, answered }),
            _ => self.other(&record),
        }
        self.live.note(&record, self.seq, self.tail.head.turn);
        // Last: a kill before leaves it in two places, which says the same.
        if let Record::WaitLasts { wait } | Record::WaitEnded { wait, .. } = record {
            self.pending.end(self.memory.words(), wait.id);
        }
    }
}
