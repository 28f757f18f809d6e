//! Network namespaces: opening, making and working inside them.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    thread,
};

use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

/// A network namespace, kept alive while this is.
#[derive(Debug)]
pub struct Netns(OwnedFd);

/// Why a network namespace cannot be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The file that names it cannot be opened.
    #[error("open network namespace {path}: {source}; see that the container still runs")]
    Open {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// It cannot be made or entered.
    #[error(
        "{op} network namespace: {source}; run it with CAP_SYS_ADMIN, and on a file of a network namespace"
    )]
    Enter {
        /// What was tried, as a verb.
        op: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Netns {
    /// The calling thread's namespace.
    pub fn current() -> Result<Self, NetnsError> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// The namespace that a file names, such as `/proc/PID/ns/net` or `/run/netns/NAME`.
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let file = File::open(path)
            .map_err(|source| NetnsError::Open { path: path.display().to_string(), source })?;
        Ok(Self(file.into()))
    }

    /// Makes an empty namespace without a name; it goes when nothing holds it any more.
    pub fn create() -> Result<Self, NetnsError> {
        on_thread(|| {
            // SAFETY: the descriptor table stays shared; only the namespace of this thread, which
            // ends right after, is its own.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|errno| NetnsError::Enter { op: "make a", source: errno.into() })?;
            Self::current()
        })
    }

    /// Runs `work` inside the namespace, on a thread of its own: the caller's stays where it is.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        on_thread(|| {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| NetnsError::Enter { op: "enter the", source: errno.into() })?;
            Ok(work())
        })
    }

    /// The same on the calling thread, which comes back afterwards: for a program that has but one, and
    /// would wait for a processor for another.
    ///
    /// # Panics
    ///
    /// If the kernel does not let it come back: what follows would be done to another's network.
    pub fn visit<T>(&self, work: impl FnOnce() -> T) -> Result<T, NetnsError> {
        let enter = |netns: &Self| {
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| NetnsError::Enter { op: "enter the", source: errno.into() })
        };
        let home = Self::current()?;
        enter(self)?;
        let done = work();
        enter(&home).expect("a thread may return to the namespace that it came from");
        Ok(done)
    }

    /// The number that the kernel never gives to another namespace until it is booted again.
    pub fn cookie(&self) -> Result<u64, NetnsError> {
        self.run(own_cookie)?
    }
}

/// The cookie of the calling thread's namespace.
pub fn own_cookie() -> Result<u64, NetnsError> {
    netns_cookie().map_err(|source| NetnsError::Enter { op: "read the cookie of the", source })
}

/// Cookies of the namespaces that these files name, read on one thread of its own; a file that
/// names none any more is left out.
pub fn cookies<'a, K: Ord + Send>(
    files: impl Iterator<Item = (K, &'a Path)> + Send,
) -> BTreeMap<K, u64> {
    let cookie = |path| {
        let netns = Netns::open(path).ok()?;
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        netns_cookie().ok()
    };
    on_thread(|| files.filter_map(|(key, path)| Some((key, cookie(path)?))).collect())
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Gives the calling thread, and the threads it starts, mounts of their own, so that a test's are
/// seen by nobody else and go with it.
pub fn own_mounts() -> io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_change};
    // SAFETY: the descriptor table stays shared; root and working directory become this thread's
    // own, as tests want it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// The cookie of the calling thread's namespace (`SO_NETNS_COOKIE`, since Linux 5.14).
fn netns_cookie() -> io::Result<u64> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option's value is a u64; pointer and length describe `cookie`, which outlives
    // the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_has_its_own_cookie_and_only_loopback() {
        let netns = Netns::create().unwrap();
        let here = Netns::current().unwrap();
        assert_ne!(netns.cookie().unwrap(), here.cookie().unwrap());
        assert_eq!(netns.cookie().unwrap(), netns.cookie().unwrap());
        let seen = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert_eq!(seen.unwrap().lines().skip(2).count(), 1);
    }

    #[test]
    fn a_visit_ends_where_it_began() {
        let (here, there) = (own_cookie().unwrap(), Netns::create().unwrap());
        let seen = there.visit(|| own_cookie().unwrap()).unwrap();
        assert_eq!((seen, own_cookie().unwrap()), (there.cookie().unwrap(), here));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Netns::open(file.path()).unwrap().visit(|| ()).is_err());
        assert_eq!(own_cookie().unwrap(), here);
    }

    #[test]
    fn cookies_are_read_in_one_go_and_what_is_gone_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        own_mounts_on_thread(|| {
            let netns = Netns::create().unwrap();
            let named = dir.path().join("named");
            File::create(&named).unwrap();
            let held = format!("/proc/self/fd/{}", netns.as_fd().as_raw_fd());
            rustix::mount::mount_bind(held.as_str(), &named).unwrap();
            let (gone, text) = (dir.path().join("gone"), dir.path().join("text"));
            File::create(&text).unwrap();
            let files = [(1, &gone), (2, &named), (3, &text), (4, &named)];
            let files = files.map(|(key, path)| (key, path.as_path()));
            let cookie = netns.cookie().unwrap();
            assert_eq!(cookies(files.into_iter()), BTreeMap::from([(2, cookie), (4, cookie)]));
        });
    }

    fn own_mounts_on_thread(work: impl FnOnce() + Send) {
        on_thread(|| {
            own_mounts().unwrap();
            work();
        });
    }

    #[test]
    fn a_file_that_is_no_namespace_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Netns::open(file.path()).unwrap().run(|| ()).unwrap_err();
        assert!(error.to_string().contains("on a file of a network namespace"), "{error}");
    }
}
