use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{ports::FsOp, state::StateFiles};

/// A file system in memory, with the promises that [`FsOp`] makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFs {
    /// Content by path; a directory is `None`.
    nodes: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl MemoryFs {
    /// Writes a file, with its directory.
    pub fn write(&mut self, path: &str, bytes: &[u8]) {
        let path = PathBuf::from(path);
        self.make_dir(path.parent().unwrap());
        self.nodes.insert(path, Some(bytes.to_vec()));
    }

    /// Makes a directory and its parents.
    pub fn make_dir(&mut self, path: &Path) {
        for dir in path.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            self.nodes.entry(dir.to_owned()).or_insert(None);
        }
    }

    /// Whether there is a file or directory of that name.
    pub fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(Path::new(path))
    }

    /// Does a step; the error is the reason.
    pub fn apply(&mut self, op: &FsOp) -> Result<(), String> {
        match op {
            FsOp::MakeDir(path) => self.make_dir(path),
            FsOp::Write { path, bytes } => {
                let dir = path.parent().unwrap();
                let root = dir == Path::new("") || dir == Path::new("lib");
                if !root && self.nodes.get(dir) != Some(&None) {
                    return Err(format!("{dir:?} is no directory"));
                }
                self.nodes.insert(path.clone(), Some(bytes.clone()));
            }
            FsOp::LinkMissing { from, to } => {
                for (path, content) in self.take_copy(from) {
                    if content.is_some() {
                        self.nodes.entry(to.join(path)).or_insert(content);
                    }
                }
            }
            FsOp::Exchange(a, b) => {
                if !self.nodes.contains_key(a) {
                    return Err(format!("{a:?} is missing"));
                }
                let (from_a, from_b) = (self.remove(a), self.remove(b));
                self.put(b, from_a);
                self.put(a, from_b);
            }
            FsOp::Rename(from, to) => {
                if !self.nodes.contains_key(from) || self.nodes.contains_key(to) {
                    return Err(format!("{from:?} is missing or {to:?} exists"));
                }
                let tree = self.remove(from);
                self.put(to, tree);
            }
            FsOp::Remove(path) => drop(self.remove(path)),
        }
        Ok(())
    }

    fn take_copy(&self, root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let within = self.nodes.iter().filter_map(|(path, content)| {
            Some((path.strip_prefix(root).ok()?.to_owned(), content.clone()))
        });
        within.collect()
    }

    fn remove(&mut self, root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let tree = self.take_copy(root);
        self.nodes.retain(|path, _| !path.starts_with(root));
        tree
    }

    fn put(&mut self, root: &Path, tree: BTreeMap<PathBuf, Option<Vec<u8>>>) {
        for (path, content) in tree {
            let path = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
            self.nodes.insert(path, content);
        }
    }
}

impl StateFiles for MemoryFs {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let inside = self.nodes.iter().filter_map(|(name, content)| {
            let own = content.is_none() && name.parent() == Some(Path::new(path));
            own.then(|| name.file_name().unwrap().to_str().unwrap().to_owned())
        });
        Ok(inside.collect())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self.nodes.get(Path::new(path)) {
            None => Ok(None),
            Some(None) => Err("is a directory".to_owned()),
            Some(Some(bytes)) => Ok(Some(bytes.clone())),
        }
    }
}
