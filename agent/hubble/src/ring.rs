//! The ring of flows: the datapath's records as they came, in a mapped file that outlives a kill.
//!
//! One thread writes; anybody reads, without a lock. A slot's first word is written last: it is the
//! record's number plus one, and 0 while the slot is being written. So a record that a kill cut off is
//! not there, and a reader who is overtaken notices.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use volvox_system::mapping::Mapping;

use crate::messages::now;

/// What the file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"vxflows1");
/// Words before the first slot.
const FRONT: usize = 64;
/// Words of a slot: four that say what it is, and the record.
const SLOT: usize = 32;
const SLOT_FRONT: usize = 4;
/// The longest record, bytes: a trace with as much of a packet as is captured is shorter.
pub const RECORD_MAX: usize = (SLOT - SLOT_FRONT) * size_of::<u64>();
/// Places of words in the front.
const AT_MAGIC: usize = 0;
const AT_SLOTS: usize = 1;
const AT_SEED: usize = 2;
/// A record of the datapath,
const KIND_RECORD: u64 = 9;
/// and one of records that are lost.
const KIND_LOST: u64 = 2;

/// Why the ring has no file.
#[derive(Debug, thiserror::Error)]
#[error("flows are kept in memory only, and lost with this process: {step} {}: {cause}; {remedy}", .path.display())]
pub struct RingFileError {
    step: &'static str,
    path: PathBuf,
    cause: io::Error,
    remedy: &'static str,
}

/// What is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A record of the datapath.
    Record {
        /// The rules that decided before, 0 if none did.
        cookie: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Records that are not there.
    Lost {
        /// Where: [`crate::messages::lost`].
        source: u32,
        /// How many; 0 if nobody can know.
        count: u64,
        /// When the first was lost.
        first: u64,
    },
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number, one after the other for as long as the file lives.
    pub number: u64,
    /// When it was read, nanoseconds since 1970.
    pub time: u64,
    /// CPU that wrote it.
    pub cpu: u32,
    /// What it is.
    pub content: Content,
}

/// The ring, for those who read.
pub struct Ring {
    mapping: Mapping,
    slots: u64,
    /// Number of the next record.
    next: AtomicU64,
    /// Number of the first record of this life.
    first: u64,
    seed: u64,
}

/// The one who writes.
pub struct RingWriter(Arc<Ring>);

/// Opens the ring at a path, with what an earlier life left in it, for so many flows: 2^n - 1. Without a
/// file it is in memory, and the reason is returned beside.
pub fn open(path: &Path, capacity: u32) -> io::Result<(RingWriter, Option<RingFileError>)> {
    let slots = u64::from(capacity) + 1;
    let bytes = (FRONT + slots as usize * SLOT) * size_of::<u64>();
    let (mapping, trouble) = match map(path, bytes, slots) {
        Ok(mapping) => (mapping, None),
        Err(trouble) => (Mapping::anonymous(bytes)?, Some(trouble)),
    };
    let words = mapping.words();
    if words[AT_MAGIC].load(Ordering::Relaxed) != MAGIC {
        words[AT_SLOTS].store(slots, Ordering::Relaxed);
        words[AT_SEED].store(random()?, Ordering::Relaxed);
        words[AT_MAGIC].store(MAGIC, Ordering::Release);
    }
    let seed = words[AT_SEED].load(Ordering::Relaxed);
    let next = found(&mapping, slots);
    let ring = Ring { mapping, slots, next: AtomicU64::new(next), first: next, seed };
    Ok((RingWriter(Arc::new(ring)), trouble))
}

/// Number of the next record, by those that are there. A slot whose number cannot be its own is emptied.
fn found(mapping: &Mapping, slots: u64) -> u64 {
    let words = mapping.words();
    let mut next = 0;
    for slot in 0..slots {
        let at = FRONT + slot as usize * SLOT;
        let commit = words[at].load(Ordering::Acquire);
        // No file lives long enough for that.
        let is_own = commit > 0 && (commit - 1) % slots == slot && commit < 1 << 60;
        if is_own {
            next = next.max(commit);
        } else {
            words[at].store(0, Ordering::Relaxed);
        }
    }
    next
}

fn map(path: &Path, bytes: usize, slots: u64) -> Result<Mapping, RingFileError> {
    let trouble =
        |step, remedy| move |cause| RingFileError { step, path: path.to_owned(), cause, remedy };
    let is_ours = File::open(path).is_ok_and(|file| is_ring(file, bytes as u64, slots));
    if !is_ours {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(trouble("remove", "move it away")(error));
            }
            _ => {}
        }
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o640)
        .open(path)
        .map_err(trouble("open", "make --state-dir writable"))?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP) => {
            let filled = io::copy(&mut io::repeat(0).take(bytes as u64), &mut &file);
            filled.map_err(trouble("fill", "make room, or keep fewer flows"))?;
        }
        Err(error) => {
            drop(file);
            let _ = fs::remove_file(path);
            let remedy = "make room there, or lower --hubble-event-buffer-capacity";
            return Err(trouble("allocate", remedy)(error.into()));
        }
    }
    Mapping::of_exposed_file(file, bytes).map_err(trouble("map", "see the limits of memory"))
}

fn is_ring(mut file: File, bytes: u64, slots: u64) -> bool {
    let mut front = [0; 16];
    let is_size = file.metadata().is_ok_and(|it| it.is_file() && it.len() == bytes);
    if !is_size || Read::read_exact(&mut file, &mut front).is_err() {
        return false;
    }
    let word = |at: usize| u64::from_le_bytes(front[at..at + 8].try_into().unwrap_or_default());
    word(0) == MAGIC && word(8) == slots
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

impl RingWriter {
    /// The ring itself.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.0
    }

    /// Keeps a record; what is longer than [`RECORD_MAX`] is cut, which the datapath's are not.
    pub fn record(&mut self, time: u64, cpu: u32, cookie: u32, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(RECORD_MAX)];
        let mut words = [0_u64; SLOT - SLOT_FRONT];
        for (word, piece) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            *word = u64::from_le_bytes(whole);
        }
        let used = bytes.len().div_ceil(8);
        let about = u64::from(cpu) << 32 | KIND_RECORD << 16 | bytes.len() as u64;
        self.put(time, about, cookie.into(), &words[..used]);
    }

    /// Keeps that records are lost.
    pub fn lost(&mut self, time: u64, cpu: u32, source: u32, count: u64, first: u64) {
        let about = u64::from(cpu) << 32 | KIND_LOST << 16;
        self.put(time, about, source.into(), &[count, first]);
    }

    fn put(&mut self, time: u64, about: u64, more: u64, record: &[u64]) {
        let ring = &*self.0;
        let number = ring.next.load(Ordering::Relaxed);
        let slot = ring.slot(number);
        slot[0].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot[1].store(time, Ordering::Relaxed);
        slot[2].store(about, Ordering::Relaxed);
        slot[3].store(more, Ordering::Relaxed);
        for (place, word) in slot[SLOT_FRONT..].iter().zip(record) {
            place.store(*word, Ordering::Relaxed);
        }
        slot[0].store(number + 1, Ordering::Release);
        ring.next.store(number + 1, Ordering::Release);
    }
}

impl Ring {
    /// One that keeps nothing.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn in_memory(capacity: u64) -> Self {
        let slots = capacity + 1;
        let bytes = (FRONT + slots as usize * SLOT) * size_of::<u64>();
        let mapping = Mapping::anonymous(bytes).expect("memory");
        Self { mapping, slots, next: AtomicU64::new(0), first: 0, seed: 1 }
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = FRONT + (number % self.slots) as usize * SLOT;
        &self.mapping.words()[at..at + SLOT]
    }

    /// Numbers of the oldest record that can be read, and of the next that will be written.
    pub fn bounds(&self) -> (u64, u64) {
        let next = self.next.load(Ordering::Acquire);
        (next.saturating_sub(self.slots - 1), next)
    }

    /// For how many there is room.
    pub fn capacity(&self) -> u64 {
        self.slots - 1
    }

    /// How many this life wrote.
    pub fn seen(&self) -> u64 {
        self.next.load(Ordering::Acquire) - self.first
    }

    /// Two random numbers that stay the record's.
    pub fn marks(&self, number: u64) -> (u64, u64) {
        let first = mix(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (first, mix(first ^ number))
    }

    /// A record, if it is there: not if it is overwritten, or was being written when a life ended.
    pub fn get(&self, number: u64) -> Option<Stored> {
        let slot = self.slot(number);
        if slot[0].load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let [time, about, more] = [1, 2, 3].map(|at| slot[at].load(Ordering::Relaxed));
        let length = (about as usize & 0xffff).min(RECORD_MAX);
        let kind = about >> 16 & 0xffff;
        let words = if kind == KIND_LOST { 2 } else { length.div_ceil(8) };
        let mut read = [0_u64; SLOT - SLOT_FRONT];
        for (word, place) in read.iter_mut().zip(&slot[SLOT_FRONT..]).take(words) {
            *word = place.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if slot[0].load(Ordering::Relaxed) != number + 1 {
            return None;
        }
        let content = match kind {
            KIND_RECORD => {
                let mut bytes: Vec<u8> =
                    read[..words].iter().flat_map(|word| word.to_le_bytes()).collect();
                bytes.truncate(length);
                Content::Record { cookie: more as u32, bytes }
            }
            KIND_LOST => Content::Lost { source: more as u32, count: read[0], first: read[1] },
            _ => return None,
        };
        Some(Stored { number, time, cpu: (about >> 32) as u32, content })
    }

    /// When a record was written, if it is there.
    pub fn time(&self, number: u64) -> Option<u64> {
        let slot = self.slot(number);
        let time = slot[1].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (slot[0].load(Ordering::Acquire) == number + 1).then_some(time)
    }

    /// How many records a second there were in the last minute, or in the time that is kept if that is
    /// shorter.
    pub fn rate(&self) -> f64 {
        let (oldest, next) = self.bounds();
        let minute = now().saturating_sub(60_000_000_000);
        let (mut low, mut high) = (oldest, next);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.time(middle) {
                Some(time) if time >= minute => high = middle,
                _ => low = middle + 1,
            }
        }
        let Some(first) = (low < next).then(|| self.time(low)).flatten() else { return 0.0 };
        let span = if low == oldest { now().saturating_sub(first) } else { 60_000_000_000 };
        let seconds = (span as f64 / 1e9).max(1e-3);
        (next - low) as f64 / seconds
    }
}

/// Spreads the bits of a number over all of it.
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests;
