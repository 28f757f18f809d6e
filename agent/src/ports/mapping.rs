//! Mapped memory. The only unsafe code about it.

use std::{ffi::c_void, io, ops::Range, os::fd::AsFd, ptr, slice, sync::atomic::AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// The least size of a page; of larger ones, part of one will do.
const PAGE: usize = 4096;

/// Memory of a file, of a BPF map, or of nothing, in words that others may look at and change.
pub(super) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory is only reached through atomics, and goes with the value.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first bytes of a file, to be changed or only looked at. Every page of them must be
    /// there: reading beyond the end is a signal that kills.
    pub(super) fn of_file(file: impl AsFd, bytes: usize, writable: bool) -> io::Result<Self> {
        let mut rights = ProtFlags::READ;
        if writable {
            rights |= ProtFlags::WRITE;
        }
        // SAFETY: the kernel chooses the place, so nothing that is mapped is replaced.
        let start = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        Ok(Self { start, bytes })
    }

    /// Memory without a file; zeros that take no room until they are written.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
        Ok(Self { start, bytes })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, is as long as said, lives as long as the borrow,
        // and this process reaches it as atomics only. Others may change it, which
        // atomics allow; a store needs `of_file` with `writable`, as those have it who store.
        unsafe { slice::from_raw_parts(self.start.cast(), self.bytes / size_of::<AtomicU64>()) }
    }

    /// Takes pages of a file out of this process; they come back when they are next used.
    pub(super) fn release(&self, words: Range<usize>) {
        // Where the kernel does not do it, the pages stay, which is no harm.
        self.advise(words, Advice::LinuxDontNeed);
    }

    /// Brings pages of a file into this process at once, which costs less than one by one. Where
    /// the kernel does not do it, they come when they are used.
    pub(super) fn populate(&self, words: Range<usize>) {
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
        // SAFETY: it is this value's mapping, and no borrow of it is left.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
