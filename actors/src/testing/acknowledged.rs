//! Remembers what the disk in memory has acknowledged, and finds what a power cut lost of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::memory_fs::{MemoryFs, Tree};
use crate::{
    ports::FsOp,
    state_directory::{IdentityTable, StateFiles, scan},
};

/// What the disk answered to be done, by the names at the top of the state directory and of the
/// library directory.
#[derive(Default)]
pub(super) struct Acknowledged {
    trees: BTreeMap<String, Tree>,
    /// Names that something was tried with since, in vain or without an answer; true if it was to
    /// remove them.
    in_doubt: BTreeMap<String, bool>,
}

impl Acknowledged {
    /// All that is there.
    pub(super) fn all_of(files: &MemoryFs) -> Self {
        // What begins with a dot is on its way to its place, or out.
        let names = |dir| files.names(dir).into_iter().filter(|name| !name.starts_with('.'));
        let in_lib = names("lib").map(|name| format!("lib/{name}"));
        let names = names("").filter(|name| name != "lib").chain(in_lib);
        let trees = names.map(|name| (name.clone(), shown(files, &name))).collect();
        Self { trees, in_doubt: BTreeMap::new() }
    }

    /// These were done.
    pub(super) fn done(&mut self, ops: &[FsOp], files: &MemoryFs) {
        for name in names(ops).into_keys() {
            self.in_doubt.remove(&name);
            let tree = shown(files, &name);
            self.trees.insert(name, tree);
        }
    }

    /// These were tried.
    pub(super) fn in_doubt(&mut self, ops: &[FsOp]) {
        for (name, removed) in names(ops) {
            *self.in_doubt.entry(name).or_default() |= removed;
        }
    }

    /// What is not as it was answered to be; without the state directory if that is `lost`.
    pub(super) fn complaints(&self, files: &MemoryFs, lost: bool) -> Vec<String> {
        let mut all = Vec::new();
        for (name, tree) in &self.trees {
            let counts = name.starts_with("lib/") || !lost;
            if counts && !self.in_doubt.contains_key(name) && shown(files, name) != *tree {
                all.push(format!("{name} is not as it was acknowledged, after a power cut"));
            }
        }
        let identities = |files: &MemoryFs| IdentityTable::load(files);
        let (before, now) = (IdentityTable::load(self), identities(files));
        if now.generation < before.generation || !now.errors.is_empty() {
            all.push(format!("identities are lost to a power cut: {:?}", now.errors));
        }
        if !lost {
            all.extend(self.records(files));
        }
        all
    }

    /// Records that are torn or missing, although nobody removed them.
    fn records(&self, files: &MemoryFs) -> Vec<String> {
        let (before, now) = (scan(self), scan(files));
        let found: BTreeSet<_> = now.records.iter().map(|found| found.record.id).collect();
        let removed =
            |id: &dyn std::fmt::Display| self.in_doubt.get(&id.to_string()) == Some(&true);
        let missing = before.records.iter().map(|found| found.record.id);
        let missing = missing.filter(|id| !found.contains(id) && !removed(id));
        let missing = missing.map(|id| format!("endpoint {id} lost its record to a power cut"));
        let known: BTreeSet<_> = before.quarantined.iter().map(|put| &put.dir).collect();
        let torn = now.quarantined.iter().filter(|put| !known.contains(&put.dir));
        let torn = torn.map(|put| format!("a power cut leaves {}: {}", put.dir, put.reason));
        missing.chain(torn).collect()
    }
}

impl StateFiles for Acknowledged {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let at_top = self.trees.iter().filter(|(_, tree)| tree.get(Path::new("")) == Some(&None));
        Ok(match path {
            "" => at_top.map(|(name, _)| name.clone()).collect(),
            _ => Vec::new(),
        })
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let (name, rest) = split(Path::new(path));
        let found = self.trees.get(&name).and_then(|tree| tree.get(&rest));
        Ok(found.and_then(|bytes| bytes.as_ref()).map(|bytes| bytes.to_vec()))
    }
}

/// What is under a name, without files that are still written beside their place.
fn shown(files: &MemoryFs, name: &str) -> Tree {
    let is_draft =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    files.tree(name).into_iter().filter(|(path, _)| !is_draft(path)).collect()
}

/// The names at the top that these are about, and whether they remove what is there.
fn names(ops: &[FsOp]) -> BTreeMap<String, bool> {
    let mut names = BTreeMap::new();
    for op in ops {
        let (paths, removes): (Vec<&PathBuf>, bool) = match op {
            FsOp::MakeDir(path) | FsOp::Write { path, .. } => (vec![path], false),
            FsOp::LinkMissing { from, to } => (vec![from, to], false),
            FsOp::Exchange(a, b) => (vec![a, b], false),
            FsOp::Rename(from, to) => {
                names.insert(split(from).0, true);
                (vec![to], false)
            }
            FsOp::Remove(path) => (vec![path], true),
        };
        for path in paths {
            names.insert(split(path).0, removes);
        }
    }
    names
}

/// The name at the top, and the path below it.
fn split(path: &Path) -> (String, PathBuf) {
    let above = if path.starts_with("lib") { 2 } else { 1 };
    let name: PathBuf = path.iter().take(above).collect();
    (name.to_string_lossy().into_owned(), path.iter().skip(above).collect())
}
