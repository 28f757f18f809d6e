//! The file of a flight recorder: how it is allocated and mapped, and how it is read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatfs},
    io::Errno,
};
use volvox_actors::host::flight;
use volvox_system::mapping::Mapping;

use super::FlightFileError;

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

/// As much of a ring as says whose it is, and whether there is a record.
const FRONT_BYTES: u64 = 4096;

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
    Mapping::of_exposed_file(file, bytes as usize)
        .map_err(|cause| trouble("map", &cause, "see the limits of memory"))
}

fn write_zeros(mut file: &File, bytes: u32) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(bytes.into()), &mut file).map(drop)
}

/// Reads a ring, or its first bytes. It is not mapped: whoever cuts it short meanwhile would kill the
/// reader.
pub(super) fn content(path: &Path, bytes: u64) -> Result<Vec<u8>, FlightFileError> {
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
    if !file.metadata().map_err(open)?.is_file() {
        return Err(open(io::Error::other("it is no file")));
    }
    let mut content = Vec::new();
    file.take(bytes).read_to_end(&mut content).map_err(open)?;
    Ok(content)
}

/// Whether it is a ring into which nobody has written a record, or even its front.
pub(super) fn is_unwritten(path: &Path) -> bool {
    let front = content(path, FRONT_BYTES);
    front.is_ok_and(|front| !front.is_empty() && flight::is_unwritten(front.as_slice()))
}

/// The number of the life that wrote a ring.
pub(super) fn life(path: &Path) -> Option<u64> {
    let front = content(path, FRONT_BYTES).ok().filter(|front| !front.is_empty())?;
    match flight::birth(front.as_slice()) {
        Ok(birth) => Some(birth.life),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "flight recorder of the life before");
            None
        }
    }
}
