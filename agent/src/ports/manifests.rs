//! The directory of manifests (`--static-cnp-path`): what a cluster would say, as files.
//!
//! A change is seen by inotify and, should that miss one, by a look now and then. A file that
//! cannot be read or understood is handed on as such: what it said before stays in force.

mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use volvox_actors::workloads::Manifest;

pub use watch::{Watch, WatchError};

/// Longest file that is read, bytes; Kubernetes keeps no larger object.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// A directory of manifests, and what was last seen there.
#[derive(Debug)]
pub struct Manifests {
    dir: PathBuf,
    seen: BTreeMap<String, Stamp>,
    /// What the last look in passing found, to be believed if the next finds the same.
    passing: BTreeMap<String, Stamp>,
    /// Whether the directory could not be listed the last time.
    missing: bool,
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

impl Manifests {
    /// A directory of which nothing is known yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let (seen, passing) = Default::default();
        Self { dir: dir.into(), seen, passing, missing: false }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every file that is new, changed or gone since it was last seen, by name.
    ///
    /// A directory that cannot be listed says nothing: what its files said stays in force.
    pub fn look(&mut self, look: &Look) -> Vec<Manifest> {
        let now = match self.stamps() {
            Ok(now) => {
                self.missing = false;
                now
            }
            Err(error) => {
                if !std::mem::replace(&mut self.missing, true) {
                    let dir = self.dir.display();
                    tracing::error!(%dir, %error, "manifests cannot be listed; make the directory");
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

    fn take(&mut self, name: String, now: &BTreeMap<String, Stamp>) -> Manifest {
        let objects = match now.get(&name) {
            Some(&stamp) => {
                self.seen.insert(name.clone(), stamp);
                read(&self.dir.join(&name))
            }
            None => {
                self.seen.remove(&name);
                Ok(Vec::new())
            }
        };
        Manifest { source: name, objects }
    }

    fn stamps(&self) -> io::Result<BTreeMap<String, Stamp>> {
        let mut stamps = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if !is_manifest(&name) {
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

fn is_manifest(name: &str) -> bool {
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
    !name.starts_with('.') && matches!(suffix, Some("yaml" | "yml" | "json"))
}

/// Reads the objects of a file.
fn read(path: &Path) -> Result<Vec<Value>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("the file has {size} bytes, more than {FILE_BYTES_MAX}: split it"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    objects(&text)
}

/// Reads the objects of a text, YAML or JSON; lists are taken apart.
pub fn objects(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(|error| error.to_string())?;
        match value {
            // An empty document, such as what follows the last separator.
            Value::Null => {}
            Value::Object(mut list) if is_list(&list) => match list.remove("items") {
                Some(Value::Array(items)) => objects.extend(items),
                _ => return Err("a list without items".to_owned()),
            },
            object => objects.push(object),
        }
    }
    Ok(objects)
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    object.contains_key("items")
        && object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_documents_and_takes_lists_apart() {
        let text = "kind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems:\n- kind: Pod\n---\n";
        let kinds: Vec<Value> = objects(text).unwrap();
        assert_eq!(kinds.len(), 2);
        assert!(objects("{]").is_err());
        assert!(objects("kind: List\nitems: 3").is_err());
    }

    #[test]
    fn sees_what_is_new_changed_and_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut manifests = Manifests::new(dir.path());
        assert_eq!(manifests.look(&Look::All), []);
        fs::write(dir.path().join("a.yaml"), "kind: Pod").unwrap();
        fs::write(dir.path().join("notes.txt"), "kind: Pod").unwrap();
        fs::write(dir.path().join(".hidden.yaml"), "kind: Pod").unwrap();
        let seen = manifests.look(&Look::All);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].source, "a.yaml");
        assert_eq!(manifests.look(&Look::All), []);
        fs::write(dir.path().join("a.yaml"), "kind: {Pod").unwrap();
        assert!(manifests.look(&Look::All)[0].objects.is_err());
        fs::remove_file(dir.path().join("a.yaml")).unwrap();
        assert_eq!(manifests.look(&Look::All)[0].objects, Ok(Vec::new()));
        assert_eq!(manifests.look(&Look::All), []);
    }

    #[test]
    fn a_file_that_is_being_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut manifests = Manifests::new(dir.path());
        let (half, whole) = (dir.path().join("half.yaml"), dir.path().join("whole.yaml"));
        fs::write(&half, "").unwrap();
        fs::write(&whole, "kind: Pod").unwrap();
        let closed = Look::Closed(BTreeSet::from(["whole.yaml".to_owned()]));
        let seen = manifests.look(&closed);
        assert_eq!(seen.iter().map(|it| it.source.as_str()).collect::<Vec<_>>(), ["whole.yaml"]);
        assert_eq!(manifests.look(&Look::Passing), []);
        fs::write(&half, "kind: Pod").unwrap();
        assert_eq!(manifests.look(&Look::Passing), []);
        assert_eq!(manifests.look(&Look::Passing).len(), 1);
    }

    #[test]
    fn a_directory_that_vanishes_takes_nothing_back() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("manifests");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("a.yaml"), "kind: Pod").unwrap();
        let mut manifests = Manifests::new(&place);
        assert_eq!(manifests.look(&Look::All).len(), 1);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(manifests.look(&Look::All), []);
    }
}
