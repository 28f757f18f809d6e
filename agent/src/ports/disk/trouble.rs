//! Errors of the disk, with a remedy for each, and the last one for whoever shows the agent's
//! state.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::io::Errno;
use volvox_actors::ports::DiskError;

/// Why the last attempt to write failed, if it did; for whoever asks, on any thread.
#[derive(Clone, Debug, Default)]
pub struct DiskTrouble(Arc<Mutex<Option<DiskError>>>);

impl DiskTrouble {
    pub(super) fn note(&self, outcome: &Result<(), DiskError>) {
        let now = outcome.as_ref().err().cloned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// What is wrong.
    pub fn now(&self) -> Option<DiskError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Names the step, the path, the system's words and what an operator can do.
pub(super) fn trouble(op: &'static str, path: &Path, error: &io::Error) -> DiskError {
    DiskError { op, path: path.to_owned(), cause: error.to_string(), remedy: remedy(error) }
}

fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "free space or inodes on that file system; what was there before is not lost"
        }
        Some(Errno::ROFS) => "mount that file system writable, or name another directory",
        Some(Errno::ACCESS | Errno::PERM) => "run as root, or give this user the right to it",
        Some(Errno::IO) => "the disk fails: see the kernel's log, then replace or repair it",
        Some(Errno::NOENT | Errno::NOTDIR) => "something removed it: restart the agent",
        Some(Errno::EXIST | Errno::NOTEMPTY) => {
            "something else made it: look at it, then remove it"
        }
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit of open files",
        Some(Errno::LOOP) => "a symbolic link stands there: remove it",
        Some(Errno::NAMETOOLONG) => "name a directory with a shorter path",
        _ => "look at the directory, and restart the agent when it is in order",
    }
}
