//! A node whose sockets are balanced: the programs attached to a cgroup of the test's own, in which
//! the test's process is while it runs.

use super::{Node, node, run_ip};
use aya::programs::{CgroupAttachMode, CgroupSock, CgroupSockAddr, Program};
use aya::{Ebpf, EbpfLoader};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use volvox_bpf_progs::object::HOST_NETNS;
use volvox_bpf_progs::{SOCKET_OBJECT, SocketHook};

/// A process is in one cgroup: its tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The programs, attached; all of it goes with the value.
pub struct Sockets {
    pub node: Node,
    cgroup: Option<Cgroup>,
    _turn: MutexGuard<'static, ()>,
}

impl Sockets {
    /// In a network namespace of this thread, which counts as the node's own.
    pub fn new() -> Self {
        Self::with(&SocketHook::ALL)
    }

    /// The same, but only these programs are attached.
    pub fn with(hooks: &[SocketHook]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        node::enter_namespace();
        run_ip(&["link", "set", "lo", "up"]);
        let mut ebpf = load(netns_cookie());
        let cgroup = Cgroup::enter();
        for hook in hooks {
            attach(ebpf.program_mut(hook.program()).unwrap(), &cgroup.own);
        }
        Self { node: Node::of(ebpf), cgroup: Some(cgroup), _turn: turn }
    }

    /// Nanoseconds and runs of a hook's program so far, while the kernel counts them.
    pub fn cost(&mut self, hook: SocketHook) -> (u64, u64) {
        let program = self.node.ebpf.program(hook.program()).unwrap();
        let fd = match program {
            Program::CgroupSockAddr(program) => program.fd(),
            Program::CgroupSock(program) => program.fd(),
            _ => panic!("{hook:?} is no program of a cgroup"),
        };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(fd.unwrap()));
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse().unwrap()
        };
        (number("run_time_ns:"), number("run_cnt:"))
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        drop(self.cgroup.take());
    }
}

fn load(host: u64) -> Ebpf {
    let mut loader = EbpfLoader::new();
    loader.override_global(HOST_NETNS, &host, true);
    node::shrink(&mut loader);
    let mut ebpf = loader.load(SOCKET_OBJECT).expect("its maps can be created: are you root?");
    for hook in SocketHook::ALL {
        let program = ebpf.program_mut(hook.program()).unwrap();
        node::load(hook.program(), || match program {
            Program::CgroupSockAddr(program) => program.load(),
            Program::CgroupSock(program) => program.load(),
            _ => panic!("{hook:?} is no program of a cgroup"),
        });
    }
    ebpf
}

fn attach(program: &mut Program, cgroup: &File) {
    let mode = CgroupAttachMode::Single;
    match program {
        Program::CgroupSockAddr(program) => {
            let program: &mut CgroupSockAddr = program;
            program.attach(cgroup, mode).map(drop)
        }
        Program::CgroupSock(program) => {
            let program: &mut CgroupSock = program;
            program.attach(cgroup, mode).map(drop)
        }
        _ => panic!("it is no program of a cgroup"),
    }
    .expect("a cgroup of our own takes programs");
}

/// The cookie of this thread's network namespace.
pub fn netns_cookie() -> u64 {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: both pointers are to variables of our own, of the length that is given.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0);
    cookie
}

/// A cgroup below that of the process, which is in it.
struct Cgroup {
    mount: PathBuf,
    home: PathBuf,
    path: PathBuf,
    own: File,
}

impl Cgroup {
    fn enter() -> Self {
        let name = format!("volvox-test-{}", std::process::id());
        let mount = std::env::temp_dir().join(&name);
        fs::create_dir_all(&mount).unwrap();
        own_mounts();
        mount_cgroup2(&mount);
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let home = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        let home = mount.join(home);
        let path = home.join(name);
        fs::create_dir(&path).unwrap();
        let own = File::open(&path).unwrap();
        let cgroup = Self { mount, home, path, own };
        cgroup.put(&cgroup.path);
        cgroup
    }

    /// Moves the process.
    fn put(&self, cgroup: &Path) {
        fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.put(&self.home);
        let removed = fs::remove_dir(&self.path);
        let target = std::ffi::CString::new(self.mount.to_str().unwrap()).unwrap();
        // SAFETY: the path is NUL-terminated and outlives the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        let _ = fs::remove_dir(&self.mount);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// Mounts of this thread's own.
fn own_mounts() {
    // SAFETY: takes no pointers; it only changes the namespace of this thread.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE);
}

fn mount_cgroup2(at: &Path) {
    let target = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    mount(c"none", &target, Some(c"cgroup2"), 0);
}

fn mount(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    kind: Option<&std::ffi::CStr>,
    flags: libc::c_ulong,
) {
    let kind = kind.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: the texts are NUL-terminated and outlive the call; no data is given.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) };
    assert_eq!(result, 0, "{target:?}: {}", std::io::Error::last_os_error());
}
