//! The few calls that the safe wrappers lack. The only unsafe file of this crate.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use rustix::thread::UnshareFlags;
use volvox_bpf_progs::layouts::{IpcacheKey, IpcacheRow};

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
    // `EXT4_GOING_FLAGS_NOLOGFLUSH`.
    shut_down(file, 2)
}

/// An ext4 file system fails, of which that is any file: from now on every request is an error. What was
/// written until now is safe.
pub(crate) fn fail(file: BorrowedFd<'_>) -> io::Result<()> {
    // `EXT4_GOING_FLAGS_DEFAULT`: the file system is frozen first, so all is on the disk.
    shut_down(file, 0)
}

fn shut_down(file: BorrowedFd<'_>, how: u32) -> io::Result<()> {
    /// `EXT4_IOC_SHUTDOWN`.
    const SHUTDOWN: libc::c_ulong = 0x8004_587d;
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

/// A map like the ipcache.
pub(crate) struct PrefixMap(OwnedFd);

impl PrefixMap {
    /// An empty one, of as many rows at most.
    pub(crate) fn create(rows: u32) -> io::Result<Self> {
        /// `BPF_MAP_CREATE`, `BPF_MAP_TYPE_LPM_TRIE` and `BPF_F_NO_PREALLOC`.
        const COMMAND: libc::c_int = 0;
        const KIND: u32 = 11;
        const FLAGS: u32 = 1;
        let [key, row] = [size_of::<IpcacheKey>(), size_of::<IpcacheRow>()].map(|size| size as u32);
        let create = [KIND, key, row, rows, FLAGS];
        // SAFETY: the kernel reads as many bytes behind the pointer as it is told, and they live
        // until the call returns.
        let map =
            unsafe { libc::syscall(libc::SYS_bpf, COMMAND, create.as_ptr(), size_of_val(&create)) };
        if map < 0 {
            return Err(io::Error::last_os_error());
        }
        let map = RawFd::try_from(map).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(map) }))
    }

    /// Writes rows, all by one call.
    pub(crate) fn update(&self, keys: &[IpcacheKey], rows: &[IpcacheRow]) -> io::Result<()> {
        #[repr(C)]
        struct Batch {
            cursors: [u64; 2],
            keys: *const IpcacheKey,
            rows: *const IpcacheRow,
            count: u32,
            map: RawFd,
            flags: [u64; 2],
        }
        /// `BPF_MAP_UPDATE_BATCH`.
        const COMMAND: libc::c_int = 26;
        assert_eq!(keys.len(), rows.len(), "there is a row for each key");
        let count = u32::try_from(keys.len()).map_err(io::Error::other)?;
        let (keys, rows, map) = (keys.as_ptr(), rows.as_ptr(), self.0.as_raw_fd());
        let mut batch = Batch { cursors: [0; 2], keys, rows, count, map, flags: [0; 2] };
        // SAFETY: the kernel reads `count` keys and rows of the map's sizes, which are these
        // types', and writes how far it came into `batch`.
        let done =
            unsafe { libc::syscall(libc::SYS_bpf, COMMAND, &raw mut batch, size_of::<Batch>()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Loads a program for packets that passes each on to the next one, as somebody else might have; it is pinned
/// there.
pub(crate) fn pin_foreign_program(pin: &std::ffi::CStr) -> io::Result<()> {
    /// `BPF_PROG_LOAD`.
    const LOAD: libc::c_int = 5;
    /// `BPF_OBJ_PIN`.
    const PIN: libc::c_int = 6;
    /// `BPF_PROG_TYPE_SCHED_CLS`.
    const KIND: u32 = 3;
    /// `mov32 r0, -1` (`TCX_NEXT`, `TC_ACT_UNSPEC`) and `exit`.
    const INSTRUCTIONS: [u64; 2] = [0xffff_ffff_0000_00b4, 0x95];
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: *const u64,
        license: *const libc::c_char,
    }
    #[repr(C)]
    struct Pin {
        path: *const libc::c_char,
        program: RawFd,
        flags: u32,
    }
    let load = Load {
        kind: KIND,
        count: 2,
        instructions: INSTRUCTIONS.as_ptr(),
        license: c"GPL".as_ptr(),
    };
    // SAFETY: the kernel reads as many bytes as it is told, and all that they point to outlives the call.
    let program = unsafe { libc::syscall(libc::SYS_bpf, LOAD, &raw const load, size_of::<Load>()) };
    if program < 0 {
        return Err(io::Error::last_os_error());
    }
    let program = RawFd::try_from(program).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let pinned = Pin { path: pin.as_ptr(), program: program.as_raw_fd(), flags: 0 };
    // SAFETY: as above.
    let done = unsafe { libc::syscall(libc::SYS_bpf, PIN, &raw const pinned, size_of::<Pin>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
