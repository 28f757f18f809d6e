use std::{collections::BTreeMap, sync::Arc};

use super::{
    What,
    encode::{FAILED, Kind, WRITE, about_of},
    fields::Content,
    message::{Fields, cell_of},
    names::Known,
    segment::Base,
    words::Words,
};
use crate::{
    host::{CellId, EnvelopeId, RootId, WaitId},
    ports::Time,
};

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
            Kind::WaitBegan => self.wait()?,
            Kind::WaitEnded => {
                let [wait, at] = self.content.numbers()?;
                What::WaitEnded { wait: WaitId(wait >> 1), answered: wait & 1 == 1, at: Time(at) }
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

    fn wait(&mut self) -> Option<What> {
        let [wait, cells, names, since, until] = self.content.numbers()?;
        let (who, whom_cell) = (cell_of(cells as u32), cell_of((cells >> 32) as u32));
        let whom = match whom_cell {
            Some(cell) => cell.to_string().into(),
            None => self.name(names),
        };
        let why = if names as u32 >> 16 == 0 { self.text()? } else { self.name(names >> 16) };
        let (since, until) = (Time(since), Time(until));
        Some(What::WaitBegan { wait: WaitId(wait), who, whom, whom_cell, why, since, until })
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

/// Puts the names of actors where only their numbers stand.
pub(super) fn name_cells(whats: &mut [super::Event], cells: &BTreeMap<CellId, Arc<str>>) {
    for event in whats {
        if let What::WaitBegan { whom, whom_cell: Some(cell), .. } = &mut event.what
            && let Some(name) = cells.get(cell)
        {
            *whom = Arc::clone(name);
        }
    }
}
