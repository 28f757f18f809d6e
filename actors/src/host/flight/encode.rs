//! The kinds of records, and how the content of each is encoded.
//! A message's content is encoded in `message`, a wait's in `wait`.

use std::{borrow::Cow, net::IpAddr, sync::atomic::AtomicU64};

use super::{
    fields::RecordFields,
    message::number,
    names::NameNumbers,
    segment::Base,
    wait::{self, WaitEnd},
};
use crate::host::{About, CellId, KernelStep, Record, Wait, Whom};

/// Kinds of records. What can be carried over begins with the number of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordKind {
    Root = 1,
    Spawned,
    Message,
    /// A message whose numbers are too far from the segment's base.
    WideMessage,
    Crash,
    State,
    WaitBegan,
    Waited,
    /// A wait that is over, whose numbers are too far from the segment's base.
    WideWaited,
    Kernel,
    Phase,
    Stopped,
}

impl RecordKind {
    /// By their numbers, from 1.
    const ALL: [Self; 12] = [
        Self::Root,
        Self::Spawned,
        Self::Message,
        Self::WideMessage,
        Self::Crash,
        Self::State,
        Self::WaitBegan,
        Self::Waited,
        Self::WideWaited,
        Self::Kernel,
        Self::Phase,
        Self::Stopped,
    ];

    pub(super) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// What a record is about, by its first word; `None` for what is never carried over.
    pub(super) fn subject(self, first: impl FnOnce() -> u64) -> Option<u64> {
        match self {
            Self::Root | Self::WaitBegan => Some(first()),
            Self::Spawned | Self::State => Some(first() & u64::from(u32::MAX)),
            _ => None,
        }
    }
}

/// Flags of a step in the kernel.
pub(super) const WRITE: u64 = 1;
pub(super) const FAILED: u64 = 2;

/// Writes all records but messages and waits that are over.
pub(super) struct Encoder<'a> {
    pub(super) names: &'a mut NameNumbers,
    pub(super) words: &'a [AtomicU64],
    pub(super) out: &'a mut RecordFields,
}

impl Encoder<'_> {
    /// The record's kind; `None` for what has a place of its own.
    pub(super) fn write(&mut self, record: &Record<'_>) -> Option<RecordKind> {
        Some(match *record {
            Record::Handling { .. } | Record::Message { .. } | Record::WaitEnded { .. } => {
                return None;
            }
            Record::Root { root, what, at } => {
                self.out.numbers([root.0, at.0]);
                self.out.text(what);
                RecordKind::Root
            }
            Record::Spawned { cell, name, parent, at } => {
                self.out.numbers([cell_and(cell, number(parent)), at.0]);
                self.out.text(name);
                RecordKind::Spawned
            }
            Record::Crash { cell, kind, cause, at } => {
                let kind = self.name(kind);
                self.out.numbers([cell_and(cell, kind), at.0]);
                self.out.text(cause);
                RecordKind::Crash
            }
            Record::State { cell, from, to, why, at } => {
                let names = self.name(from) | self.name(to) << 16;
                self.out.numbers([cell_and(cell, names), at.0]);
                self.out.text(why);
                RecordKind::State
            }
            Record::WaitBegan { wait } | Record::WaitLasts { wait } => {
                self.began(wait);
                RecordKind::WaitBegan
            }
            Record::Kernel(step) => {
                self.kernel(step);
                RecordKind::Kernel
            }
            Record::Phase { name, started, ended } => {
                self.out.numbers([started.0, ended.0]);
                self.out.text(name);
                RecordKind::Phase
            }
            Record::Stopped { cell, at } => {
                self.out.numbers([cell_and(cell, 0), at.0]);
                RecordKind::Stopped
            }
        })
    }

    fn kernel(&mut self, step: KernelStep<'_>) {
        let written = if step.write { WRITE } else { 0 };
        let flags = written | if step.failed.is_some() { FAILED } else { 0 };
        let (tag, numbers) = about_numbers(step.about);
        let first = number(step.cell) | self.name(step.op) << 32 | tag << 48 | flags << 56;
        let (cause, root) = (step.cause.0, step.root.0);
        self.out.numbers([first, cause, root, step.submitted.0, step.started.0, step.ended.0]);
        self.out.numbers(numbers);
        if let Some(failed) = step.failed {
            self.out.text(failed);
        }
    }

    /// A wait that begins.
    pub(super) fn began(&mut self, wait: &Wait) {
        let fields = self.wait(wait);
        self.out.numbers(fields.began());
        self.reason(wait, fields);
    }

    /// A wait that is over.
    pub(super) fn waited(&mut self, wait: &Wait, end: WaitEnd, base: &Base) -> RecordKind {
        let fields = self.wait(wait);
        let kind = match fields.narrow(end, base) {
            Some(numbers) => {
                self.out.numbers(numbers);
                RecordKind::Waited
            }
            None => {
                self.out.numbers(fields.wide(end));
                RecordKind::WideWaited
            }
        };
        self.reason(wait, fields);
        kind
    }

    fn wait(&mut self, wait: &Wait) -> wait::WaitFields {
        let &Wait { id, who, since, until, .. } = wait;
        let whom = match wait.whom {
            Whom::Cell(cell) => wait::EncodedWhom::Cell(cell),
            Whom::Port(port) => wait::EncodedWhom::Port(self.names.number(self.words, port)),
        };
        // A reason that is known at compile time is a name; 0 if it is none, or has no room.
        let why = match wait.why {
            Cow::Borrowed(why) => self.names.number(self.words, why),
            Cow::Owned(_) => 0,
        };
        wait::WaitFields { wait: id, who, whom, why, since, until }
    }

    fn reason(&mut self, wait: &Wait, fields: wait::WaitFields) {
        if fields.why == 0 {
            self.out.text(&wait.why);
        }
    }

    fn name(&mut self, name: &'static str) -> u64 {
        u64::from(self.names.number(self.words, name))
    }
}

/// A cell's number beside another one.
fn cell_and(cell: CellId, other: u64) -> u64 {
    u64::from(cell.0) | other << 32
}

/// What a step is about as a number of its kind and two more.
fn about_numbers(about: About) -> (u64, [u64; 2]) {
    match about {
        About::All => (0, [0, 0]),
        About::Endpoint(endpoint) => (1, [endpoint.into(), 0]),
        About::Interface(ifindex) => (2, [ifindex.into(), 0]),
        About::Slot(slot) => (3, [slot.into(), 0]),
        About::Rows(rows) => (4, [rows as u64, 0]),
        About::Address(IpAddr::V4(address)) => (5, [address.to_bits().into(), 0]),
        About::Address(IpAddr::V6(address)) => {
            let bits = address.to_bits();
            (6, [(bits >> 64) as u64, bits as u64])
        }
    }
}

/// And back.
pub(super) fn about_of(tag: u8, [first, second]: [u64; 2]) -> Option<About> {
    Some(match tag {
        0 => About::All,
        1 => About::Endpoint(first as u16),
        2 => About::Interface(first as u32),
        3 => About::Slot(first as u32),
        4 => About::Rows(first as usize),
        5 => About::Address(IpAddr::V4((first as u32).into())),
        6 => About::Address(IpAddr::V6((u128::from(first) << 64 | u128::from(second)).into())),
        _ => return None,
    })
}
