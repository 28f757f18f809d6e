//! Gives back memory that a phase of the start alone needed: of the heap, of the stack, of the program's own
//! file and of its libraries'.
//!
//! The kernel maps sixteen pages around each one that is touched, so that after a start most of the
//! program is mapped, also what only the start runs. Unmapped, its pages can be reclaimed; who needs
//! one again finds it in the page cache: a minor fault, no read. What a deep call once took of the stack
//! stays with the process as well: reading the command line takes 150 KiB.
//!
//! Facts: madvise(2) `MADV_DONTNEED` of a private mapping, of a file and of none; `fault_around_bytes` in
//! `mm/memory.c`, 64 KiB; `/proc/self/statm` in proc_pid_statm(5).

use std::{
    ffi::c_void,
    fs::File,
    hint::black_box,
    io,
    mem::MaybeUninit,
    os::{raw::c_int, unix::fs::FileExt},
    ptr, str,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use rustix::{
    mm::{Advice, madvise},
    param::page_size,
};

use crate::heap;

/// Of the stack, what is left to calls that are under way.
const FRAMES: usize = 32 * 1024;

/// What may be mapped of files while the agent restores, bytes. Half of it is not needed for long.
const MAPPED_MAX: usize = 13 << 20;
/// How often that is looked at. So soon no start maps 4 MiB more.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// How often at most: a restore that waits for the cluster needs no more of the program.
const LOOKS_MAX: usize = 1_000;

/// Has little of the program mapped at any moment, until it is dropped.
pub struct Sparing(
    #[expect(dead_code, reason = "that it is dropped is the message")] mpsc::Sender<()>,
);

/// Begins to look how much of the program is mapped, on a thread of its own: what restoring runs one after
/// the other need not be mapped at once. It costs a restart some hundredths of its processor time.
pub fn spare() -> io::Result<Sparing> {
    let statm = File::open("/proc/self/statm")?;
    let (held, dropped) = mpsc::channel();
    crate::threads::spawn("resident", move || {
        for _ in 0..LOOKS_MAX {
            if dropped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if mapped_of_files(&statm).is_some_and(|bytes| bytes > MAPPED_MAX) {
                unmap_program();
            }
        }
    })?;
    Ok(Sparing(held))
}

/// Bytes of files that this process has mapped and present, shared memory among them.
fn mapped_of_files(statm: &File) -> Option<usize> {
    let mut line = [0; 128];
    let length = statm.read_at(&mut line, 0).ok()?;
    let pages = str::from_utf8(&line[..length]).ok()?.split(' ').nth(2)?;
    Some(pages.parse::<usize>().ok()? * page_size())
}

/// When it is given back again: what a start needed for a moment, such as to load programs, is free soon.
const SOON: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(25)];
/// And after that.
const NOW_AND_THEN: Duration = Duration::from_secs(300);

/// Gives back what was needed since, again and again.
pub async fn keep_giving_back() {
    let mut pauses = SOON.into_iter();
    loop {
        tokio::time::sleep(pauses.next().unwrap_or(NOW_AND_THEN)).await;
        give_back();
    }
}

/// Unmaps code and constants until they are needed again, and gives back what is free on the heap and on
/// this thread's stack. What cannot be given back stays.
pub fn give_back() {
    heap::trim();
    trim_stack();
    unmap_program();
}

fn unmap_program() {
    // SAFETY: dl_iterate_phdr(3) calls `unmap` with what it wants, and keeps no pointer.
    unsafe {
        libc::dl_iterate_phdr(Some(unmap), ptr::null_mut());
    }
}

/// Gives back this thread's stack below the frames that are in use.
#[inline(never)]
fn trim_stack() {
    let Some(low) = stack_begin() else { return };
    let here = 0_u8;
    let here = ptr::from_ref(black_box(&here)) as usize;
    let (page, end) = (page_size(), here.saturating_sub(FRAMES));
    let (low, end) = (low.next_multiple_of(page), end / page * page);
    if let Some(length) = end.checked_sub(low).filter(|length| *length > 0) {
        // SAFETY: this thread's own stack, below what any frame of it uses: a stack grows down, and
        // nobody else has an address in it.
        let _ = unsafe { madvise(low as *mut c_void, length, Advice::LinuxDontNeed) };
    }
}

/// The lowest address of this thread's stack.
fn stack_begin() -> Option<usize> {
    let mut attributes = MaybeUninit::uninit();
    let (mut begin, mut size) = (ptr::null_mut(), 0);
    // SAFETY: pthread_getattr_np(3) fills the attributes where it returns 0; then they are read, and
    // destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &mut begin, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then_some(begin as usize)
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
    use std::{fs, time::Instant};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

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

    #[test]
    fn while_much_is_mapped_the_program_is_unmapped_again_and_again() {
        let statm = File::open("/proc/self/statm").unwrap();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which nobody uses.
        let much =
            unsafe { mmap_anonymous(ptr::null_mut(), MAPPED_MAX, protection, flags) }.unwrap();
        let _sparing = spare().unwrap();
        let (ends, mut most) = (Instant::now() + Duration::from_secs(10), 0);
        // Whoever runs maps it again.
        loop {
            let now = mapped_of_files(&statm).unwrap();
            most = most.max(now);
            if now + (1 << 20) < most {
                break;
            }
            assert!(Instant::now() < ends, "{now} bytes are mapped, {most} at most");
        }
        // SAFETY: the mapping from above.
        unsafe { munmap(much, MAPPED_MAX) }.unwrap();
    }

    /// Uses a megabyte of the stack.
    #[inline(never)]
    fn deep() -> u64 {
        let deep = [1_u8; 1 << 20];
        black_box(&deep).iter().map(|it| u64::from(*it)).sum()
    }

    /// Pages of this thread's stack that are there, from this frame down.
    fn stack_pages() -> usize {
        let low = stack_begin().unwrap().next_multiple_of(page_size());
        let here = 0_u8;
        let here = ptr::from_ref(black_box(&here)) as usize;
        let pages = (here - low) / page_size();
        let mut there = vec![0_u8; pages];
        // SAFETY: a mapped range of whole pages, and a byte for each.
        let asked =
            unsafe { libc::mincore(low as *mut c_void, pages * page_size(), there.as_mut_ptr()) };
        assert_eq!(asked, 0);
        there.iter().filter(|it| **it & 1 == 1).count()
    }

    #[test]
    fn a_stack_that_was_deep_is_given_back_and_its_frames_stay() {
        let thread = std::thread::Builder::new().stack_size(4 << 20);
        let looked = thread.spawn(|| {
            let mine = black_box([7_u8; 64]);
            assert_eq!(deep(), 1 << 20);
            let before = stack_pages();
            give_back();
            (before, stack_pages(), mine)
        });
        let (before, after, mine) = looked.unwrap().join().unwrap();
        assert!(before >= 256, "{before} pages");
        assert!(after <= 16, "{after} pages of {before}");
        assert_eq!(mine, [7; 64]);
    }
}
