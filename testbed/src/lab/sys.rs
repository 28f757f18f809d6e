//! The few calls that the safe wrappers lack. The only unsafe file of this crate.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use rustix::thread::UnshareFlags;

/// Moves the calling thread, and every process that it starts, into new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: unsafe only because unsharing the descriptor table would surprise other threads'
    // `BorrowedFd`s, and that flag is refused above.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// The power fails under an ext4 file system, of which that is any file: nothing is written any
/// more, not even what its journal holds in memory.
pub(crate) fn cut_power(file: BorrowedFd<'_>) -> io::Result<()> {
    /// `EXT4_IOC_SHUTDOWN`, with `EXT4_GOING_FLAGS_NOLOGFLUSH`.
    const SHUTDOWN: libc::c_ulong = 0x8004_587d;
    let how: u32 = 2;
    // SAFETY: the call reads a 32-bit number behind the pointer, which lives until it returns;
    // other file systems refuse it.
    if unsafe { libc::ioctl(file.as_raw_fd(), SHUTDOWN as _, &raw const how) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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
