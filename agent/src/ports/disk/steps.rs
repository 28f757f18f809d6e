use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use volvox_actors::ports::{DiskError, FsOp};

use super::trouble::{DiskTrouble, trouble};

/// A directory on its way out.
const REMOVED: &str = ".removed-";
/// A directory that waits for its turn where two cannot be swapped in one step.
const SWAPPED: &str = ".swapped-";

/// Does what the actors want done in the state and library directories.
#[derive(Clone, Debug)]
pub struct Steps {
    state: PathBuf,
    lib: PathBuf,
    trouble: DiskTrouble,
}

impl Steps {
    /// Works in these two directories, which exist.
    pub fn new(state: PathBuf, lib: PathBuf) -> Self {
        Self { state, lib, trouble: DiskTrouble::default() }
    }

    /// Does the steps in order; stops at the first that fails.
    ///
    /// What a step wrote is on the disk before the next renames anything, and all of it before
    /// this returns.
    pub fn run(&self, ops: &[FsOp]) -> Result<(), DiskError> {
        let mut dirty = Dirty::default();
        let done = ops.iter().try_for_each(|op| self.step(op, &mut dirty));
        let done = done.and(dirty.sync());
        self.trouble.note(&done);
        done
    }

    /// What keeps these directories from being written.
    pub fn trouble(&self) -> &DiskTrouble {
        &self.trouble
    }

    /// Removes what a crash left of steps that were under way.
    pub fn sweep(&self) -> Result<(), DiskError> {
        let listing = |error: &io::Error| trouble("list", &self.state, error);
        for entry in fs::read_dir(&self.state).map_err(|error| listing(&error))? {
            let entry = entry.map_err(|error| listing(&error))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(REMOVED) || name.starts_with(SWAPPED) {
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

    fn step(&self, op: &FsOp, dirty: &mut Dirty) -> Result<(), DiskError> {
        match op {
            FsOp::MakeDir(path) => make_dir(&self.resolve(path)?, dirty),
            FsOp::Write { path, bytes } => write(&self.resolve(path)?, bytes, dirty),
            FsOp::LinkMissing { from, to } => {
                link_missing(&self.resolve(from)?, &self.resolve(to)?, dirty)
            }
            FsOp::Exchange(a, b) => exchange(&self.resolve(a)?, &self.resolve(b)?, dirty),
            FsOp::Rename(from, to) => rename(&self.resolve(from)?, &self.resolve(to)?, dirty),
            FsOp::Remove(path) => remove(&self.resolve(path)?, dirty),
        }
    }
}

/// Directories whose entries changed and are not known to be on the disk.
#[derive(Default)]
struct Dirty(BTreeSet<PathBuf>);

impl Dirty {
    /// The entry of that path changed.
    fn note(&mut self, path: &Path) {
        self.0.extend(path.parent().map(Path::to_owned));
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        while let Some(dir) = self.0.pop_last() {
            match File::open(&dir).and_then(|dir| dir.sync_all()) {
                // It was renamed or removed since, and that is noted with its parent.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced.map_err(|error| trouble("sync", &dir, &error))?,
            }
        }
        Ok(())
    }
}

fn make_dir(path: &Path, dirty: &mut Dirty) -> Result<(), DiskError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(|error| trouble("make directory", path, &error))?;
    dirty.note(path);
    Ok(())
}

fn write(path: &Path, bytes: &[u8], dirty: &mut Dirty) -> Result<(), DiskError> {
    let beside = path.with_file_name(format!(".{}.new", last_name(path)));
    let written = write_synced(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        // Best effort: on a full disk this is what gives the space back.
        let _ = fs::remove_file(&beside);
        return Err(trouble("write", path, &error));
    }
    dirty.note(path);
    Ok(())
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn link_missing(from: &Path, to: &Path, dirty: &mut Dirty) -> Result<(), DiskError> {
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
        dirty.note(&target);
    }
    Ok(())
}

fn rename(from: &Path, to: &Path, dirty: &mut Dirty) -> Result<(), DiskError> {
    dirty.sync()?;
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        renamed => renamed.map_err(io::Error::from),
    };
    // Whether the source is missing or the target is there, the target's name says what was wanted.
    renamed.map_err(|error| trouble("rename", to, &error))?;
    dirty.note(from);
    dirty.note(to);
    Ok(())
}

fn exchange(a: &Path, b: &Path, dirty: &mut Dirty) -> Result<(), DiskError> {
    dirty.sync()?;
    let swap = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
    match swap {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if b.symlink_metadata().is_ok() => {
            exchange_in_three(a, b)?;
        }
        // The second is absent; or the first is, which that says as well.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            return rename(a, b, dirty);
        }
        swap => swap.map_err(|error| trouble("exchange", b, &error.into()))?,
    }
    dirty.note(a);
    dirty.note(b);
    Ok(())
}

/// Where the file system cannot swap. After a crash amid it, `a` stands alone or in the place
/// of `b`: never neither.
pub(super) fn exchange_in_three(a: &Path, b: &Path) -> Result<(), DiskError> {
    let aside = b.with_file_name(format!("{SWAPPED}{}", last_name(b)));
    remove_tree(&aside)?;
    for (from, to) in [(b, aside.as_path()), (a, b), (aside.as_path(), a)] {
        fs::rename(from, to).map_err(|error| trouble("exchange", from, &error))?;
    }
    Ok(())
}

fn remove(path: &Path, dirty: &mut Dirty) -> Result<(), DiskError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|error| trouble("remove", path, &error))?,
    };
    dirty.note(path);
    if !metadata.is_dir() {
        return fs::remove_file(path).map_err(|error| trouble("remove", path, &error));
    }
    let aside = path.with_file_name(format!("{REMOVED}{}", last_name(path)));
    remove_tree(&aside)?;
    fs::rename(path, &aside).map_err(|error| trouble("remove", path, &error))?;
    remove_tree(&aside)
}

/// Removes a directory and all in it; an absent one is fine. Follows no symbolic link.
fn remove_tree(path: &Path) -> Result<(), DiskError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| trouble("remove", path, &error)),
    }
}

fn last_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
