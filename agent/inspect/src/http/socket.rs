//! The unix socket of the API: how it is put in place, with which rights, and how it is removed.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

/// Rights of the socket: its owner and its group may speak to the agent.
const SOCKET_MODE: u32 = 0o660;

/// Why the API cannot listen, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another agent answers there.
    #[error(
        "another agent listens on {0}: stop it, or give this one another --socket-path and \
         --state-dir"
    )]
    Taken(PathBuf),
    /// Something that is no socket is in the way.
    #[error("{0} is in the way of the API's socket: it is no socket; move it away")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot {step} {path}: {cause}; see that its directory exists and can be written")]
    System {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}

/// Listens on a unix socket. What a dead agent left there is replaced in one step; a living
/// agent's socket is left alone.
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    make_way(path)?;
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(system("make directory", dir))?;
    }
    // Bound beside its place and renamed there, it is never seen with other rights.
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let result = bind_at(&beside, path);
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

/// Removes the socket, if it is still the one of this listener.
pub fn unbind(path: &Path, inode: u64) {
    use std::os::unix::fs::MetadataExt;
    if fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode) {
        // Nobody is hurt by a socket that stays: the next agent replaces it.
        let _ = fs::remove_file(path);
    }
}

/// The socket's inode, for [`unbind`].
pub fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(path).map_or(0, |found| found.ino())
}

fn bind_at(beside: &Path, path: &Path) -> Result<UnixListener, SocketError> {
    let _ = fs::remove_file(beside);
    let listener = UnixListener::bind(beside).map_err(system("listen on", beside))?;
    fs::set_permissions(beside, fs::Permissions::from_mode(SOCKET_MODE))
        .map_err(system("set the rights of", beside))?;
    listener.set_nonblocking(true).map_err(system("set up", beside))?;
    fs::rename(beside, path).map_err(system("put the socket at", path))?;
    Ok(listener)
}

fn make_way(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at", path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::Taken(path.to_owned())),
        // Somebody listens, with so many waiting already that the kernel refuses more.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(SocketError::Taken(path.to_owned()))
        }
        Err(_) => Ok(()),
    }
}

fn system(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |cause| SocketError::System { step, path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_agents_socket_is_replaced_and_a_living_ones_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/agent.sock");
        let first = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        let error = bind(&path).unwrap_err();
        assert!(matches!(error, SocketError::Taken(_)), "{error}");
        drop(first);
        let _second = bind(&path).unwrap();
        unbind(&path, u64::MAX);
        assert!(UnixStream::connect(&path).is_ok(), "only the own socket is removed");
        unbind(&path, inode(&path));
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path).unwrap_err(), SocketError::NotASocket(_)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
