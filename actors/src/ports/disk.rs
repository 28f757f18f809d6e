//! The port to the disk: what an actor wants of the state and library directories.

mod steps;

use std::path::PathBuf;

pub use self::steps::{FsStep, beside, is_leftover, moved_aside, steps, swapped};
use crate::host::Reply;

/// One wish on disk, which [`steps`] turns into steps. Paths are relative to the state directory or, with `lib/` first, to the
/// library directory, which outlives a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsOp {
    /// Makes a directory, mode 0700, and its parents; an existing one is fine.
    MakeDir(PathBuf),
    /// Writes a whole file beside its place, syncs it and renames it there.
    Write {
        /// Where it ends up.
        path: PathBuf,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Hard-links every file of `from` that `to` lacks; an absent `from` has none.
    LinkMissing {
        /// Directory with the files.
        from: PathBuf,
        /// Directory that is to have them.
        to: PathBuf,
    },
    /// Swaps two directories in one step (`RENAME_EXCHANGE`). If the second is absent, the first
    /// takes its place.
    Exchange(PathBuf, PathBuf),
    /// Renames a directory. If there is none, or the target exists, that was done before.
    Rename(PathBuf, PathBuf),
    /// Removes a file or a directory with all in it, at once: a crash does not leave a part of it
    /// there. An absent one is fine.
    Remove(PathBuf),
}

/// What went wrong on disk, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {path:?}: {cause}; {remedy}")]
pub struct DiskError {
    /// The step, as a verb.
    pub op: &'static str,
    /// What it was about.
    pub path: PathBuf,
    /// The system's words.
    pub cause: String,
    /// What an operator can do.
    pub remedy: &'static str,
}

/// The state and library directories.
pub trait Disk {
    /// Does the [`steps`] of these in order and stops at the first that fails, then answers. What
    /// was answered outlives a power cut.
    fn submit(&self, ops: Vec<FsOp>, reply: Reply<Result<(), DiskError>>);
}
