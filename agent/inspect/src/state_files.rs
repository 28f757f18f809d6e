//! The state and library directories, read: sizes are bounded, and what stands there may be anything.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};
use volvox_actors::state_directory::StateFiles;

/// Longest file that is read from the state directory, in bytes; a record has 2 to 10 thousand.
const STATE_FILE_MAX: u64 = 1 << 20;
/// Longest file that is read from the library directory, in bytes: 65,000 identities fit.
const LIB_FILE_MAX: u64 = 64 << 20;

/// The directories of an agent, whether it runs or not.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    state: PathBuf,
    lib: PathBuf,
}

impl StateDirectory {
    /// With records in `state`, and what outlives a boot in `lib`.
    pub fn new(state: impl Into<PathBuf>, lib: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), lib: lib.into() }
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        let path = Path::new(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err("leads out of the state directory".to_owned());
        }
        Ok(match path.strip_prefix("lib") {
            Ok(rest) => self.lib.join(rest),
            Err(_) => self.state.join(path),
        })
    }
}

impl StateFiles for StateDirectory {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        present(directories(&self.resolve(path)?)).map(Option::unwrap_or_default)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        present(read_bounded(&self.resolve(path)?, bound(path)))
    }
}

/// That something is absent is an answer.
fn present<T>(read: io::Result<T>) -> Result<Option<T>, String> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The longest that a file of that name may be.
pub fn bound(path: &str) -> u64 {
    if path.starts_with("lib/") { LIB_FILE_MAX } else { STATE_FILE_MAX }
}

/// Names of the directories in one.
pub fn directories(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_dir = match entry.file_type() {
            // One that vanished meanwhile is not there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            kind => kind?.is_dir(),
        };
        // A name that is no text is not one of ours.
        if is_dir && let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

/// A file's content. What is no file, or too long for one of ours, has none.
pub fn read_bounded(path: &Path, bound: u64) -> io::Result<Vec<u8>> {
    // Not blocking: what stands there might be a pipe.
    let mut options = OpenOptions::new();
    let mut file =
        match options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path) {
            // A socket, or a device without a driver.
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                return Ok(Vec::new());
            }
            // A link to itself is damage, too.
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(Vec::new());
            }
            file => file?,
        };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > bound {
        tracing::warn!(path = %path.display(), bound, "no file of ours, or too long for one");
        return Ok(Vec::new());
    }
    // The length was checked, and one who appends meanwhile gets no further.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.by_ref().take(bound).read_to_end(&mut bytes)?;
    Ok(bytes)
}
