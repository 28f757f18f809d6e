//! A directory of files that others write: which of them are new, changed or gone.
//!
//! A change is seen by inotify and, should that miss one, by a look now and then.

mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

pub use watch::follow;

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// A directory, and what was last seen there.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    /// Whether a file of that name is one of them.
    is_one: fn(&str) -> bool,
    seen: BTreeMap<String, Stamp>,
    /// What the last look in passing found, to be believed if the next finds the same.
    passing: BTreeMap<String, Stamp>,
    /// Whether the directory could be listed the last time, if it was tried.
    listed: Option<bool>,
}

/// Which files are looked at.
#[derive(Debug)]
pub enum Look {
    /// Every file, now.
    All,
    /// These, which their writers have just closed, or moved here, or removed.
    Closed(BTreeSet<String>),
    /// Every file that is as the last look in passing found it: nobody tells whether a file is
    /// being written, and half a file must not be taken for the whole.
    Passing,
}

/// A file that is new, or changed, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is there, and was not, or was another one.
    There(String),
    /// It was there.
    Gone(String),
}

impl Files {
    /// A directory of which nothing is known yet.
    pub fn new(dir: impl Into<PathBuf>, is_one: fn(&str) -> bool) -> Self {
        let (seen, passing) = Default::default();
        Self { dir: dir.into(), is_one, seen, passing, listed: None }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the directory could be listed the last time.
    pub fn is_listed(&self) -> bool {
        self.listed == Some(true)
    }

    /// Every file that is new, changed or gone since it was last seen, by name.
    ///
    /// A directory that cannot be listed says nothing: what its files said stays in force.
    pub fn look(&mut self, look: &Look) -> Vec<Seen> {
        let now = match self.stamps() {
            Ok(now) => {
                self.listed = Some(true);
                now
            }
            Err(error) => {
                if self.listed.replace(false) != Some(false) {
                    let dir = self.dir.display();
                    tracing::error!(%dir, %error, "directory cannot be listed; make it");
                }
                return Vec::new();
            }
        };
        let before = match look {
            Look::Passing => std::mem::replace(&mut self.passing, now.clone()),
            _ => BTreeMap::new(),
        };
        let believed = |name: &String| match look {
            Look::All => true,
            Look::Closed(names) => names.contains(name),
            Look::Passing => before.get(name) == now.get(name),
        };
        let names: BTreeSet<String> = self.seen.keys().chain(now.keys()).cloned().collect();
        let changed = names.into_iter().filter(|name| self.seen.get(name) != now.get(name));
        let changed: Vec<String> = changed.filter(believed).collect();
        changed.into_iter().map(|name| self.take(name, &now)).collect()
    }

    fn take(&mut self, name: String, now: &BTreeMap<String, Stamp>) -> Seen {
        match now.get(&name) {
            Some(&stamp) => {
                self.seen.insert(name.clone(), stamp);
                Seen::There(name)
            }
            None => {
                self.seen.remove(&name);
                Seen::Gone(name)
            }
        }
    }

    fn stamps(&self) -> io::Result<BTreeMap<String, Stamp>> {
        let mut stamps = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with('.') || !(self.is_one)(&name) {
                continue;
            }
            // Follows links, as a mounted ConfigMap has them; a file that just went is gone.
            let Ok(file) = fs::metadata(self.dir.join(&name)) else { continue };
            if file.is_file() {
                let modified = (file.mtime(), file.mtime_nsec());
                stamps.insert(name, Stamp { inode: file.ino(), size: file.size(), modified });
            }
        }
        Ok(stamps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(name: &str) -> Seen {
        Seen::There(name.to_owned())
    }

    #[test]
    fn sees_what_is_new_changed_and_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::new(dir.path(), |name| name.len() == 1);
        assert!(!files.is_listed());
        assert_eq!(files.look(&Look::All), []);
        assert!(files.is_listed());
        for name in ["a", "other", "."] {
            let _ = fs::write(dir.path().join(name), "1");
        }
        assert_eq!(files.look(&Look::All), [there("a")]);
        assert_eq!(files.look(&Look::All), []);
        fs::write(dir.path().join("a"), "22").unwrap();
        assert_eq!(files.look(&Look::All), [there("a")]);
        fs::remove_file(dir.path().join("a")).unwrap();
        assert_eq!(files.look(&Look::All), [Seen::Gone("a".to_owned())]);
        assert_eq!(files.look(&Look::All), []);
    }

    #[test]
    fn a_file_that_is_being_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::new(dir.path(), |_| true);
        let (half, whole) = (dir.path().join("half"), dir.path().join("whole"));
        fs::write(&half, "").unwrap();
        fs::write(&whole, "1").unwrap();
        let closed = Look::Closed(BTreeSet::from(["whole".to_owned()]));
        assert_eq!(files.look(&closed), [there("whole")]);
        assert_eq!(files.look(&Look::Passing), []);
        fs::write(&half, "1").unwrap();
        assert_eq!(files.look(&Look::Passing), []);
        assert_eq!(files.look(&Look::Passing), [there("half")]);
    }

    #[test]
    fn a_directory_that_vanishes_takes_nothing_back() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("files");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("a"), "1").unwrap();
        let mut files = Files::new(&place, |_| true);
        assert_eq!(files.look(&Look::All).len(), 1);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(files.look(&Look::All), []);
        assert!(!files.is_listed());
    }
}
