use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatfs},
    io::Errno,
};
use volvox_actors::host::flight;

use super::{super::mapping::Mapping, FlightFileError};

/// File systems on which what was allocated can be written, whatever else fills them: tmpfs, ext2 to
/// ext4, XFS, and overlays on such.
const KEEPS_ITS_WORD: [u64; 4] = [0x0102_1994, 0xef53, 0x5846_5342, 0x794c_7630];

/// Why a ring has no file.
#[derive(Debug, thiserror::Error)]
#[error(
    "flight recorder in memory only, lost with this process: {op} {}: {cause}; {remedy}",
    .path.display()
)]
pub(super) struct FileTrouble {
    op: &'static str,
    path: PathBuf,
    cause: String,
    remedy: &'static str,
}

/// Makes the file, with all its room, and maps it.
pub(super) fn create(path: &Path, bytes: u32) -> Result<Mapping, FileTrouble> {
    let made = allocate(path, bytes);
    if made.is_err() {
        // A file that is no ring would only be in the way.
        let _ = fs::remove_file(path);
    }
    made
}

fn allocate(path: &Path, bytes: u32) -> Result<Mapping, FileTrouble> {
    let trouble = |op, cause: &dyn ToString, remedy| FileTrouble {
        op,
        path: path.to_owned(),
        cause: cause.to_string(),
        remedy,
    };
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(path);
    let file = file.map_err(|cause| trouble("make", &cause, "make --state-dir writable"))?;
    let system =
        fstatfs(&file).map_err(|cause| trouble("look at", &cause, "see the kernel's log"))?;
    if !KEEPS_ITS_WORD.contains(&(system.f_type as u64)) {
        let cause = format!("room on a file system of type {:#x} is no promise", system.f_type);
        return Err(trouble("allocate", &cause, "put --state-dir on tmpfs, ext4 or XFS"));
    }
    match fallocate(&file, FallocateFlags::empty(), 0, bytes.into()) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP) => write_zeros(&file, bytes)
            .map_err(|cause| trouble("fill", &cause, "make room, or take less of it"))?,
        Err(cause) => {
            let remedy = "make room there, or lower --flight-recorder-size";
            return Err(trouble("allocate", &cause, remedy));
        }
    }
    Mapping::of_file(&file, bytes as usize, true)
        .map_err(|cause| trouble("map", &cause, "see the limits of memory"))
}

fn write_zeros(mut file: &File, bytes: u32) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes.into()), &mut file).map(drop)
}

/// Maps a ring to be read; `None` if there is nothing in it.
pub(super) fn map_existing(path: &Path) -> Result<Option<Mapping>, FlightFileError> {
    let open = |cause: io::Error| {
        let remedy = match cause.kind() {
            io::ErrorKind::NotFound => {
                "no agent recorded there: name its --state-dir, or a file of its recorder"
            }
            io::ErrorKind::PermissionDenied => "run it as root",
            _ => "name a file of a flight recorder",
        };
        FlightFileError::Open { path: path.to_owned(), cause, remedy }
    };
    let file = File::open(path).map_err(open)?;
    let meta = file.metadata().map_err(open)?;
    if !meta.is_file() {
        return Err(open(io::Error::other("it is no file")));
    }
    let bytes = usize::try_from(meta.len()).unwrap_or(usize::MAX) & !7;
    if bytes == 0 {
        return Ok(None);
    }
    Mapping::of_file(&file, bytes, false).map(Some).map_err(open)
}

/// Whether it is a ring into which nobody has written a record, or even its front.
pub(super) fn is_unwritten(path: &Path) -> bool {
    let mapping = map_existing(path).ok().flatten();
    mapping.is_some_and(|mapping| flight::is_unwritten(mapping.words()))
}

/// The number of the life that wrote a ring.
pub(super) fn life(path: &Path) -> Option<u64> {
    let mapping = map_existing(path).ok().flatten()?;
    match flight::birth(mapping.words()) {
        Ok(birth) => Some(birth.life),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "flight recorder of the life before");
            None
        }
    }
}
