//! The message that is being handled, in a place of its own at the front: its record is written
//! when its handler returned, and a kill may come before.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

use serde::{Deserialize, Serialize};

use super::{
    layout::UNFINISHED,
    message::MessageFields,
    names::RingNames,
    words::{Words, put},
};
use crate::host::{CellId, EnvelopeId, Header, Outcome, RootId, Time};

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
    let fields = MessageFields::of(kind, header, started, started, Outcome::Handled);
    let [id, cells, cause, root, enqueued, started, ..] = fields.wide();
    let numbers = [u64::from(kind), cells, cause, root, enqueued, started];
    let Some((first, rest)) = words.get(UNFINISHED).and_then(|words| words.split_first()) else {
        return;
    };
    first.store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    rest.iter().zip(numbers).for_each(|(place, it)| place.store(it.to_le(), Ordering::Relaxed));
    first.store(id.to_le(), Ordering::Release);
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
    if id == 0 || words.word(UNFINISHED.start) != id {
        return None;
    }
    // It has neither an end nor an outcome: what stands for them is not read.
    let wide = [id, cells, cause, root, enqueued, started, started, 0];
    let MessageFields { id, from, to, cause, root, enqueued, started, .. } =
        MessageFields::of_wide(wide)?;
    let kind = names.get(kind as u16);
    Some(Unfinished { id, kind, from, to, cause, root, enqueued, started })
}
