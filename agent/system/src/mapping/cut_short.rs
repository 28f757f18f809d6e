//! A mapped file that somebody cuts short: touching what is gone is a signal (SIGBUS) that kills. Here
//! the file is given its length back, or memory takes its place, and the process goes on; what was
//! written is gone, and whoever owns the mapping is told so.
//!
//! What runs in the handler is a few system calls and atomics, as signal-safety(7) wants it.

use std::{
    fs::File,
    os::fd::AsRawFd,
    ptr,
    sync::{
        Once, OnceLock,
        atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering::SeqCst},
    },
};

/// How many mappings can be guarded at once; an agent has one.
const SLOTS: usize = 16;
/// What a slot has instead of a file while it is free, and while it is being filled.
const FREE: i32 = -1;
const TAKEN: i32 = -2;

static GUARDED: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALL: Once = Once::new();

struct Slot {
    file: AtomicI32,
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Where it was last helped, since its owner last asked.
    last: AtomicUsize,
    damage: AtomicU8,
}

const WHOLE: u8 = 0;
const EMPTIED: u8 = 1;
const IN_MEMORY: u8 = 2;

/// What became of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It was cut short, and has its length again: what is missing reads as zeros.
    Emptied,
    /// It could not be helped: memory of this process has taken its place.
    InMemory,
}

/// A mapping whose file may be cut short, as long as this lives.
pub(super) struct Guard {
    slot: &'static Slot,
    _file: File,
}

impl Slot {
    const fn free() -> Self {
        Self {
            file: AtomicI32::new(FREE),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            damage: AtomicU8::new(WHOLE),
        }
    }

    fn covers(&self, address: usize) -> bool {
        let start = self.start.load(SeqCst);
        self.file.load(SeqCst) >= 0 && (start..start + self.bytes.load(SeqCst)).contains(&address)
    }

    /// Has the access that failed succeed; false if nothing can.
    fn help(&self, address: usize) -> bool {
        let (file, start) = (self.file.load(SeqCst), self.start.load(SeqCst));
        let bytes = self.bytes.load(SeqCst);
        // Twice at one place in a row: its length is not what is missing.
        let again = self.last.swap(address, SeqCst) == address;
        // SAFETY: a system call on a file that is open while the slot is taken; off_t takes any length
        // of a mapping.
        if !again && unsafe { libc::fallocate(file, 0, 0, bytes as libc::off_t) } == 0 {
            self.damage.fetch_max(EMPTIED, SeqCst);
            return true;
        }
        // SAFETY: the range is a mapping of ours, which stays one: only what is behind it changes, and it
        // is reached through atomics alone.
        let placed = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(ptr::without_provenance_mut(start), bytes, rights, kind, -1, 0)
        };
        self.damage.fetch_max(IN_MEMORY, SeqCst);
        placed != libc::MAP_FAILED
    }
}

impl Guard {
    /// Guards the mapping of a file that is open for writing; `None` if too many are guarded.
    pub(super) fn new(file: File, start: usize, bytes: usize) -> Option<Self> {
        INSTALL.call_once(install);
        let free = |slot: &&Slot| slot.file.compare_exchange(FREE, TAKEN, SeqCst, SeqCst).is_ok();
        let slot = GUARDED.iter().find(free)?;
        slot.start.store(start, SeqCst);
        slot.bytes.store(bytes, SeqCst);
        slot.last.store(0, SeqCst);
        slot.damage.store(WHOLE, SeqCst);
        slot.file.store(file.as_raw_fd(), SeqCst);
        Some(Self { slot, _file: file })
    }

    /// What became of the file. That it was emptied is said once.
    pub(super) fn damage(&self) -> Option<Damage> {
        // As good as always, and cheap.
        if self.slot.damage.load(SeqCst) == WHOLE {
            return None;
        }
        self.slot.last.store(0, SeqCst);
        let emptied = self.slot.damage.compare_exchange(EMPTIED, WHOLE, SeqCst, SeqCst);
        Some(if emptied.is_ok() { Damage::Emptied } else { Damage::InMemory })
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.slot.damage.load(SeqCst) == IN_MEMORY
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.file.store(FREE, SeqCst);
    }
}

fn install() {
    // SAFETY: plain structures of integers, for which zeros are values; the handler is as
    // signal-safety(7) wants it, and what was there before is kept.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, &action, &mut before) == 0 {
            let _ = BEFORE.set(before);
        }
    }
}

extern "C" fn on_bus_error(
    _: libc::c_int,
    about: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands over what it says, and for this signal an address is in it.
    let address = unsafe { (*about).si_addr() } as usize;
    let ours = GUARDED.iter().find(|slot| slot.covers(address));
    if ours.is_some_and(|slot| slot.help(address)) {
        return;
    }
    // It is for whoever was there before: the access fails again.
    // SAFETY: what was there before is put back; without it, the default ends the process.
    unsafe {
        let default = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, BEFORE.get().unwrap_or(&default), ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Mapping, *};

    #[test]
    fn what_cannot_have_its_length_back_is_memory() {
        let place = tempfile::NamedTempFile::new().unwrap();
        place.as_file().set_len(8192).unwrap();
        let mapping = Mapping::of_file(place.as_file(), 8192, true).unwrap();
        // Nothing can be allocated by a file that is open for reading.
        let file = File::open(place.path()).unwrap();
        let guard = Guard::new(file, mapping.start as usize, 8192).unwrap();
        mapping.words()[0].store(7, SeqCst);
        assert_eq!(guard.damage(), None);
        place.as_file().set_len(0).unwrap();
        assert_eq!(mapping.words()[600].load(SeqCst), 0);
        mapping.words()[600].store(8, SeqCst);
        assert_eq!(mapping.words()[600].load(SeqCst), 8);
        assert_eq!(guard.damage(), Some(Damage::InMemory));
        assert!(guard.is_in_memory());
    }
}
