use std::sync::atomic::AtomicU64;

use super::{bytes::Bytes, names::Names};
use crate::{
    host::{CellId, Outcome, Record, Wait, Whom},
    ports::Time,
};

/// Kinds of records. What can be carried over begins with the number of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Root = 1,
    Spawned,
    Message,
    Crash,
    State,
    WaitBegan,
    WaitEnded,
    Kernel,
    Phase,
    Stopped,
}

impl Kind {
    pub(super) fn of(number: u8) -> Option<Self> {
        let all = [
            Self::Root,
            Self::Spawned,
            Self::Message,
            Self::Crash,
            Self::State,
            Self::WaitBegan,
            Self::WaitEnded,
            Self::Kernel,
            Self::Phase,
            Self::Stopped,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Outcomes by their number in a record.
pub(super) const OUTCOMES: [Outcome; 5] =
    [Outcome::Handled, Outcome::Crashed, Outcome::Absorbed, Outcome::Refused, Outcome::Discarded];

/// Writes records as bytes, all but their number.
pub(super) struct Encoder<'a> {
    pub(super) names: &'a mut Names,
    pub(super) words: &'a [AtomicU64],
    /// Times are written as distances from it.
    pub(super) started: Time,
    pub(super) out: &'a mut Bytes,
}

impl Encoder<'_> {
    pub(super) fn write(&mut self, record: &Record<'_>) -> Kind {
        match *record {
            Record::Root { root, what, at } => {
                self.out.number(root.0);
                self.out.text(what);
                self.time(at);
                Kind::Root
            }
            Record::Spawned { cell, name, parent, at } => {
                self.cell(cell);
                self.out.text(name);
                self.maybe(parent);
                self.time(at);
                Kind::Spawned
            }
            Record::Message { header, started, ended, outcome } => {
                self.out.number(header.id.0);
                self.name(header.kind);
                self.maybe(header.from);
                self.cell(header.to);
                self.out.difference(header.id.0, header.cause.0);
                self.out.number(header.root.0);
                self.time(header.enqueued);
                self.span(header.enqueued, started);
                self.span(started, ended);
                let outcome = OUTCOMES.iter().position(|it| *it == outcome).unwrap_or_default();
                self.out.byte(outcome as u8);
                Kind::Message
            }
            Record::Crash { cell, kind, cause, at } => {
                self.cell(cell);
                self.name(kind);
                self.out.text(cause);
                self.time(at);
                Kind::Crash
            }
            Record::State { cell, from, to, why, at } => {
                self.cell(cell);
                self.name(from);
                self.name(to);
                self.out.text(why);
                self.time(at);
                Kind::State
            }
            Record::WaitBegan { wait } => {
                self.wait(wait);
                Kind::WaitBegan
            }
            Record::WaitEnded { wait, answered, at } => {
                self.out.number(wait.id.0);
                self.out.byte(u8::from(answered));
                self.time(at);
                Kind::WaitEnded
            }
            Record::Kernel {
                cell,
                cause,
                root,
                op,
                about,
                write,
                submitted,
                started,
                ended,
                failed,
            } => {
                self.maybe(cell);
                self.out.number(cause.0);
                self.out.number(root.0);
                self.name(op);
                self.out.shown(&about);
                self.out.byte(u8::from(write) | u8::from(failed.is_some()) << 1);
                self.time(submitted);
                self.span(submitted, started);
                self.span(started, ended);
                if let Some(failed) = failed {
                    self.out.text(failed);
                }
                Kind::Kernel
            }
            Record::Phase { name, started, ended } => {
                self.out.text(name);
                self.time(started);
                self.span(started, ended);
                Kind::Phase
            }
            Record::Stopped { cell, at } => {
                self.cell(cell);
                self.time(at);
                Kind::Stopped
            }
        }
    }

    fn wait(&mut self, wait: &Wait) {
        self.out.number(wait.id.0);
        self.maybe(wait.who);
        match wait.whom {
            Whom::Cell(cell) => self.maybe(Some(cell)),
            Whom::Port(port) => {
                self.maybe(None);
                self.name(port);
            }
        }
        self.out.text(&wait.why);
        self.time(wait.since);
        self.span(wait.since, wait.until);
    }

    fn name(&mut self, name: &'static str) {
        let number = self.names.number(self.words, name);
        self.out.number(number);
    }

    fn cell(&mut self, cell: CellId) {
        self.out.number(u64::from(cell.0));
    }

    /// A cell, or none: as its number and one, or 0.
    fn maybe(&mut self, cell: Option<CellId>) {
        self.out.number(cell.map_or(0, |cell| u64::from(cell.0) + 1));
    }

    fn time(&mut self, time: Time) {
        self.out.difference(time.0, self.started.0);
    }

    fn span(&mut self, from: Time, to: Time) {
        self.out.number(to.0.saturating_sub(from.0));
    }
}
