//! Programs that are loaded, by their numbers: whose they are.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use volvox_actors::ports::{Intruder, KernelError};

use super::{
    error::refused,
    sys::{self, Map},
};

/// Whether a program is of this agent's making, of whatever version: only those know our maps.
pub fn is_ours(program: BorrowedFd<'_>) -> io::Result<bool> {
    let used = sys::program_info(program)?.map_ids;
    Ok(used
        .into_iter()
        .filter_map(|id| Map::by_id(id).ok())
        .any(|map| map.info().name.starts_with(b"volvox_")))
}

/// The same by its number; one that is gone meanwhile is nobody's.
pub fn is_ours_by_id(id: u32) -> Result<bool, KernelError> {
    let ours = sys::program_by_id(id).and_then(|program| is_ours(program.as_fd()));
    match ours {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        ours => ours.map_err(|error| refused("read", format!("program {id}"), &error)),
    }
}

/// Who a program is.
pub fn intruder(program: u32) -> Intruder {
    let name = sys::program_by_id(program).and_then(sys::program_info).map(|info| info.name);
    Intruder { program, name: name.unwrap_or_default() }
}
