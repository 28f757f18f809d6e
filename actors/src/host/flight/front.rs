//! The front of a ring: format version, whose life it is, and where everything else is.
//! Names and the unfinished message are also at the front; files of their own write them.

use std::{ops::Range, sync::atomic::AtomicU64};

use super::{
    layout::{FRONT_WORDS, NAMES, PLACE_WORDS},
    segment::{SEGMENT_WORDS_MIN, SEGMENTS},
    words::{Words, commit, put},
};
use crate::host::Time;

/// Where the number of the record that was begun last stands.
pub(super) const BEGUN: usize = 24;
/// Where the moment stands at which that life ended as it should, in nanoseconds since 1970; 0 before, and
/// for ever if it was killed.
pub(super) const ENDED: usize = 26;

/// The first word of a ring.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VOLVOXFR");
const VERSION: u64 = 3;
/// Words under the check, and where the check stands.
const CHECKED: usize = 17;
const VERSION_TEXT: (usize, usize) = (8, 4);
const BOOT_ID: (usize, usize) = (12, 5);

/// Which life a ring is of; written at its front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// Lives are counted in each state directory, from 1.
    pub life: u64,
    /// The process.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// The machine's boot; monotonic times of two lives compare only within one.
    pub boot_id: String,
    /// When it began, by the host's clock.
    pub started: Time,
    /// The same moment in nanoseconds since 1970.
    pub started_wall: u64,
}

/// Why some bytes are no ring, or no memory for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlightError {
    /// There is too little of it.
    #[error("a flight recorder needs at least {least} bytes, not {given}: give it more")]
    TooSmall {
        /// Bytes desired.
        least: usize,
        /// Bytes there are.
        given: usize,
    },
    /// It begins with something else.
    #[error("this is no flight recorder: name a file that an agent wrote, such as flight.ring")]
    NotARing,
    /// It is of another version.
    #[error("flight recorder of format {0}; this program reads format {VERSION}: use the other's")]
    Version(u64),
    /// The front does not match its check.
    #[error("the front of this flight recorder is damaged: nothing in it can be trusted")]
    Damaged,
}

/// Where things are in a ring of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) segments: u64,
    pub(super) segment_words: usize,
}

impl Geometry {
    pub(super) fn of(words: usize) -> Result<Self, FlightError> {
        // Places for waits take as much as the fourth part of a segment.
        let segment_words = words.saturating_sub(FRONT_WORDS) * 4 / (4 * SEGMENTS + 1);
        let geometry = Self { segments: SEGMENTS as u64, segment_words };
        if segment_words < SEGMENT_WORDS_MIN {
            let least = Self { segment_words: SEGMENT_WORDS_MIN, ..geometry }.segments().end * 8;
            return Err(FlightError::TooSmall { least, given: words * 8 });
        }
        Ok(geometry)
    }

    /// How many places there are for waits that have just begun.
    pub(super) fn places(self) -> usize {
        self.segment_words / 4 / PLACE_WORDS
    }

    /// Where one of those places is.
    pub(super) fn pending(self, index: usize) -> usize {
        FRONT_WORDS + index * PLACE_WORDS
    }

    /// The words of all segments.
    pub(super) fn segments(self) -> Range<usize> {
        let begin = self.pending(self.places());
        begin..begin + self.segments as usize * self.segment_words
    }

    /// Where the segment of a turn begins.
    pub(super) fn place(self, turn: u64) -> usize {
        self.segments().start + (turn % self.segments) as usize * self.segment_words
    }

    pub(super) fn bytes(self) -> u64 {
        self.segments().end as u64 * 8
    }
}

/// Makes memory a ring in which nothing is written yet.
pub(super) fn write(words: &[AtomicU64], birth: &Birth) -> Result<Geometry, FlightError> {
    let geometry = Geometry::of(words.len())?;
    // What may be there already goes first: a front that is not whole must not be taken for one.
    commit(words, 0, 0);
    (1..NAMES.start).for_each(|at| put(words, at, 0));
    (0..geometry.segments).for_each(|turn| put(words, geometry.place(turn), 0));
    put(words, 1, VERSION);
    put(words, 2, geometry.segments);
    put(words, 3, geometry.segment_words as u64);
    put(words, 4, birth.life);
    put(words, 5, u64::from(birth.pid));
    put(words, 6, birth.started_wall);
    put(words, 7, birth.started.0);
    put_text(words, VERSION_TEXT, &birth.version);
    put_text(words, BOOT_ID, &birth.boot_id);
    put(words, CHECKED, check(words));
    commit(words, 0, MAGIC);
    Ok(geometry)
}

/// Notes that this life ends as it should, at that moment in nanoseconds since 1970.
pub fn end(words: &[AtomicU64], at: u64) {
    commit(words, ENDED, at);
}

/// What is written at the front.
pub(super) fn read<W: Words + ?Sized>(words: &W) -> Result<(Birth, Geometry), FlightError> {
    if words.word(0) != MAGIC {
        return Err(FlightError::NotARing);
    }
    if words.word(1) != VERSION {
        return Err(FlightError::Version(words.word(1)));
    }
    let (segments, segment_words) = (words.word(2), words.word(3));
    let pid = u32::try_from(words.word(5)).map_err(|_| FlightError::Damaged)?;
    let segment_words = usize::try_from(segment_words).map_err(|_| FlightError::Damaged)?;
    // A file that was cut short has fewer segments than it says, never more.
    let sound = (SEGMENT_WORDS_MIN..=1 << 32).contains(&segment_words)
        && segments == SEGMENTS as u64
        && words.word(CHECKED) == check(words);
    if !sound {
        return Err(FlightError::Damaged);
    }
    let birth = Birth {
        life: words.word(4),
        pid,
        version: text(words, VERSION_TEXT),
        boot_id: text(words, BOOT_ID),
        started_wall: words.word(6),
        started: Time(words.word(7)),
    };
    Ok((birth, Geometry { segments, segment_words }))
}

fn check<W: Words + ?Sized>(words: &W) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    (1..CHECKED).for_each(|at| hasher.update(&words.word(at).to_le_bytes()));
    u64::from(hasher.finalize())
}

fn put_text(words: &[AtomicU64], (at, room): (usize, usize), text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(room * 8, 0);
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        put(words, at + index, word.word(0));
    }
}

fn text<W: Words + ?Sized>(words: &W, (at, room): (usize, usize)) -> String {
    let bytes: Vec<u8> = (at..at + room).flat_map(|at| words.word(at).to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
