//! Mapped memory.

mod cut_short;

use std::{
    ffi::c_void, fs::File, io, ops::Range, os::fd::AsFd, ptr, slice, sync::atomic::AtomicU64,
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

pub use self::cut_short::Damage;
use self::cut_short::Guard;

/// The least size of a page; of larger ones, part of one will do.
const PAGE: usize = 4096;

/// Memory of a file, of a BPF map, or of nothing, in words that others may look at and change.
pub struct Mapping {
    start: *mut c_void,
    bytes: usize,
    guard: Option<Guard>,
}

// SAFETY: the memory is only reached through atomics, and goes with the value.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first bytes of something that stays as long as it is, as a BPF map does, to be changed or only
    /// looked at: touching what is not there is a signal that kills.
    pub fn of_file(file: impl AsFd, bytes: usize, writable: bool) -> io::Result<Self> {
        let mut rights = ProtFlags::READ;
        if writable {
            rights |= ProtFlags::WRITE;
        }
        // SAFETY: the kernel chooses the place, so nothing that is mapped is replaced.
        let start = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        Ok(Self { start, bytes, guard: None })
    }

    /// The first bytes of a file that others may cut short, to be changed.
    pub fn of_exposed_file(file: File, bytes: usize) -> io::Result<Self> {
        let mut mapping = Self::of_file(&file, bytes, true)?;
        let guard = Guard::new(file, mapping.start as usize, bytes);
        mapping.guard = Some(guard.ok_or_else(|| io::Error::other("too many are mapped"))?);
        Ok(mapping)
    }

    /// What became of such a file; that it was emptied is said once.
    pub fn damage(&self) -> Option<Damage> {
        self.guard.as_ref()?.damage()
    }

    /// Whether memory has taken the place of such a file.
    pub fn is_in_memory(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_in_memory)
    }

    /// Memory without a file; zeros that take no room until they are written.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
        Ok(Self { start, bytes, guard: None })
    }

    /// The memory, word by word.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, is as long as said, lives as long as the borrow,
        // and this process reaches it as atomics only. Others may change it, which
        // atomics allow; a store needs `of_file` with `writable`, as those have it who store.
        unsafe { slice::from_raw_parts(self.start.cast(), self.bytes / size_of::<AtomicU64>()) }
    }

    /// Takes pages of a file out of this process; they come back when they are next used.
    pub fn release(&self, words: Range<usize>) {
        // Where the kernel does not do it, the pages stay, which is no harm.
        self.advise(words, Advice::LinuxDontNeed);
    }

    /// Brings pages of a file into this process at once, which costs less than one by one. Where
    /// the kernel does not do it, they come when they are used.
    pub fn populate(&self, words: Range<usize>) {
        self.advise(words, Advice::LinuxPopulateWrite);
    }

    fn advise(&self, words: Range<usize>, advice: Advice) {
        let bytes = words.start * size_of::<AtomicU64>()..words.end * size_of::<AtomicU64>();
        let (first, end) = (bytes.start & !(PAGE - 1), bytes.end.min(self.bytes));
        // SAFETY: the range lies within the mapping and begins at a page; neither advice changes what
        // the pages of a shared mapping hold, for that is the file's.
        let _ = unsafe {
            let start = self.start.cast::<u8>().add(first.min(end)).cast();
            madvise(start, end.saturating_sub(first), advice)
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: it is this value's mapping, and no borrow of it is left.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
