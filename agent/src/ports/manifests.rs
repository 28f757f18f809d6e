//! The directory of manifests (`--static-cnp-path`): what a cluster would say, as files. A file that
//! cannot be read or understood is handed on as such: what it said before stays in force.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio::sync::mpsc;
use volvox_actors::model::{ApiObject, Manifest};
use volvox_inspect::manifests::objects;

use super::files::{Files, Look, Seen, follow};

/// Longest file that is read, bytes; Kubernetes keeps no larger object.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Changes that wait for the actors.
const CHANGES_MAX: usize = 16;

/// A directory of manifests, and what was last seen there.
#[derive(Debug)]
pub struct Manifests(Files);

impl Manifests {
    /// A directory of which nothing is known yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(Files::new(dir, is_manifest))
    }

    /// What every file says that is new, changed or gone since it was last seen, by name.
    pub fn look(&mut self, look: &Look) -> Vec<Manifest> {
        let seen = self.0.look(look).into_iter();
        seen.map(|seen| match seen {
            Seen::There(source) => Manifest { objects: read(&self.0.dir().join(&source)), source },
            Seen::Gone(source) => Manifest { source, objects: Ok(Vec::new()) },
        })
        .collect()
    }
}

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that watches manifests: {0}; raise the limit of threads")]
pub struct WatchError(io::Error);

/// Changes of a directory of manifests, as they come.
pub struct Watch(mpsc::Receiver<Vec<Manifest>>);

impl Watch {
    /// Goes on from what `manifests` has seen. The thread ends when this is dropped, at the next
    /// look.
    pub fn start(mut manifests: Manifests) -> Result<Self, WatchError> {
        let (changes, receiver) = mpsc::channel(CHANGES_MAX);
        let work = move || {
            let dir = manifests.0.dir().to_owned();
            follow(&dir, |look| {
                let seen = manifests.look(look);
                !changes.is_closed() && (seen.is_empty() || changes.blocking_send(seen).is_ok())
            });
        };
        volvox_system::threads::spawn("manifests", work).map_err(WatchError)?;
        Ok(Self(receiver))
    }

    /// The next changes.
    pub async fn next(&mut self) -> Option<Vec<Manifest>> {
        self.0.recv().await
    }
}

fn is_manifest(name: &str) -> bool {
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("yaml" | "yml" | "json"))
}

/// Reads the objects of a file.
fn read(path: &Path) -> Result<Vec<ApiObject>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("the file has {size} bytes, more than {FILE_BYTES_MAX}: split it"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    objects(&text).map(ApiObject::all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_files_say_and_that_they_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut manifests = Manifests::new(dir.path());
        assert_eq!(manifests.look(&Look::All), []);
        for name in ["a.yaml", "notes.txt", ".hidden.yaml"] {
            fs::write(dir.path().join(name), "kind: Pod").unwrap();
        }
        let seen = manifests.look(&Look::All);
        assert_eq!(seen.iter().map(|it| it.source.as_str()).collect::<Vec<_>>(), ["a.yaml"]);
        fs::write(dir.path().join("a.yaml"), "kind: {Pod").unwrap();
        assert!(manifests.look(&Look::All)[0].objects.is_err());
        fs::remove_file(dir.path().join("a.yaml")).unwrap();
        assert_eq!(manifests.look(&Look::All)[0].objects, Ok(Vec::new()));
    }
}
