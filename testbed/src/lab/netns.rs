//! A network namespace of the lab.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use volvox_system::netns;

/// Where the namespaces are mounted, as container runtimes do it.
const DIRECTORY: &str = "/run/netns";

/// A network namespace of the lab. Clones share it; it is gone when the last one and the sockets
/// opened in it are.
#[derive(Clone, Debug)]
pub struct Netns(Arc<Held>);

#[derive(Debug)]
struct Held {
    namespace: netns::Netns,
    path: PathBuf,
    /// Whether we mounted it.
    ours: bool,
}

impl Netns {
    /// Makes an empty namespace, mounted at `/run/netns/NAME` inside the lab.
    pub fn create(name: &str) -> Result<Self> {
        fs::create_dir_all(DIRECTORY).with_context(|| format!("cannot make {DIRECTORY}"))?;
        let path = Path::new(DIRECTORY).join(name);
        File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let namespace = netns::Netns::create()?;
        let source = format!("/proc/thread-self/fd/{}", namespace.as_fd().as_raw_fd());
        mount_bind(source, &path).with_context(|| format!("cannot mount {}", path.display()))?;
        Ok(Self(Arc::new(Held { namespace, path, ours: true })))
    }

    /// A namespace that a container runtime made, and removes.
    pub fn open(path: &Path) -> Result<Self> {
        let namespace = netns::Netns::open(path)?;
        Ok(Self(Arc::new(Held { namespace, path: path.into(), ours: false })))
    }

    /// Its path, as a runtime hands it to a CNI plugin.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs `body` inside the namespace and waits for it.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.0.namespace.run(body)?
    }

    /// Answers each connection's byte at that port, until the lab ends.
    pub fn answer(&self, port: u16) -> Result<()> {
        let listener = self.run(move || Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?))?;
        let serve = move || -> Result<()> {
            for stream in listener.incoming() {
                let (mut stream, mut byte) = (stream?, [0]);
                stream.set_read_timeout(Some(Duration::from_secs(2)))?;
                if stream.read_exact(&mut byte).is_ok() {
                    // Who went on its way misses nothing.
                    let _ = stream.write_all(b"!");
                }
            }
            Ok(())
        };
        self.spawn("answers", serve).map(drop)
    }

    /// Starts `body` inside the namespace on a thread that is called `name`.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let namespace = self.clone();
        thread::Builder::new()
            .name(name.into())
            .spawn(move || namespace.run(body))
            .context("cannot start a thread")
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.namespace.as_fd()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.ours {
            // Failing leaves it to the end of the lab's mount namespace.
            let _ = unmount(&self.path, UnmountFlags::DETACH);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Has a link of the calling thread's namespace, when it comes up, be as one that has been up for long: a machine
/// does not ask for others by IPv6 as long as it asks who else has its address on the link, a second or two.
pub(super) fn is_up_for_long(link: &str) -> Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/accept_dad");
    fs::write(&path, "0").with_context(|| format!("cannot write {path}"))
}

/// What `ip` says, in the calling thread's namespace.
pub fn ip(words: &str) -> Result<String> {
    let output = Command::new("ip").args(words.split(' ')).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {words}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}
