//! A file system in memory: how names and files change with each step.
//! What of it survives a power cut is left to `memory_platter`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::memory_platter::{Edit, Inode, Platter};
use crate::{
    ports::{
        FsOp,
        disk::{FsStep, beside, is_leftover, moved_aside, steps},
    },
    state_directory::StateFiles,
};

/// A tree of a file system: content by path below its top; a directory is `None`.
pub(super) type Tree = BTreeMap<PathBuf, Option<Rc<[u8]>>>;

/// Number of a file or directory.
pub(super) type Ino = u32;

/// The state directory; the library directory is `lib` in it.
pub(super) const ROOT: Ino = 0;
const LIB: Ino = 1;

/// A file system in memory: what programs see, and what of it is on the disk.
#[derive(Clone, Debug)]
pub struct MemoryFs {
    inodes: BTreeMap<Ino, Inode>,
    next: Ino,
    platter: Platter,
    /// How many inodes were in use when the others were forgotten last.
    in_use: usize,
}

impl Default for MemoryFs {
    fn default() -> Self {
        let root = Inode::Dir(BTreeMap::from([("lib".to_owned(), LIB)]));
        let inodes = BTreeMap::from([(ROOT, root), (LIB, Inode::Dir(BTreeMap::new()))]);
        let mut files = Self { inodes, next: LIB + 1, platter: Platter::default(), in_use: 0 };
        files.sync();
        files
    }
}

/// Equal if programs see the same.
impl PartialEq for MemoryFs {
    fn eq(&self, other: &Self) -> bool {
        self.tree("") == other.tree("")
    }
}

impl MemoryFs {
    /// Writes a file, with its directory.
    pub fn write(&mut self, path: &str, bytes: &[u8]) {
        let path = Path::new(path);
        self.make_dir(path.parent().unwrap()).unwrap();
        let file = self.add(Inode::File(bytes.into()));
        self.put(path, Some(file)).unwrap();
    }

    /// Whether there is a file or directory of that name.
    pub fn has(&self, path: &str) -> bool {
        self.find(Path::new(path)).is_some()
    }

    /// Does what is wished; the error is the reason.
    pub fn apply(&mut self, op: &FsOp) -> Result<(), String> {
        steps(std::slice::from_ref(op)).iter().try_for_each(|step| self.step(step))
    }

    /// Does a step; the error is the reason.
    pub fn step(&mut self, step: &FsStep) -> Result<(), String> {
        match step {
            FsStep::MakeDir(path) => self.make_dir(path)?,
            FsStep::WriteBeside { path, bytes } => {
                let file = self.add(Inode::File(bytes.as_slice().into()));
                self.put(&beside(path), Some(file))?;
            }
            FsStep::SyncBeside(path) => {
                let file = self.find(&beside(path)).ok_or("it is missing")?;
                if let Some(Inode::File(bytes)) = self.inodes.get(&file) {
                    self.platter.sync_file(file, bytes);
                }
            }
            FsStep::Place(path) => self.rename(&beside(path), path)?,
            FsStep::LinkMissing { from, to } => self.link_missing(from, to)?,
            FsStep::Exchange(a, b) => match self.find(b) {
                None => self.rename(a, b)?,
                Some(second) => {
                    let first = self.find(a).ok_or_else(|| format!("{a:?} is missing"))?;
                    self.edit(vec![self.entry(a, Some(second))?, self.entry(b, Some(first))?]);
                }
            },
            FsStep::Rename(from, to) => {
                if self.find(from).is_some() && self.find(to).is_none() {
                    self.rename(from, to)?;
                }
            }
            FsStep::MoveAside(path) => {
                if self.find(path).is_some() {
                    self.destroy(&moved_aside(path));
                    self.rename(path, &moved_aside(path))?;
                }
            }
            FsStep::RemoveAside(path) => self.destroy(&moved_aside(path)),
            FsStep::SyncDir(path) => {
                if let Some(dir) = self.find(path) {
                    self.platter.sync_dir(dir);
                }
            }
        }
        self.forget_unused();
        Ok(())
    }

    /// Removes what a crash left of steps that were under way.
    pub fn sweep(&mut self) {
        let names = self.directories("").unwrap();
        // What took their place is on the disk first.
        self.platter.sync_dir(ROOT);
        for name in names.iter().filter(|name| is_leftover(name)) {
            self.destroy(Path::new(name));
        }
    }

    /// Removes a file, or a directory with all in it, entry by entry.
    pub fn destroy(&mut self, path: &Path) {
        let Some(found) = self.find(path) else { return };
        if let Some(Inode::Dir(entries)) = self.inodes.get(&found) {
            let names: Vec<String> = entries.keys().cloned().collect();
            names.iter().for_each(|name| self.destroy(&path.join(name)));
        }
        self.put(path, None).unwrap();
    }

    /// Everything is on the disk.
    pub(super) fn sync(&mut self) {
        self.platter = Platter::of(&self.inodes);
    }

    /// The power goes: what programs see from now on is what the disk held. `choose` says, of so
    /// many possibilities, what became of things that were not synced.
    pub(crate) fn cut_power(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        self.inodes = self.platter.after_cut(&self.inodes, choose);
        self.sync();
    }

    /// What programs see at that path: nothing at all, a file (whose path is empty), or a directory.
    pub(super) fn tree(&self, path: &str) -> Tree {
        let mut tree = Tree::new();
        if let Some(top) = self.find(Path::new(path)) {
            self.collect(top, PathBuf::new(), &mut tree);
        }
        tree
    }

    /// Names in a directory.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        match self.find(Path::new(dir)).and_then(|dir| self.inodes.get(&dir)) {
            Some(Inode::Dir(entries)) => entries.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn collect(&self, inode: Ino, path: PathBuf, tree: &mut Tree) {
        match &self.inodes[&inode] {
            Inode::File(bytes) => drop(tree.insert(path, Some(Rc::clone(bytes)))),
            Inode::Dir(entries) => {
                for (name, &inode) in entries {
                    self.collect(inode, path.join(name), tree);
                }
                tree.insert(path, None);
            }
        }
    }

    /// Makes a directory and its parents.
    pub fn make_dir(&mut self, path: &Path) -> Result<(), String> {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        for dir in ancestors.into_iter().rev() {
            match self.find(dir).and_then(|found| self.inodes.get(&found)) {
                Some(Inode::Dir(_)) => {}
                Some(Inode::File(_)) => return Err(format!("{dir:?} is no directory")),
                None => {
                    let made = self.add(Inode::Dir(BTreeMap::new()));
                    self.put(dir, Some(made))?;
                }
            }
        }
        Ok(())
    }

    fn link_missing(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let Some(Inode::Dir(entries)) = self.find(from).and_then(|dir| self.inodes.get(&dir))
        else {
            return Ok(());
        };
        let files = entries.iter().filter(|(name, inode)| {
            !name.starts_with('.') && matches!(self.inodes[inode], Inode::File(_))
        });
        let files: Vec<_> = files.map(|(name, &inode)| (to.join(name), inode)).collect();
        for (path, inode) in files {
            if self.find(&path).is_none() {
                self.put(&path, Some(inode))?;
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let found = self.find(from).ok_or_else(|| format!("{from:?} is missing"))?;
        self.edit(vec![self.entry(from, None)?, self.entry(to, Some(found))?]);
        Ok(())
    }

    fn put(&mut self, path: &Path, inode: Option<Ino>) -> Result<(), String> {
        self.edit(vec![self.entry(path, inode)?]);
        Ok(())
    }

    /// That name is to stand for that inode.
    fn entry(&self, path: &Path, inode: Option<Ino>) -> Result<Edit, String> {
        let dir = path.parent().unwrap();
        let found = self.find(dir).filter(|dir| matches!(self.inodes[dir], Inode::Dir(_)));
        let found = found.ok_or_else(|| format!("{dir:?} is no directory"))?;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(Edit { dir: found, name, inode })
    }

    /// Changes names, all or none.
    fn edit(&mut self, edits: Vec<Edit>) {
        for edit in &edits {
            let Some(Inode::Dir(entries)) = self.inodes.get_mut(&edit.dir) else { continue };
            edit.apply(entries);
        }
        self.platter.changed(edits);
    }

    fn add(&mut self, inode: Inode) -> Ino {
        self.next += 1;
        self.inodes.insert(self.next, inode);
        self.next
    }

    fn find(&self, path: &Path) -> Option<Ino> {
        path.iter().try_fold(ROOT, |dir, name| match self.inodes.get(&dir)? {
            Inode::Dir(entries) => entries.get(name.to_str()?).copied(),
            Inode::File(_) => None,
        })
    }

    /// Forgets what neither programs nor the disk have a name for.
    fn forget_unused(&mut self) {
        if self.inodes.len() > 2 * self.in_use + 64 {
            self.platter.forget_unused(&mut self.inodes);
            self.in_use = self.inodes.len();
        }
    }
}

impl StateFiles for MemoryFs {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let Some(Inode::Dir(entries)) =
            self.find(Path::new(path)).and_then(|dir| self.inodes.get(&dir))
        else {
            return Ok(Vec::new());
        };
        let own = |inode: &Ino| matches!(self.inodes[inode], Inode::Dir(_));
        Ok(entries.iter().filter(|(_, inode)| own(inode)).map(|(name, _)| name.clone()).collect())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self.find(Path::new(path)).and_then(|found| self.inodes.get(&found)) {
            None => Ok(None),
            Some(Inode::Dir(_)) => Ok(Some(Vec::new())),
            Some(Inode::File(bytes)) => Ok(Some(bytes.to_vec())),
        }
    }
}
