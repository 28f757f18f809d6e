//! How the directories are written: step by step, and all is on the disk when a call returns.
//! Which steps an operation needs is planned on the actors' side.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use volvox_actors::ports::{
    DiskError, FsOp,
    disk::{FsStep, beside, is_leftover, moved_aside, steps, swapped},
};

use super::{
    trouble::{DiskTrouble, trouble},
    unread::Unread,
};

/// Does what the actors want done in the state and library directories.
#[derive(Clone, Debug)]
pub struct Steps {
    state: PathBuf,
    lib: PathBuf,
    trouble: DiskTrouble,
    unread: Unread,
}

impl Steps {
    /// Works in these two directories, which exist.
    pub fn new(state: PathBuf, lib: PathBuf) -> Self {
        Self { state, lib, trouble: DiskTrouble::default(), unread: Unread::default() }
    }

    /// Does these in order, by the steps that the actors plan; stops at the first that fails. All
    /// of it is on the disk when this returns.
    pub fn run(&self, ops: &[FsOp]) -> Result<(), DiskError> {
        let done = self.unread.check(&self.state, ops);
        let done = done.and_then(|()| steps(ops).iter().try_for_each(|step| self.step(step)));
        self.trouble.note(&done);
        done
    }

    /// What keeps these directories from being written.
    pub fn trouble(&self) -> &DiskTrouble {
        &self.trouble
    }

    /// What of them could not be read.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    /// Removes what a crash left of steps that were under way, once what took its place is on the
    /// disk.
    pub fn sweep(&self) -> Result<(), DiskError> {
        sync_dir(&self.state)?;
        let listing = |error: &io::Error| trouble("list", &self.state, error);
        for entry in fs::read_dir(&self.state).map_err(|error| listing(&error))? {
            let entry = entry.map_err(|error| listing(&error))?;
            let name = entry.file_name();
            if is_leftover(&name.to_string_lossy()) {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The full path; one that leads out of both directories is refused.
    pub(super) fn resolve(&self, path: &Path) -> Result<PathBuf, DiskError> {
        if path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Ok(match path.strip_prefix("lib") {
                Ok(rest) => self.lib.join(rest),
                Err(_) => self.state.join(path),
            });
        }
        let error = io::Error::other("leads out of the state directory");
        Err(trouble("resolve", path, &error))
    }

    fn step(&self, step: &FsStep) -> Result<(), DiskError> {
        let at = |path: &Path| self.resolve(path);
        let done = match step {
            FsStep::MakeDir(path) => make_dir(&at(path)?),
            FsStep::WriteBeside { path, bytes } => write(&at(path)?, |_, new| fill(new, bytes)),
            FsStep::SyncBeside(path) => write(&at(path)?, |_, new| sync(new)),
            FsStep::Place(path) => write(&at(path)?, |place, new| fs::rename(new, place)),
            FsStep::LinkMissing { from, to } => link_missing(&at(from)?, &at(to)?),
            FsStep::Exchange(a, b) => exchange(&at(a)?, &at(b)?),
            FsStep::Rename(from, to) => rename_once(&at(from)?, &at(to)?),
            FsStep::MoveAside(path) => aside(&at(path)?, &at(&moved_aside(path))?),
            FsStep::RemoveAside(path) => remove_tree(&at(&moved_aside(path))?),
            FsStep::SyncDir(path) => sync_dir(&at(path)?),
        };
        if let (Err(_), Some(left)) = (&done, step.leaves()) {
            // Best effort: on a full disk this is what gives the space back.
            let _ = fs::remove_file(at(&left)?);
        }
        done
    }
}

fn make_dir(path: &Path) -> Result<(), DiskError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(|error| trouble("make directory", path, &error))
}

/// One step of writing the file at that place, beside it.
fn write(place: &Path, step: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<(), DiskError> {
    step(place, &beside(place)).map_err(|error| trouble("write", place, &error))
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)?.write_all(bytes)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn sync_dir(path: &Path) -> Result<(), DiskError> {
    match sync(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(|error| trouble("sync", path, &error)),
    }
}

fn link_missing(from: &Path, to: &Path) -> Result<(), DiskError> {
    let listing = |error: &io::Error| trouble("list", from, error);
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| listing(&error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| listing(&error))?;
        let name = entry.file_name();
        let is_dir = entry.file_type().map_err(|error| listing(&error))?.is_dir();
        if is_dir || name.to_string_lossy().starts_with('.') {
            continue;
        }
        let target = to.join(&name);
        match fs::hard_link(entry.path(), &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            linked => linked.map_err(|error| trouble("link", &target, &error))?,
        }
    }
    Ok(())
}

fn rename_once(from: &Path, to: &Path) -> Result<(), DiskError> {
    let is_absent = |path: &Path| match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        metadata => metadata.map(|_| false).map_err(|error| trouble("rename", path, &error)),
    };
    if is_absent(from)? || !is_absent(to)? { Ok(()) } else { rename(from, to) }
}

fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        renamed => renamed.map_err(io::Error::from),
    };
    // Whether the source is missing or the target is there, the target's name says what was desired.
    renamed.map_err(|error| trouble("rename", to, &error))
}

fn exchange(a: &Path, b: &Path) -> Result<(), DiskError> {
    let swap = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
    match swap {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if b.symlink_metadata().is_ok() => {
            exchange_in_three(a, b)
        }
        // The second is absent; or the first is, which that says as well.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename(a, b),
        swap => swap.map_err(|error| trouble("exchange", b, &error.into())),
    }
}

/// Where the file system cannot swap. After a crash amid it, `a` stands alone or in the place
/// of `b`: never neither.
pub(super) fn exchange_in_three(a: &Path, b: &Path) -> Result<(), DiskError> {
    let aside = swapped(b);
    remove_tree(&aside)?;
    for (from, to) in [(b, aside.as_path()), (a, b), (aside.as_path(), a)] {
        fs::rename(from, to).map_err(|error| trouble("exchange", from, &error))?;
    }
    Ok(())
}

fn aside(path: &Path, aside: &Path) -> Result<(), DiskError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|error| trouble("remove", path, &error))?,
    };
    remove_tree(aside)?;
    fs::rename(path, aside).map_err(|error| trouble("remove", path, &error))
}

/// Removes a file, or a directory and all in it; an absent one is fine. Follows no symbolic link.
fn remove_tree(path: &Path) -> Result<(), DiskError> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if !metadata.is_dir() => fs::remove_file(path),
        Ok(_) => fs::remove_dir_all(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| trouble("remove", path, &error)),
    }
}
