//! Models which writes have reached the disk, and what a power cut may leave of the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::memory_fs::{Ino, ROOT};

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) enum Inode {
    Dir(BTreeMap<String, Ino>),
    File(Rc<[u8]>),
}

/// A name in a directory stands for another inode from now on, or for none.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) dir: Ino,
    pub(super) name: String,
    pub(super) inode: Option<Ino>,
}

impl Edit {
    pub(super) fn apply(&self, entries: &mut BTreeMap<String, Ino>) {
        match self.inode {
            Some(inode) => drop(entries.insert(self.name.clone(), inode)),
            None => drop(entries.remove(&self.name)),
        }
    }
}

/// What is on the disk, and what is still on its way there.
///
/// The promises are POSIX's: a file's content is there once the file was synced, its name once the
/// directory was. Changes of one directory reach the disk in their order, those of different ones in
/// any; a change of two names does as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter {
    dirs: BTreeMap<Ino, BTreeMap<String, Ino>>,
    files: BTreeMap<Ino, Rc<[u8]>>,
    pending: Vec<Vec<Edit>>,
}

impl Platter {
    /// A disk that holds all of that.
    pub(super) fn of(inodes: &BTreeMap<Ino, Inode>) -> Self {
        let mut platter = Self::default();
        for (&number, inode) in inodes {
            match inode {
                Inode::Dir(entries) => drop(platter.dirs.insert(number, entries.clone())),
                Inode::File(bytes) => drop(platter.files.insert(number, Rc::clone(bytes))),
            }
        }
        platter
    }

    /// These names changed, all or none.
    pub(super) fn changed(&mut self, edits: Vec<Edit>) {
        self.pending.push(edits);
    }

    pub(super) fn sync_file(&mut self, file: Ino, bytes: &Rc<[u8]>) {
        self.files.insert(file, Rc::clone(bytes));
    }

    /// What changed in that directory is on the disk, with what had to come before.
    pub(super) fn sync_dir(&mut self, dir: Ino) {
        let mut dirs = BTreeSet::from([dir]);
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            if change.iter().any(|edit| dirs.contains(&edit.dir)) {
                dirs.extend(change.iter().map(|edit| edit.dir));
                now.push(change);
            } else {
                later.push(change);
            }
        }
        now.iter().rev().for_each(|change| self.apply(change));
        later.reverse();
        self.pending = later;
    }

    /// What is there when the power comes back. `seen` is what programs saw.
    pub(super) fn after_cut(
        &self,
        seen: &BTreeMap<Ino, Inode>,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> BTreeMap<Ino, Inode> {
        let mut left = Self { pending: Vec::new(), ..self.clone() };
        let mut lost = BTreeSet::new();
        for change in &self.pending {
            let behind = change.iter().any(|edit| lost.contains(&edit.dir));
            if behind || choose(3) == 0 {
                lost.extend(change.iter().map(|edit| edit.dir));
            } else {
                left.apply(change);
            }
        }
        let mut inodes = BTreeMap::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let inode = match seen.get(&number) {
                Some(Inode::File(bytes)) => Inode::File(match left.files.get(&number) {
                    Some(synced) => Rc::clone(synced),
                    None => torn(bytes, choose),
                }),
                _ => Inode::Dir(left.dirs.get(&number).cloned().unwrap_or_default()),
            };
            if let Inode::Dir(entries) = &inode {
                open.extend(entries.values().filter(|inner| !inodes.contains_key(*inner)));
            }
            inodes.insert(number, inode);
        }
        inodes
    }

    /// Forgets inodes, and changes on their way, that no name leads to, neither for programs nor on
    /// the disk.
    pub(super) fn forget_unused(&mut self, seen: &mut BTreeMap<Ino, Inode>) {
        let mut used = BTreeSet::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            if !used.insert(number) {
                continue;
            }
            if let Some(Inode::Dir(entries)) = seen.get(&number) {
                open.extend(entries.values());
            }
            open.extend(self.dirs.get(&number).into_iter().flat_map(BTreeMap::values));
            let on_the_way = self.pending.iter().flatten().filter(|edit| edit.dir == number);
            open.extend(on_the_way.filter_map(|edit| edit.inode));
        }
        seen.retain(|number, _| used.contains(number));
        self.dirs.retain(|number, _| used.contains(number));
        self.files.retain(|number, _| used.contains(number));
        self.pending.retain(|change| change.iter().any(|edit| used.contains(&edit.dir)));
    }

    fn apply(&mut self, change: &[Edit]) {
        change.iter().for_each(|edit| edit.apply(self.dirs.entry(edit.dir).or_default()));
    }
}

/// Content that was not synced: nothing of it, a part, room without content, or all.
fn torn(bytes: &Rc<[u8]>, choose: &mut dyn FnMut(usize) -> usize) -> Rc<[u8]> {
    match choose(4) {
        0 => Rc::default(),
        1 => bytes[..bytes.len() / 2].into(),
        2 => vec![0; bytes.len()].into(),
        _ => Rc::clone(bytes),
    }
}
