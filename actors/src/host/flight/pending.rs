//! Waits that have just begun, each in a place of its own between the front and the segments. Most
//! end within milliseconds and are told of then, in one record; whoever stands here when the writer
//! ended was still waiting.

use std::sync::atomic::AtomicU64;

use super::{
    RecordedWait,
    decode::Decoder,
    encode::RecordKind,
    fields::Content,
    front::{Birth, Geometry},
    layout::PLACE_WORDS,
    names::RingNames,
    segment::{Base, RecordHeader},
    words::{Words, put},
};
use crate::host::WaitId;

/// The places, and who stands there.
pub(super) struct Pending {
    geometry: Geometry,
    salt: u64,
    /// Numbers of waits; 0 is a free place.
    waits: Box<[u64]>,
}

impl Pending {
    pub(super) fn new(geometry: Geometry, birth: &Birth) -> Self {
        let waits = vec![0; geometry.places()].into();
        Self { geometry, salt: salt(birth), waits }
    }

    /// Puts a wait into its place; false if another one stands there, or it is too small.
    pub(super) fn begin(&mut self, words: &[AtomicU64], wait: WaitId, content: &[u64]) -> bool {
        let index = self.index(wait);
        if self.waits[index] != 0 || content.len() >= PLACE_WORDS {
            return false;
        }
        self.waits[index] = wait.0;
        let label = RecordHeader {
            words: content.len() as u16,
            kind: RecordKind::WaitBegan as u8,
            flags: 0,
        };
        label.write(words, self.salt, self.geometry.pending(index), content);
        true
    }

    /// Whether it stands in its place.
    pub(super) fn holds(&self, wait: WaitId) -> bool {
        self.waits[self.index(wait)] == wait.0
    }

    /// Takes it out of its place, if it stands there.
    pub(super) fn end(&mut self, words: &[AtomicU64], wait: WaitId) {
        if self.holds(wait) {
            let index = self.index(wait);
            self.waits[index] = 0;
            put(words, self.geometry.pending(index), 0);
        }
    }

    fn index(&self, WaitId(wait): WaitId) -> usize {
        (wait % self.waits.len() as u64) as usize
    }
}

/// Who stands there, in the order of their numbers.
pub(super) fn read<W: Words + ?Sized>(
    words: &W,
    geometry: Geometry,
    birth: &Birth,
    names: &mut RingNames<'_, W>,
) -> Vec<RecordedWait> {
    let (salt, base) = (salt(birth), Base::default());
    let mut waits: Vec<_> = (0..geometry.places())
        .filter_map(|index| {
            let (_, content) = RecordHeader::read(words, salt, geometry.pending(index))?;
            Decoder { names, base: &base, content: Content(&content) }.wait()
        })
        .collect();
    waits.sort_unstable_by_key(|wait| wait.wait);
    waits
}

/// What was left there by another life does not pass for this one's.
fn salt(birth: &Birth) -> u64 {
    birth.started_wall ^ birth.life
}
