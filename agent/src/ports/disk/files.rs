//! How the directories are read at the start: sizes are bounded, and errors that may pass are
//! retried.

use std::{cell::Cell, io, path::PathBuf, thread, time::Duration};

use volvox_actors::state_directory::StateFiles;
use volvox_inspect::state_files::{bound, directories, read_bounded};

use super::Steps;

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
        let most = bound(path);
        let path = self.resolve(path)?;
        self.persistently(|| read_bounded(&path, most))
    }
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
