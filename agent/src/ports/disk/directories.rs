//! The agent's directories: they are made, and locked against a second agent; so is the BPF root.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use volvox_actors::ports::{DiskError, FsOp};

use super::{Steps, trouble::trouble};

/// Holds the number of the process that works in the directory.
const PID_FILE: &str = "volvox-agent.pid";

/// A process that was killed holds the directory until the kernel has taken it apart.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Why the directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoriesError {
    /// One of them cannot be made or opened.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Another agent programs the endpoints behind that BPF file system.
    #[error(
        "{} is in use by another agent, with a state directory of its own; stop that agent, or \
         name another --bpf-root", .root.display()
    )]
    BpfInUse {
        /// Its root.
        root: PathBuf,
    },
    /// Another agent works there.
    #[error("{} is in use by {holder}; stop that agent, or name another --state-dir", .dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The other agent's process, as far as known.
        holder: String,
    },
}

/// The agent's directories, held against any other agent while this value lives, and no longer:
/// the kernel lets go for a process that is killed.
#[derive(Debug)]
pub struct Directories {
    /// Writes in them.
    pub steps: Steps,
    /// Why nothing can be written there, if so. What is there can still be read and served.
    pub trouble: Option<DiskError>,
    /// The lock lives as long as the open directory.
    _lock: File,
}

impl Directories {
    /// Makes the run directory (0775), `state` in it (0770) and the library directory (0755),
    /// unless they are there, and takes hold of them.
    pub fn hold(run: &Path, lib: &Path) -> Result<Self, DirectoriesError> {
        let state = run.join("state");
        for (dir, mode) in [(run, 0o775), (state.as_path(), 0o770), (lib, 0o755)] {
            make_dir(dir, mode)?;
        }
        let lock = lock(run)?;
        let steps = Steps::new(state, absolute(lib)?);
        let claimed = Self::claim(run, &steps);
        steps.trouble().note(&claimed);
        let trouble = claimed.err();
        Ok(Self { steps, trouble, _lock: lock })
    }

    /// Says who holds the directory, which also shows whether it can be written.
    fn claim(run: &Path, steps: &Steps) -> Result<(), DiskError> {
        let pid = FsOp::Write {
            path: PathBuf::from(PID_FILE),
            bytes: format!("{}\n", std::process::id()).into_bytes(),
        };
        Steps::new(absolute(run)?, PathBuf::new()).run(&[pid])?;
        steps.sweep()
    }
}

fn make_dir(path: &Path, mode: u32) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    // The process's file mode mask may have taken rights away.
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| trouble("make directory", path, &error))
}

fn lock(run: &Path) -> Result<File, DirectoriesError> {
    let dir = File::open(run).map_err(|error| trouble("open", run, &error))?;
    if take(&dir).map_err(|error| trouble("lock", run, &error))? {
        return Ok(dir);
    }
    let pid = fs::read_to_string(run.join(PID_FILE)).unwrap_or_default();
    let holder = match pid.trim() {
        "" => "another agent".to_owned(),
        pid => format!("the agent with pid {pid}"),
    };
    Err(DirectoriesError::InUse { dir: run.to_owned(), holder })
}

/// Holds the BPF file system against another agent, which may work in other directories: two that
/// programmed the same endpoints would undo each other's work. `None` if it cannot be opened;
/// whoever opens the maps says why.
pub fn hold_bpf(root: &Path) -> Result<Option<File>, DirectoriesError> {
    let Ok(dir) = File::open(root) else { return Ok(None) };
    if take(&dir).map_err(|error| trouble("lock", root, &error))? {
        return Ok(Some(dir));
    }
    Err(DirectoriesError::BpfInUse { root: root.to_owned() })
}

/// Takes the exclusive lock of an open directory; false if somebody has it.
fn take(dir: &File) -> io::Result<bool> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_RETRY),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, DiskError> {
    path.canonicalize().map_err(|error| trouble("open", path, &error))
}
