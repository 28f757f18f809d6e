use std::{collections::BTreeMap, sync::Arc};

use super::{
    What,
    bytes::Content,
    encode::{Kind, OUTCOMES},
    names::Known,
    words::Words,
};
use crate::{
    host::{CellId, EnvelopeId, RootId, WaitId},
    ports::Time,
};

/// Reads what an [`Encoder`](super::encode::Encoder) wrote; `None` where it did not write that.
pub(super) struct Decoder<'a, 'w, W: ?Sized> {
    pub(super) names: &'a mut Known<'w, W>,
    pub(super) started: Time,
    pub(super) content: Content<'a>,
}

impl<W: Words + ?Sized> Decoder<'_, '_, W> {
    pub(super) fn read(&mut self, kind: Kind) -> Option<What> {
        Some(match kind {
            Kind::Root => What::Root { root: self.root()?, what: self.text()?, at: self.time()? },
            Kind::Spawned => What::Spawned {
                cell: self.cell()?,
                name: self.text()?,
                parent: self.maybe()?,
                at: self.time()?,
            },
            Kind::Message => self.message()?,
            Kind::Crash => What::Crash {
                cell: self.cell()?,
                kind: self.name()?,
                cause: self.text()?,
                at: self.time()?,
            },
            Kind::State => What::State {
                cell: self.cell()?,
                from: self.name()?,
                to: self.name()?,
                why: self.text()?,
                at: self.time()?,
            },
            Kind::WaitBegan => self.wait()?,
            Kind::WaitEnded => What::WaitEnded {
                wait: WaitId(self.content.number()?),
                answered: self.content.byte()? != 0,
                at: self.time()?,
            },
            Kind::Kernel => self.kernel()?,
            Kind::Phase => {
                let (name, started) = (self.text()?, self.time()?);
                What::Phase { name, started, ended: self.after(started)? }
            }
            Kind::Stopped => What::Stopped { cell: self.cell()?, at: self.time()? },
        })
    }

    fn message(&mut self) -> Option<What> {
        let id = self.content.number()?;
        let kind = self.name()?;
        let (from, to) = (self.maybe()?, self.cell()?);
        // The way there and back is the same: cause = id - (id - cause).
        let cause = id.wrapping_sub(self.content.difference(0)?);
        let root = self.root()?;
        let enqueued = self.time()?;
        let started = self.after(enqueued)?;
        let ended = self.after(started)?;
        let outcome = *OUTCOMES.get(usize::from(self.content.byte()?))?;
        let (id, cause) = (EnvelopeId(id), EnvelopeId(cause));
        Some(What::Message { id, kind, from, to, cause, root, enqueued, started, ended, outcome })
    }

    fn wait(&mut self) -> Option<What> {
        let wait = WaitId(self.content.number()?);
        let (who, whom_cell) = (self.maybe()?, self.maybe()?);
        let whom = match whom_cell {
            Some(cell) => cell.to_string().into(),
            None => self.name()?,
        };
        let (why, since) = (self.text()?, self.time()?);
        let until = self.after(since)?;
        Some(What::WaitBegan { wait, who, whom, whom_cell, why, since, until })
    }

    fn kernel(&mut self) -> Option<What> {
        let (cell, cause) = (self.maybe()?, EnvelopeId(self.content.number()?));
        let (root, op, about) = (self.root()?, self.name()?, self.text()?);
        let flags = self.content.byte()?;
        let submitted = self.time()?;
        let started = self.after(submitted)?;
        let ended = self.after(started)?;
        let failed = if flags & 2 == 0 { None } else { Some(self.text()?) };
        let write = flags & 1 == 1;
        Some(What::Kernel {
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
        })
    }

    fn name(&mut self) -> Option<Arc<str>> {
        let number = self.content.number()?;
        Some(self.names.get(number))
    }

    fn text(&mut self) -> Option<Arc<str>> {
        self.content.text().map(Into::into)
    }

    fn root(&mut self) -> Option<RootId> {
        self.content.number().map(RootId)
    }

    fn cell(&mut self) -> Option<CellId> {
        u32::try_from(self.content.number()?).ok().map(CellId)
    }

    fn maybe(&mut self) -> Option<Option<CellId>> {
        match self.content.number()?.checked_sub(1) {
            None => Some(None),
            Some(cell) => u32::try_from(cell).ok().map(|cell| Some(CellId(cell))),
        }
    }

    fn time(&mut self) -> Option<Time> {
        self.content.difference(self.started.0).map(Time)
    }

    fn after(&mut self, from: Time) -> Option<Time> {
        from.0.checked_add(self.content.number()?).map(Time)
    }
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
