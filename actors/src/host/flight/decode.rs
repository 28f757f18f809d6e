//! Decodes the content of a record. The reader finds records and checks that they are whole.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    RecordedWait, What,
    encode::{FAILED, Kind, WRITE, about_of},
    fields::Content,
    message::{Fields, cell_of},
    names::Known,
    segment::Base,
    wait::{self, Whom},
    words::Words,
};
use crate::host::{CellId, EnvelopeId, RootId, Time};

/// Reads what an [`Encoder`](super::encode::Encoder) wrote; `None` where it did not write that.
pub(super) struct Decoder<'a, 'w, W: ?Sized> {
    pub(super) names: &'a mut Known<'w, W>,
    pub(super) base: &'a Base,
    pub(super) content: Content<'a>,
}

impl<W: Words + ?Sized> Decoder<'_, '_, W> {
    pub(super) fn read(&mut self, kind: Kind) -> Option<What> {
        Some(match kind {
            Kind::Root => {
                let [root, at] = self.content.numbers()?;
                What::Root { root: RootId(root), what: self.text()?, at: Time(at) }
            }
            Kind::Spawned => {
                let [cells, at] = self.content.numbers()?;
                let (cell, parent) = (cell(cells), cell_of((cells >> 32) as u32));
                What::Spawned { cell, name: self.text()?, parent, at: Time(at) }
            }
            Kind::Message => {
                let numbers = self.content.numbers()?;
                self.message(Fields::of_narrow(numbers, self.base)?)
            }
            Kind::WideMessage => {
                let numbers = self.content.numbers()?;
                self.message(Fields::of_wide(numbers)?)
            }
            Kind::Crash => {
                let [first, at] = self.content.numbers()?;
                let (cell, kind) = (cell(first), self.name(first >> 32));
                What::Crash { cell, kind, cause: self.text()?, at: Time(at) }
            }
            Kind::State => {
                let [first, at] = self.content.numbers()?;
                let (from, to) = (self.name(first >> 32), self.name(first >> 48));
                What::State { cell: cell(first), from, to, why: self.text()?, at: Time(at) }
            }
            Kind::WaitBegan => What::WaitBegan(self.wait()?),
            Kind::Waited => {
                let numbers = self.content.numbers()?;
                self.waited(wait::Fields::of_narrow(numbers, self.base))?
            }
            Kind::WideWaited => {
                let numbers = self.content.numbers()?;
                self.waited(wait::Fields::of_wide(numbers))?
            }
            Kind::Kernel => self.kernel()?,
            Kind::Phase => {
                let [started, ended] = self.content.numbers()?.map(Time);
                What::Phase { name: self.text()?, started, ended }
            }
            Kind::Stopped => {
                let [first, at] = self.content.numbers()?;
                What::Stopped { cell: cell(first), at: Time(at) }
            }
        })
    }

    fn message(&mut self, fields: Fields) -> What {
        let Fields { kind, id, from, to, cause, root, enqueued, started, ended, outcome } = fields;
        let kind = self.names.get(kind);
        What::Message { id, kind, from, to, cause, root, enqueued, started, ended, outcome }
    }

    /// A wait that begins.
    pub(super) fn wait(&mut self) -> Option<RecordedWait> {
        let numbers = self.content.numbers()?;
        self.recorded(wait::Fields::of_began(numbers))
    }

    fn waited(&mut self, (fields, end): (wait::Fields, wait::End)) -> Option<What> {
        let wait = self.recorded(fields)?;
        Some(What::Waited { wait, ended: end.at, answered: end.answered })
    }

    fn recorded(&mut self, fields: wait::Fields) -> Option<RecordedWait> {
        let wait::Fields { wait, who, whom, why, since, until } = fields;
        let (whom, whom_cell) = match whom {
            Whom::Cell(cell) => (cell.to_string().into(), Some(cell)),
            Whom::Port(port) => (self.names.get(port), None),
        };
        let why = if why == 0 { self.text()? } else { self.names.get(why) };
        Some(RecordedWait { wait, who, whom, whom_cell, why, since, until })
    }

    fn kernel(&mut self) -> Option<What> {
        let [first, cause, root, submitted, started, ended] = self.content.numbers()?;
        let about = about_of((first >> 48) as u8, self.content.numbers()?)?;
        let flags = first >> 56;
        Some(What::Kernel {
            cell: cell_of(first as u32),
            cause: EnvelopeId(cause),
            root: RootId(root),
            op: self.name(first >> 32),
            about: about.to_string().into(),
            write: flags & WRITE != 0,
            submitted: Time(submitted),
            started: Time(started),
            ended: Time(ended),
            failed: if flags & FAILED == 0 { None } else { Some(self.text()?) },
        })
    }

    /// The name whose number stands in the lowest bits.
    fn name(&mut self, number: u64) -> Arc<str> {
        self.names.get(number as u16)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        self.content.text().map(Into::into)
    }
}

fn cell(first: u64) -> CellId {
    CellId(first as u32)
}

/// Puts the name of an actor where only its number stands.
pub(super) fn name_whom(wait: &mut RecordedWait, cells: &BTreeMap<CellId, Arc<str>>) {
    if let Some(name) = wait.whom_cell.and_then(|cell| cells.get(&cell)) {
        wait.whom = Arc::clone(name);
    }
}
