//! The few calls that the safe wrappers lack. The only unsafe file of this crate.

use std::{io, time::Duration};

use rustix::thread::UnshareFlags;

/// Moves the calling thread, and every process that it starts, into new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: unsafe only because unsharing the descriptor table would surprise other threads'
    // `BorrowedFd`s, and that flag is refused above.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Processor time that process `pid` used so far, all its threads, also those that ended.
pub(crate) fn cpu_time(pid: u32) -> io::Result<Duration> {
    // CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) builds it.
    let clock = (!(pid as libc::clockid_t) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; an unknown clock is an error, not undefined.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
