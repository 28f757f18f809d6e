use super::{
    Birth, FlightError, Memory,
    bytes::{Bytes, Content},
    encode::{Encoder, Kind},
    front::{self, BEGUN, Geometry},
    live::Live,
    names::Names,
    segment::{CARRIED, HEAD_WORDS, Head, Label},
    words::put,
};
use crate::{
    host::{Record, Recorder},
    ports::Time,
};

/// Writes records into a ring.
pub struct Writer<M> {
    memory: M,
    geometry: Geometry,
    started: Time,
    names: Names,
    live: Live,
    head: Head,
    /// Place of the next record within its segment, in words.
    next: usize,
    /// Number of the last record.
    seq: u64,
    /// The record's content, without its number.
    content: Box<Bytes>,
    /// The same with it.
    whole: Box<Bytes>,
}

impl<M: Memory> Writer<M> {
    /// A writer over memory; whatever was there is gone.
    pub fn new(memory: M, birth: &Birth) -> Result<Self, FlightError> {
        let geometry = front::write(memory.words(), birth)?;
        let head = Head { turn: geometry.segments, first: 1 };
        head.write(memory.words(), geometry.place(head.turn));
        Ok(Self {
            memory,
            geometry,
            started: birth.started,
            names: Names::new(),
            live: Live::default(),
            head,
            next: HEAD_WORDS,
            seq: 0,
            content: Box::new(Bytes::new()),
            whole: Box::new(Bytes::new()),
        })
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Counts the segments that were begun: when it changes, what was written before is left alone
    /// for a long time.
    pub fn turn(&self) -> u64 {
        self.head.turn
    }

    /// Puts the content, with its number, behind the last record.
    fn append(&mut self, kind: Kind, flags: u8, seq: u64) {
        let length = |head: &Head, content: &Bytes, whole: &mut Bytes| {
            whole.clear();
            whole.difference(seq, head.first);
            whole.raw(content.content());
            1 + whole.padded().len() / 8
        };
        let mut words = length(&self.head, &self.content, &mut self.whole);
        if self.next + words > self.geometry.segment_words {
            if flags & CARRIED != 0 {
                return;
            }
            // The content is wanted after others were carried over by the same way.
            let content = std::mem::replace(&mut self.content, Box::new(Bytes::new()));
            self.turn_over(seq);
            self.content = content;
            words = length(&self.head, &self.content, &mut self.whole);
        }
        let at = self.geometry.place(self.head.turn) + self.next;
        let label = Label { words: (words - 1) as u16, kind: kind as u8, flags };
        label.write(self.memory.words(), self.head.turn, at, self.whole.padded());
        self.next += words;
    }

    /// Begins the next segment, with what is still needed of the one that goes after it.
    fn turn_over(&mut self, first: u64) {
        self.head = Head { turn: self.head.turn + 1, first };
        self.next = HEAD_WORDS;
        self.head.write(self.memory.words(), self.geometry.place(self.head.turn));
        let old = self.head.turn + 1 - self.geometry.segments;
        self.live.turn(old);
        self.carry(old);
        self.live.forget(old);
    }

    fn carry(&mut self, old: u64) {
        let place = self.geometry.place(old);
        let words = self.memory.words();
        let Some(head) = Head::read(words, place).filter(|head| head.turn == old) else { return };
        let mut next = HEAD_WORDS;
        // Half of the segment at most, so that there is room for what happens now.
        while next < self.geometry.segment_words && self.next < self.geometry.segment_words / 2 {
            let words = self.memory.words();
            let Some((label, bytes)) = Label::read(words, old, place + next) else { return };
            next += 1 + usize::from(label.words);
            let Some(kind) = Kind::of(label.kind) else { continue };
            if !matches!(kind, Kind::Root | Kind::Spawned | Kind::State | Kind::WaitBegan) {
                continue;
            }
            let mut content = Content(&bytes);
            let Some(seq) = content.difference(head.first) else { continue };
            let rest = content.0;
            let Some(subject) = content.number() else { continue };
            if self.live.needs(kind, subject, seq, old) {
                self.content.clear();
                self.content.raw(rest);
                self.append(kind, CARRIED, seq);
            }
        }
    }
}

impl<M: Memory> Recorder for Writer<M> {
    fn record(&mut self, record: Record<'_>) {
        self.seq += 1;
        let words = self.memory.words();
        put(words, BEGUN, self.seq);
        self.content.clear();
        let started = self.started;
        let mut encoder =
            Encoder { names: &mut self.names, words, started, out: &mut self.content };
        let kind = encoder.write(&record);
        self.append(kind, 0, self.seq);
        self.live.note(&record, self.seq, self.head.turn);
    }
}
