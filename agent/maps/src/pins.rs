//! Where everything is pinned below the directory given as `--bpf-root`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with, statfs};
use volvox_actors::{
    model::EndpointId,
    ports::{Hook, KernelError, Refusal},
};
use volvox_bpf_progs::maps;

use super::{
    crash,
    error::{DatapathError, refused},
};

/// `BPF_FS_MAGIC`.
const BPF_FS: u64 = 0xcafe_4a11;
/// Prefix of pins that are about to take another one's place.
pub const INCOMING: &str = "volvox_new_";

/// The pins' directories.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
    takes_over: bool,
}

impl Pins {
    /// Paths only; nothing is looked at.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), takes_over: false }
    }

    /// Checks that the directory is on a BPF file system and makes those below it.
    pub fn prepare(root: &Path) -> Result<Self, DatapathError> {
        let no_bpffs = || DatapathError::NoBpffs { path: root.to_owned() };
        let kind = statfs(root).map_err(|_| no_bpffs())?.f_type;
        if kind as u64 & 0xffff_ffff != BPF_FS {
            return Err(no_bpffs());
        }
        let pins = Self::at(root);
        for directory in [pins.maps(), pins.programs(), pins.endpoints()] {
            make_dir(&directory).map_err(|cause| bpffs("make", directory, cause))?;
        }
        Ok(pins)
    }

    /// Removes pins that a crash kept from taking another one's place.
    pub fn sweep(&self) -> Result<(), DatapathError> {
        let directory = self.maps();
        let left = names(&directory).map_err(|e| bpffs("list", directory.clone(), e))?;
        for name in left.iter().filter(|name| name.starts_with(INCOMING)) {
            let path = directory.join(name);
            unpin(&path).map_err(|e| bpffs("remove", path, e))?;
        }
        Ok(())
    }

    /// The same for an agent that takes over what Cilium left, or not.
    pub fn taking_over(self, takes_over: bool) -> Self {
        Self { takes_over, ..self }
    }

    /// Whether links that run programs of Cilium may be given ones of ours.
    pub fn take_over(&self) -> bool {
        self.takes_over
    }

    /// Directory of the maps.
    pub fn maps(&self) -> PathBuf {
        self.root.join("tc/globals")
    }

    /// A map.
    pub fn map(&self, name: &str) -> PathBuf {
        self.maps().join(name)
    }

    /// A map that is about to take a pinned one's place.
    pub fn incoming_map(&self, name: &str) -> PathBuf {
        self.maps().join(format!("{INCOMING}{name}"))
    }

    /// An endpoint's policy map.
    pub fn policy(&self, endpoint: EndpointId) -> PathBuf {
        self.map(&maps::policy_pin_name(endpoint.0))
    }

    /// Directory of the program generations.
    pub fn programs(&self) -> PathBuf {
        self.root.join("volvox/progs")
    }

    /// Directory of the endpoints' links.
    pub fn endpoints(&self) -> PathBuf {
        self.root.join("cilium/endpoints")
    }

    /// Endpoints that have a directory of links.
    pub fn linked_endpoints(&self) -> Result<Vec<EndpointId>, KernelError> {
        let all = listed(&self.endpoints())?;
        Ok(all.iter().filter_map(|name| name.parse().ok()).map(EndpointId).collect())
    }

    /// Endpoints that have a pinned policy map.
    pub fn policies(&self) -> Result<Vec<EndpointId>, KernelError> {
        let id = |name: &String| {
            let digits = name.strip_prefix(maps::POLICY.name)?.strip_prefix('_')?;
            digits.parse().ok().map(EndpointId)
        };
        Ok(listed(&self.maps())?.iter().filter_map(id).collect())
    }

    /// Directory of one endpoint's links.
    pub fn links(&self, endpoint: EndpointId) -> PathBuf {
        self.endpoints().join(endpoint.to_string()).join("links")
    }

    /// A hook's link.
    pub fn link(&self, endpoint: EndpointId, hook: Hook) -> PathBuf {
        self.links(endpoint).join(program_name(hook))
    }

    /// Directory of the links at devices.
    pub fn devices(&self) -> PathBuf {
        self.root.join("cilium/devices")
    }

    /// Directory of one device.
    pub fn device(&self, name: &str) -> PathBuf {
        self.devices().join(name)
    }

    /// Directory of the links that balance load by socket.
    pub fn socket_links(&self) -> PathBuf {
        self.root.join("cilium/socketlb/links/cgroup")
    }

    /// A hook's link whose filter may still be there.
    pub fn unsettled_link(&self, endpoint: EndpointId, hook: Hook) -> PathBuf {
        self.links(endpoint).join(format!("{}_unsettled", program_name(hook)))
    }

    /// The device of the file system that is mounted there.
    pub fn device_of_root(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.root)?.dev())
    }

    /// Notes that links were taken over whose pins are elsewhere, for this life and later ones. A BPF
    /// file system has no files: a directory says it.
    pub fn has_inherited(&self) -> io::Result<()> {
        make_dir(&self.inherited())
    }

    /// Whether links may have pins elsewhere as well.
    pub fn are_inherited(&self) -> bool {
        self.inherited().is_dir()
    }

    /// The directory that says so.
    pub fn inherited(&self) -> PathBuf {
        self.root.join("volvox/inherited")
    }

    /// The directory given as `--bpf-root`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Both hooks.
pub const HOOKS: [Hook; 2] = [Hook::FromContainer, Hook::ToContainer];

/// The program of a hook, in the object, of its pins and filters.
pub fn program_name(hook: Hook) -> &'static str {
    match hook {
        Hook::FromContainer => "cil_from_container",
        Hook::ToContainer => "cil_to_container",
    }
}

/// Makes a directory and its parents.
pub fn make_dir(path: &Path) -> io::Result<()> {
    // Asking first keeps an unchanged start free of refused writes on a read-only file system.
    if path.is_dir() {
        return Ok(());
    }
    crash::step();
    fs::create_dir_all(path)
}

/// Removes an empty directory.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    crash::step();
    fs::remove_dir(path)
}

/// Renames a pin, in one step, also over another one.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    crash::step();
    fs::rename(from, to)
}

/// Renames a directory, in one step, also over one that is not empty: that one then has the other
/// name.
pub fn put_dir(from: &Path, to: &Path) -> io::Result<()> {
    crash::step();
    if to.is_dir() {
        return Ok(renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?);
    }
    fs::rename(from, to)
}

/// Removes a pin; false if there was none.
pub fn unpin(path: &Path) -> io::Result<bool> {
    crash::step();
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn listed(directory: &Path) -> Result<Vec<String>, KernelError> {
    names(directory).map_err(|error| refused("list", directory.to_string_lossy(), &error))
}

/// Names of what a directory holds; an absent directory holds nothing.
pub fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// An error about a file or directory of the BPF file system.
pub fn bpffs(op: &'static str, path: PathBuf, cause: io::Error) -> DatapathError {
    let remedy = match cause.raw_os_error() {
        _ if is_blocked(op, &path) => BLOCKED,
        Some(libc::EROFS) => "mount the BPF file system writable (`mount -o remount,rw`)",
        Some(libc::EPERM | libc::EACCES) => "run with CAP_BPF and CAP_SYS_ADMIN",
        Some(libc::ENOMEM) => "free memory or raise the agent's memory limit",
        _ => "see what is at that path and whether --bpf-root is right",
    };
    DatapathError::Bpffs { op, path, cause, remedy }
}

/// An error about an endpoint's pin, as the actors understand it.
pub fn refused_pin(op: &'static str, path: &Path, cause: &io::Error) -> KernelError {
    let error = refused(op, path.to_string_lossy(), cause);
    match is_blocked(op, path) {
        true => KernelError { remedy: BLOCKED, refusal: Refusal::Other, ..error },
        false => error,
    }
}

/// Which the kernel reports as if rights were missing.
const BLOCKED: &str =
    "a directory stands in the place of a pin: see what made it, then remove it with rmdir";

/// Whether a directory stands where a pin is meant to be.
fn is_blocked(op: &str, path: &Path) -> bool {
    !["make", "list"].contains(&op) && path.is_dir()
}
