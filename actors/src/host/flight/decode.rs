//! Decodes the content of a record. The reader finds records and checks that they are whole.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    RecordedWait, What,
    encode::{FAILED, RecordKind, WRITE, about_of},
    fields::Content,
    message::{MessageFields, cell_of},
    names::RingNames,
    segment::Base,
    wait::{self, EncodedWhom},
    words::Words,
};
use crate::host::{CellId, EnvelopeId, RootId, Time};

/// Reads what an [`Encoder`](super::encode::Encoder) wrote; `None` where it did not write that.
pub(super) struct Decoder<'a, 'w, W: ?Sized> {
    pub(super) names: &'a mut RingNames<'w, W>,
    pub(super) base: &'a Base,
    pub(super) content: Content<'a>,
}

impl<W: Words + ?Sized> Decoder<'_, '_, W> {
    pub(super) fn read(&mut self, kind: RecordKind) -> Option<What> {
        Some(match kind {
            RecordKind::Root => {
                let [root, at] = self.content.numbers()?;
                What::Root { root: RootId(root), what: self.text()?, at: Time(at) }
            }
            RecordKind::Spawned => {
                let [cells, at] = self.content.numbers()?;
                let (cell, parent) = (cell(cells), cell_of((cells >> 32) as u32));
                What::Spawned { cell, name: self.text()?, parent, at: Time(at) }
            }
            RecordKind::Message => {
                let numbers = self.content.numbers()?;
                self.message(MessageFields::of_narrow(numbers, self.base)?)
            }
            RecordKind::WideMessage => {
                let numbers = self.content.numbers()?;
                self.message(MessageFields::of_wide(numbers)?)
            }
            RecordKind::Crash => {
                let [first, at] = self.content.numbers()?;
                let (cell, kind) = (cell(first), self.name(first >> 32));
                What::Crash { cell, kind, cause: self.text()?, at: Time(at) }
            }
            RecordKind::State => {
                let [first, at] = self.content.numbers()?;
                let (from, to) = (self.name(first >> 32), self.name(first >> 48));
                What::State { cell: cell(first), from, to, why: self.text()?, at: Time(at) }
            }
            RecordKind::WaitBegan => What::WaitBegan(self.wait()?),
            RecordKind::Waited => {
                let numbers = self.content.numbers()?;
                self.waited(wait::WaitFields::of_narrow(numbers, self.base))?
            }
            RecordKind::WideWaited => {
                let numbers = self.content.numbers()?;
                self.waited(wait::WaitFields::of_wide(numbers))?
            }
            RecordKind::Kernel => self.kernel()?,
            RecordKind::Phase => {
                let [started, ended] = self.content.numbers()?.map(Time);
                What::Phase { name: self.text()?, started, ended }
            }
            RecordKind::Stopped => {
                let [first, at] = self.content.numbers()?;
                What::Stopped { cell: cell(first), at: Time(at) }
            }
        })
    }

    fn message(&mut self, fields: MessageFields) -> What {
        let MessageFields { kind, id, from, to, cause, root, enqueued, started, ended, outcome } =
            fields;
        let kind = self.names.get(kind);
        What::Message { id, kind, from, to, cause, root, enqueued, started, ended, outcome }
    }

    /// A wait that begins.
    pub(super) fn wait(&mut self) -> Option<RecordedWait> {
        let numbers = self.content.numbers()?;
        self.recorded(wait::WaitFields::of_began(numbers))
    }

    fn waited(&mut self, (fields, end): (wait::WaitFields, wait::WaitEnd)) -> Option<What> {
        let wait = self.recorded(fields)?;
        Some(What::Waited { wait, ended: end.at, answered: end.answered })
    }

    fn recorded(&mut self, fields: wait::WaitFields) -> Option<RecordedWait> {
        let wait::WaitFields { wait, who, whom, why, since, until } = fields;
        let (whom, whom_cell) = match whom {
            EncodedWhom::Cell(cell) => (cell.to_string().into(), Some(cell)),
            EncodedWhom::Port(port) => (self.names.get(port), None),
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
