use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use volvox_actors::state::StateFiles;

use super::Steps;

/// Longest file that is read from the state directory, in bytes; a record has 2 to 10 thousand.
const STATE_FILE_MAX: u64 = 1 << 20;
/// Longest file that is read from the library directory, in bytes: 65,000 identities fit.
const LIB_FILE_MAX: u64 = 64 << 20;

/// Reads the state and library directories.
#[derive(Clone, Debug)]
pub struct DiskFiles {
    steps: Steps,
}

impl DiskFiles {
    /// A reader of the directories in which `steps` writes.
    pub fn new(steps: &Steps) -> Self {
        Self { steps: steps.clone() }
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        self.steps.resolve(path.as_ref()).map_err(|error| error.cause)
    }
}

impl StateFiles for DiskFiles {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let entries = match fs::read_dir(self.resolve(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| error.to_string())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            // A name that is no text, or an entry that vanished meanwhile, is not one of ours.
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let bound = if path.starts_with("lib/") { LIB_FILE_MAX } else { STATE_FILE_MAX };
        // Not blocking: what stands there might be a pipe.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        match options.open(self.resolve(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
            Ok(file) => read_bounded(&file, bound).map(Some),
        }
    }
}

fn read_bounded(mut file: &fs::File, bound: u64) -> Result<Vec<u8>, String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.len() > bound {
        return Err(format!("its {} bytes are more than the {bound} allowed", metadata.len()));
    }
    // The length was checked, and one who appends meanwhile gets no further.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.by_ref().take(bound).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
