//! Which words of a ring are whose: a front, in which the message that is being handled and names have
//! their places, and behind it places for waits that have just begun.

use std::ops::Range;

/// Words of the front: what a ring is, then names.
pub(super) const FRONT_WORDS: usize = 2048;

/// Where the number of bytes of names stands.
pub(super) const NAMES_USED: usize = 25;

/// Words of the message that is being handled; the first is its number, 0 if there is none.
pub(super) const UNFINISHED: Range<usize> = 32..40;

/// Words in which names are kept.
pub(super) const NAMES: Range<usize> = UNFINISHED.end..FRONT_WORDS;

/// Words of a place for a wait: a line of the processor's cache.
pub(super) const PLACE_WORDS: usize = 8;
