//! Gives back memory that a phase of the start alone needed: of the heap, of the program's own file and of
//! its libraries'.
//!
//! The kernel maps sixteen pages around each one that is touched, so that after a start most of the
//! program is mapped, also what only the start runs. Unmapped, its pages can be reclaimed; who needs
//! one again finds it in the page cache: a minor fault, no read.
//!
//! Facts: madvise(2) `MADV_DONTNEED` of a private file mapping; `fault_around_bytes` in
//! `mm/memory.c`, 64 KiB.

use std::{ffi::c_void, os::raw::c_int, ptr};

use rustix::{
    mm::{Advice, madvise},
    param::page_size,
};

use crate::heap;

/// Unmaps code and constants until they are needed again, and gives back what is free on the heap. What
/// cannot be given back stays.
pub fn give_back() {
    heap::trim();
    // SAFETY: dl_iterate_phdr(3) calls `unmap` with what it wants, and keeps no pointer.
    unsafe {
        libc::dl_iterate_phdr(Some(unmap), ptr::null_mut());
    }
}

/// Unmaps the segments of one object that nobody ever wrote to.
unsafe extern "C" fn unmap(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    const GO_ON: c_int = 0;
    let page = page_size();
    // SAFETY: the caller's pointer is good while this runs.
    let info = unsafe { &*info };
    // SAFETY: it says how many headers there are, and they live as long as the object.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        // Relocations write to writable segments only: these pages are as the file has them.
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        let end = (start + header.p_filesz as usize) / page * page;
        let start = start.next_multiple_of(page);
        if let Some(length) = end.checked_sub(start) {
            // SAFETY: a range of whole pages of a private mapping of a file, never written to: what
            // is read there afterwards is what was read before.
            let _ = unsafe { madvise(start as *mut c_void, length, Advice::LinuxDontNeed) };
        }
    }
    GO_ON
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Bytes of mapped files, as the kernel counts them for this process.
    fn mapped() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    #[test]
    fn what_is_given_back_is_not_mapped_and_runs_on() {
        let before = mapped();
        give_back();
        let after = mapped();
        assert!(after < before, "{before} bytes of files were mapped, now {after}");
    }
}
