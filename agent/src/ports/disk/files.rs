//! How the directories are read at the start: sizes are bounded, and errors that may pass are
//! retried.

use std::{
    cell::Cell,
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use volvox_actors::state_directory::StateFiles;

use super::Steps;

/// Longest file that is read from the state directory, in bytes; a record has 2 to 10 thousand.
const STATE_FILE_MAX: u64 = 1 << 20;
/// Longest file that is read from the library directory, in bytes: 65,000 identities fit.
const LIB_FILE_MAX: u64 = 64 << 20;

/// How long all that fails at first is tried again, together: a fault that passes does so soon, and
/// one that stays must not hold up the start for each file.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// Reads the state and library directories.
#[derive(Clone, Debug)]
pub struct DiskFiles {
    steps: Steps,
    patience: Cell<Duration>,
}

impl DiskFiles {
    /// A reader of the directories in which `steps` writes.
    pub fn new(steps: &Steps) -> Self {
        Self { steps: steps.clone(), patience: Cell::new(PATIENCE) }
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        self.steps.resolve(path.as_ref()).map_err(|error| error.cause)
    }

    /// Tries again while there is patience left. That something is absent is an answer.
    fn persistently<T>(&self, work: impl Fn() -> io::Result<T>) -> Result<Option<T>, String> {
        let mut pause = PAUSE;
        loop {
            let error = match work() {
                Ok(value) => return Ok(Some(value)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => error,
            };
            let left = self.patience.get();
            if left.is_zero() {
                return Err(error.to_string());
            }
            let now = pause.min(left);
            thread::sleep(now);
            self.patience.set(left - now);
            pause *= 2;
        }
    }
}

impl StateFiles for DiskFiles {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let path = self.resolve(path)?;
        Ok(self.persistently(|| directories(&path))?.unwrap_or_default())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let bound = if path.starts_with("lib/") { LIB_FILE_MAX } else { STATE_FILE_MAX };
        let path = self.resolve(path)?;
        self.persistently(|| read_bounded(&path, bound))
    }
}

fn directories(path: &Path) -> io::Result<Vec<String>> {
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

/// What is no file, or too long for one of ours, has no content.
fn read_bounded(path: &Path, bound: u64) -> io::Result<Vec<u8>> {
    // Not blocking: what stands there might be a pipe.
    let mut options = OpenOptions::new();
    let mut file = match options.read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // A socket, or a device without a driver.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(Vec::new()),
        // A link to itself is damage, too.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Vec::new()),
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_fault_that_passes_is_nothing_and_one_that_stays_holds_up_the_start_once() {
        let steps = Steps::new(PathBuf::new(), PathBuf::new());
        let files = DiskFiles::new(&steps);
        let failing = |times: u32| {
            let left = Cell::new(times);
            move || match left.replace(left.get().saturating_sub(1)) {
                0 => Ok(7),
                _ => Err(io::Error::from_raw_os_error(libc::EIO)),
            }
        };
        assert_eq!(files.persistently(failing(2)), Ok(Some(7)));
        let absent = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(files.persistently(absent), Ok(None));
        assert!(files.persistently(failing(u32::MAX)).unwrap_err().contains("Input/output"));
        let begun = Instant::now();
        for _ in 0..100 {
            assert!(files.persistently(failing(u32::MAX)).is_err());
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
}
