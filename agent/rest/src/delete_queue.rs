//! Deletions asked for while the agent is dead.
//!
//! The CNI plugin cannot wait for an agent: a pod that is gone is gone. It writes what is to be
//! deleted into a directory, one file each, and the agent does it when it starts. A lock keeps the
//! two apart: the plugin writes under a shared lock, the agent holds the exclusive one from its
//! start until it answers requests. A plugin that gets the lock therefore finds either an agent
//! that answers, or none at all; no deletion falls between.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::models::EndpointBatchDeleteRequest;

/// Directory of the queue below the agent's run directory.
pub const DIRECTORY: &str = "deleteQueue";
/// How long to wait for the lock: its holder is starting, or writing one file.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(10);

const LOCK_FILE: &str = "lockfile";
const SUFFIX: &str = "delete";
const BAD_SUFFIX: &str = "bad";
const DRAFT_SUFFIX: &str = "tmp";
/// The longest entry read, bytes; a container's identifier has 64.
const ENTRY_LIMIT: u64 = 4096;

/// Why the queue cannot be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DeleteQueueError {
    /// A step on disk failed.
    #[error("{op} {path}: {source}; see that the directory is writable and has space left")]
    Disk {
        /// The step, as a verb.
        op: &'static str,
        /// The file or directory.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The lock is held by somebody else for too long.
    #[error(
        "lock {path}: held for more than {after:?}; see with `fuser {path}` whether its holder hangs"
    )]
    Busy {
        /// The lock file.
        path: String,
        /// How long it was waited for.
        after: Duration,
    },
}

/// The queue's directory.
#[derive(Clone, Debug)]
pub struct DeleteQueue {
    dir: PathBuf,
}

/// What an entry wants deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Every endpoint of that container.
    Container(String),
    /// The endpoint with that id, with its prefix, as older plugins write it.
    Endpoint(String),
}

impl Deletion {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Container(id) => {
                let request = EndpointBatchDeleteRequest { container_id: id.clone() };
                serde_json::to_vec(&request).expect("a struct of text is JSON")
            }
            Self::Endpoint(id) => id.clone().into_bytes(),
        }
    }
}

/// An entry to be carried out, then [`done`](Exclusive::done).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is to be deleted.
    pub deletion: Deletion,
    path: PathBuf,
}

/// An entry that cannot be read; it was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// Where it is now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: String,
}

/// The plugin's hold on the queue; ends when dropped.
#[derive(Debug)]
pub struct Shared {
    dir: PathBuf,
    _lock: File,
}

/// The agent's hold on the queue; ends when dropped.
#[derive(Debug)]
pub struct Exclusive {
    dir: PathBuf,
    _lock: File,
}

impl DeleteQueue {
    /// The queue in a directory, which is made when it is first used.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Lets one write to the queue, when no agent is starting any more.
    pub fn share(&self, patience: Duration) -> Result<Shared, DeleteQueueError> {
        let lock = self.lock(FlockOperation::LockShared, patience)?;
        Ok(Shared { dir: self.dir.clone(), _lock: lock })
    }

    /// Keeps plugins from writing to the queue while the agent starts.
    pub fn hold(&self, patience: Duration) -> Result<Exclusive, DeleteQueueError> {
        let lock = self.lock(FlockOperation::LockExclusive, patience)?;
        Ok(Exclusive { dir: self.dir.clone(), _lock: lock })
    }

    fn lock(&self, kind: FlockOperation, patience: Duration) -> Result<File, DeleteQueueError> {
        fs::create_dir_all(&self.dir).map_err(disk("create", &self.dir))?;
        let path = self.dir.join(LOCK_FILE);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(disk("open", &path))?;
        let (sender, receiver) = mpsc::channel();
        // flock(2) knows no deadline, so a thread waits for it. Should it come too late, the
        // thread drops the file, and with it the lock.
        thread::spawn(move || {
            let result = flock(&file, kind).map(|()| file);
            drop(sender.send(result));
        });
        match receiver.recv_timeout(patience) {
            Ok(result) => result.map_err(|errno| disk("lock", &path)(errno.into())),
            Err(_) => {
                Err(DeleteQueueError::Busy { path: path.display().to_string(), after: patience })
            }
        }
    }
}

impl Shared {
    /// Asks for a deletion. To ask twice is to ask once: the entry is named for its content.
    pub fn put(&self, deletion: &Deletion) -> Result<(), DeleteQueueError> {
        let dir = &self.dir;
        let content = deletion.to_bytes();
        let name = hex(&Sha256::digest(&content));
        let path = dir.join(format!("{name}.{SUFFIX}"));
        let draft = dir.join(format!("{name}.{}.{DRAFT_SUFFIX}", std::process::id()));
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(&content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|source| {
            drop(fs::remove_file(&draft));
            disk("write", &path)(source)
        })
    }
}

impl Exclusive {
    /// Reads the queue, in the order of the entries' names. What cannot be read is set aside under
    /// another name, so that it neither blocks the others nor is lost.
    pub fn read(&self) -> Result<(Vec<Entry>, Vec<BadEntry>), DeleteQueueError> {
        let dir = &self.dir;
        let mut paths = fs::read_dir(dir)
            .and_then(|files| files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>())
            .map_err(disk("read", dir))?;
        let has =
            |path: &Path, expected: &str| path.extension().is_some_and(|suffix| suffix == expected);
        for draft in paths.iter().filter(|path| has(path, DRAFT_SUFFIX)) {
            // Its writer was killed: one that lives would hold the lock.
            fs::remove_file(draft).map_err(disk("remove", draft))?;
        }
        paths.retain(|path| has(path, SUFFIX));
        paths.sort();
        let mut entries = Vec::new();
        let mut bad = Vec::new();
        for path in paths {
            let bytes = match content(&path) {
                Ok(bytes) => bytes,
                // It may be read at the next start; until then it is desired as before.
                Err(error) => {
                    let path = path.display();
                    tracing::error!(%path, %error, "a deletion cannot be read and stays in the queue");
                    continue;
                }
            };
            match bytes.and_then(|bytes| parse(&bytes)) {
                Ok(deletion) => entries.push(Entry { deletion, path }),
                Err(cause) => bad.push(set_aside(path, cause)?),
            }
        }
        Ok((entries, bad))
    }

    /// Takes a deletion that was carried out off the queue. An agent killed before carries it out
    /// again, which finds nothing to delete.
    pub fn done(&self, entry: &Entry) -> Result<(), DeleteQueueError> {
        match fs::remove_file(&entry.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(disk("remove", &entry.path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// What an entry says, or what is wrong with it; fails if nobody knows.
fn content(path: &Path) -> io::Result<Result<Vec<u8>, String>> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(Err("not a file".into()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(ENTRY_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ENTRY_LIMIT {
        return Ok(Err(format!("longer than {ENTRY_LIMIT} bytes")));
    }
    Ok(Ok(bytes))
}

fn parse(bytes: &[u8]) -> Result<Deletion, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?.trim();
    if text.starts_with('{') {
        let request: EndpointBatchDeleteRequest =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        if request.container_id.is_empty() {
            return Err("container-id is missing or empty".into());
        }
        return Ok(Deletion::Container(request.container_id));
    }
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("neither JSON nor an endpoint's id".into());
    }
    Ok(Deletion::Endpoint(text.to_owned()))
}

fn set_aside(path: PathBuf, cause: String) -> Result<BadEntry, DeleteQueueError> {
    let aside = path.with_extension(BAD_SUFFIX);
    fs::rename(&path, &aside).map_err(disk("set aside", &path))?;
    Ok(BadEntry { path: aside, cause })
}

fn disk(op: &'static str, path: &Path) -> impl Fn(io::Error) -> DeleteQueueError {
    let path = path.display().to_string();
    move |source| DeleteQueueError::Disk { op, path: path.clone(), source }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
