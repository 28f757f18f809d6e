//! The single steps that a list of disk operations becomes, in an order that a power cut cannot
//! spoil. The real disk and the one in memory do the same steps.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::FsOp;
use crate::mutants::{Mutant, mutated};

/// A directory on its way out.
const REMOVED: &str = ".removed-";
/// A directory that waits for its turn where two cannot be swapped in one step.
const SWAPPED: &str = ".swapped-";

/// One step of a file system. A power cut may come between any two of them: of those that are not
/// synced, any may be lost, and of content that is not, any part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsStep {
    /// Makes a directory and its parents; an existing one is fine.
    MakeDir(PathBuf),
    /// Writes content [`beside`] the place of that name.
    WriteBeside {
        /// Where it ends up.
        path: PathBuf,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Puts what was written beside that place on the disk.
    SyncBeside(PathBuf),
    /// What was written beside takes that place, in one step.
    Place(PathBuf),
    /// Hard-links every file of `from` that `to` lacks; an absent `from` has none.
    LinkMissing {
        /// Directory with the files.
        from: PathBuf,
        /// Directory that is to have them.
        to: PathBuf,
    },
    /// Swaps two names in one step. If the second is absent, the first takes its place.
    Exchange(PathBuf, PathBuf),
    /// Renames, unless there is nothing to be renamed or the target exists.
    Rename(PathBuf, PathBuf),
    /// Takes a name out of the way, to where [`moved_aside`] says; what an earlier step left there
    /// goes. An absent one is fine.
    MoveAside(PathBuf),
    /// Removes what was moved aside of that name, with all in it; an absent one is fine.
    RemoveAside(PathBuf),
    /// Puts the names in a directory on the disk; `""` is the state directory. An absent one has
    /// none.
    SyncDir(PathBuf),
}

impl FsStep {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MakeDir(_) => "MakeDir",
            Self::WriteBeside { .. } => "WriteBeside",
            Self::SyncBeside(_) => "SyncBeside",
            Self::Place(_) => "Place",
            Self::LinkMissing { .. } => "LinkMissing",
            Self::Exchange(..) => "Exchange",
            Self::Rename(..) => "Rename",
            Self::MoveAside(_) => "MoveAside",
            Self::RemoveAside(_) => "RemoveAside",
            Self::SyncDir(_) => "SyncDir",
        }
    }

    /// What is left beside a place if this step fails, and is to be removed then: on a full disk
    /// that is what gives the space back.
    pub fn leaves(&self) -> Option<PathBuf> {
        match self {
            Self::WriteBeside { path, .. } | Self::SyncBeside(path) | Self::Place(path) => {
                Some(beside(path))
            }
            _ => None,
        }
    }
}

/// Where content is written before it takes its place.
pub fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", last_name(path)))
}

/// Where a name is put before it is removed: a removal that is cut short leaves no part of it.
pub fn moved_aside(path: &Path) -> PathBuf {
    path.with_file_name(format!("{REMOVED}{}", last_name(path)))
}

/// Where a name waits for its turn where a file system cannot swap two.
pub fn swapped(path: &Path) -> PathBuf {
    path.with_file_name(format!("{SWAPPED}{}", last_name(path)))
}

/// Whether a directory of that name is what a crash left of steps that were under way.
pub fn is_leftover(name: &str) -> bool {
    name.starts_with(REMOVED) || name.starts_with(SWAPPED)
}

/// The steps that do what is wished, in an order that no power cut can spoil:
///
/// - content is on the disk before it takes a place, and so are its names before a directory does;
/// - nothing is destroyed before what stands for it is on the disk;
/// - all is, before it is over.
pub fn steps(ops: &[FsOp]) -> Vec<FsStep> {
    let mut plan = FsPlan::default();
    ops.iter().for_each(|op| plan.add(op));
    plan.sync();
    plan.steps.extend(plan.aside.into_iter().map(FsStep::RemoveAside));
    plan.steps
}

#[derive(Default)]
struct FsPlan {
    steps: Vec<FsStep>,
    /// Directories whose names changed and are not known to be on the disk.
    dirty: BTreeSet<PathBuf>,
    /// What was put aside.
    aside: BTreeSet<PathBuf>,
    /// Those of it of which the disk may not know.
    aside_unsynced: BTreeSet<PathBuf>,
}

impl FsPlan {
    fn add(&mut self, op: &FsOp) {
        match op {
            FsOp::MakeDir(path) => {
                self.steps.push(FsStep::MakeDir(path.clone()));
                let parents = path.ancestors().skip(1).map(Path::to_owned);
                self.dirty.extend(parents);
            }
            FsOp::Write { path, bytes } => {
                let (path, bytes) = (path.clone(), bytes.clone());
                self.changed(&path);
                self.steps.push(FsStep::WriteBeside { path: path.clone(), bytes });
                if !mutated(Mutant::RenamedUnsynced) {
                    self.steps.push(FsStep::SyncBeside(path.clone()));
                }
                self.steps.push(FsStep::Place(path));
            }
            FsOp::LinkMissing { from, to } => {
                self.steps.push(FsStep::LinkMissing { from: from.clone(), to: to.clone() });
                self.dirty.insert(to.clone());
            }
            FsOp::Exchange(a, b) => {
                self.sync();
                self.steps.push(FsStep::Exchange(a.clone(), b.clone()));
                self.changed(a);
                self.changed(b);
            }
            FsOp::Rename(from, to) => {
                // Whoever filled it may have died before its names were on the disk.
                self.dirty.insert(from.clone());
                self.sync();
                self.steps.push(FsStep::Rename(from.clone(), to.clone()));
                self.changed(from);
                self.changed(to);
            }
            FsOp::Remove(path) => self.remove(path),
        }
    }

    fn remove(&mut self, path: &Path) {
        // What was put aside before makes room, and that destroys it.
        if self.aside_unsynced.contains(path) {
            self.sync();
        }
        self.dirty.retain(|dir| !dir.starts_with(path));
        self.steps.push(FsStep::MoveAside(path.to_owned()));
        self.changed(path);
        self.aside.insert(path.to_owned());
        self.aside_unsynced.insert(path.to_owned());
    }

    /// The entry of that name changed.
    fn changed(&mut self, path: &Path) {
        self.dirty.extend(path.parent().map(Path::to_owned));
    }

    /// What was done is on the disk before what comes next: the inner before the outer.
    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty).into_iter().rev();
        if !mutated(Mutant::DirectoryUnsynced) {
            self.steps.extend(dirty.map(FsStep::SyncDir));
        }
        self.aside_unsynced.clear();
    }
}

fn last_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::EndpointId,
        state_directory::{EndpointRecord, commit_plan, remove_plan},
    };

    fn reported(ops: &[FsOp]) -> String {
        let line = |step: &FsStep| match step {
            FsStep::WriteBeside { path, .. } => format!("WriteBeside({path:?})"),
            step => format!("{step:?}"),
        };
        steps(ops).iter().map(line).collect::<Vec<_>>().join("\n").replace('"', "")
    }

    #[test]
    fn a_record_is_on_the_disk_before_it_takes_its_place_and_the_old_one_goes_last() {
        let record = EndpointRecord { id: EndpointId(7), ..Default::default() };
        let expected = "MoveAside(7_next)
MakeDir(7_next)
WriteBeside(7_next/ep_config.json)
SyncBeside(7_next/ep_config.json)
Place(7_next/ep_config.json)
WriteBeside(7_next/ep_config.h)
SyncBeside(7_next/ep_config.h)
Place(7_next/ep_config.h)
LinkMissing { from: 7, to: 7_next }
SyncDir(7_next)
SyncDir()
Exchange(7_next, 7)
MoveAside(7_next_fail)
MoveAside(7_next)
SyncDir()
RemoveAside(7_next)
RemoveAside(7_next_fail)";
        assert_eq!(reported(&commit_plan(&record)), expected);
    }

    #[test]
    fn a_removal_is_on_the_disk_before_anything_is_destroyed() {
        let expected = "MoveAside(7_next_fail)
MoveAside(7_next)
MoveAside(7)
SyncDir()
RemoveAside(7)
RemoveAside(7_next)
RemoveAside(7_next_fail)";
        assert_eq!(reported(&remove_plan(EndpointId(7))), expected);
    }

    #[test]
    fn a_directory_of_an_earlier_life_is_synced_before_it_takes_a_name() {
        let ops = [FsOp::Rename("7_next".into(), "7".into())];
        assert_eq!(reported(&ops), "SyncDir(7_next)\nRename(7_next, 7)\nSyncDir()");
    }

    #[test]
    fn what_is_removed_twice_is_synced_in_between() {
        let path = PathBuf::from("a/b");
        let ops = [FsOp::Remove(path.clone()), FsOp::MakeDir(path.clone()), FsOp::Remove(path)];
        let expected = "MoveAside(a/b)\nMakeDir(a/b)\nSyncDir(a)\nSyncDir()\nMoveAside(a/b)\nSyncDir(a)\nRemoveAside(a/b)";
        assert_eq!(reported(&ops), expected);
    }
}
