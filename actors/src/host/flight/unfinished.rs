//! The message that is being handled, in a place of its own at the front: its record is written
//! when its handler returned, and a kill may come before.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use serde::{Deserialize, Serialize};

use super::{
    message::{cell_of, number},
    names::RingNames,
    words::{Words, put},
};
use crate::host::{CellId, EnvelopeId, Header, RootId, Time};

/// Words of that place; the first is the message's number, 0 if none is being handled.
pub(super) const UNFINISHED: Range<usize> = 32..40;

/// A message whose handler had not returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Its number.
    pub id: EnvelopeId,
    /// Its kind.
    pub kind: Arc<str>,
    /// Who sent it.
    pub from: Option<CellId>,
    /// Who handles it.
    pub to: CellId,
    /// The message whose handling led to it.
    pub cause: EnvelopeId,
    /// The outside event that began it all.
    pub root: RootId,
    /// When it was put into the mailbox.
    pub enqueued: Time,
    /// When its handler was called.
    pub started: Time,
}

/// Writes it down; its number comes last, and goes first when the next one comes.
pub(super) fn begin(words: &[AtomicU64], kind: u16, header: &Header, started: Time) {
    let numbers = [
        u64::from(kind),
        number(header.from) | u64::from(header.to.0) << 32,
        header.cause.0,
        header.root.0,
        header.enqueued.0,
        started.0,
    ];
    let Some((first, rest)) = words.get(UNFINISHED).and_then(|words| words.split_first()) else {
        return;
    };
    first.store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    rest.iter().zip(numbers).for_each(|(place, it)| place.store(it.to_le(), Ordering::Relaxed));
    first.store(header.id.0.to_le(), Ordering::Release);
}

/// Its handler returned.
pub(super) fn end(words: &[AtomicU64]) {
    put(words, UNFINISHED.start, 0);
}

/// What is being handled, or was when the writer ended.
pub(super) fn read<W: Words + ?Sized>(
    words: &W,
    names: &mut RingNames<'_, W>,
) -> Option<Unfinished> {
    let id = words.word(UNFINISHED.start);
    let [kind, cells, cause, root, enqueued, started] =
        std::array::from_fn(|index| words.word(UNFINISHED.start + 1 + index));
    fence(Ordering::Acquire);
    // The next one may have come meanwhile.
    (id > 0 && words.word(UNFINISHED.start) == id).then(|| Unfinished {
        id: EnvelopeId(id),
        kind: names.get(kind as u16),
        from: cell_of(cells as u32),
        to: CellId((cells >> 32) as u32),
        cause: EnvelopeId(cause),
        root: RootId(root),
        enqueued: Time(enqueued),
        started: Time(started),
    })
}
