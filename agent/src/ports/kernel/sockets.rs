//! Load balancing by socket: programs at a cgroup, for the sockets of everything below it.

use std::{
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use aya::{EbpfLoader, VerifierLogLevel, programs::Program};
use volvox_bpf_progs::{
    Features, SOCKET_OBJECT, SocketHook, build_hash, layouts::NodeRow, maps::MAPS,
    object::HOST_NETNS,
};

use super::{
    error::DatapathError,
    generation,
    loader::{chain, persist},
    maps::Maps,
    pins::{Pins, bpffs, make_dir, names, remove_dir, rename, unpin},
    sys,
};
use crate::netns::Netns;

/// Suffix of a pin that is about to take another one's place.
const INCOMING: &str = "_new";

/// Where the kernel knows a hook, `enum bpf_attach_type`.
const fn attach_type(hook: SocketHook) -> u32 {
    match hook {
        SocketHook::Bind4 => 8,
        SocketHook::Bind6 => 9,
        SocketHook::Connect4 => 10,
        SocketHook::Connect6 => 11,
        SocketHook::PostBind4 => 12,
        SocketHook::PostBind6 => 13,
        SocketHook::SendMsg4 => 14,
        SocketHook::SendMsg6 => 15,
        SocketHook::RecvMsg4 => 19,
        SocketHook::RecvMsg6 => 20,
        SocketHook::GetPeerName4 => 29,
        SocketHook::GetPeerName6 => 30,
        SocketHook::SockRelease => 34,
    }
}

/// A cgroup, open, and its number.
struct Cgroup {
    directory: File,
    id: u64,
}

impl Cgroup {
    fn open(path: &Path) -> Result<Self, DatapathError> {
        let no_cgroup = |cause| DatapathError::NoCgroup { path: path.to_owned(), cause };
        let directory = File::open(path).map_err(no_cgroup)?;
        if !path.join("cgroup.procs").exists() {
            return Err(no_cgroup(io::Error::other("it has no cgroup.procs")));
        }
        let id = directory.metadata().map_err(no_cgroup)?.ino();
        Ok(Self { directory, id })
    }
}

/// What is to run: the programs, what they are loaded with, and where.
struct Wanted {
    cgroup: Cgroup,
    features: Features,
    netns: u64,
}

impl Wanted {
    /// Stands for it in the node's row. Never 0, which stands for none.
    fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (build_hash(), self.features.bits(), self.netns, self.cgroup.id).hash(&mut hasher);
        hasher.finish().max(1)
    }
}

/// Has the programs run at a cgroup, or at none. Nothing is loaded if the right ones run there
/// already. Each hook goes from one program to the next in one step, the way back before the way
/// there. Killed anywhere, the next call goes on.
pub(super) fn settle(
    pins: &Pins,
    maps: &Maps,
    features: Features,
    cgroup: Option<&Path>,
) -> Result<(), DatapathError> {
    let row = maps.node.get(&0)?.unwrap_or_default();
    let Some(path) = cgroup else {
        if row.sockets != 0 {
            remove(pins, &mut Vec::new())?;
            maps.node.put(&0, &NodeRow { sockets: 0, ..row })?;
        }
        return Ok(());
    };
    let netns = Netns::current().and_then(|netns| netns.cookie());
    let netns = netns.map_err(|error| DatapathError::Load { cause: error.to_string() })?;
    let wanted = Wanted { cgroup: Cgroup::open(path)?, features, netns };
    let number = wanted.number();
    if row.sockets == number && all_run(pins, &wanted, maps) {
        return Ok(());
    }
    // Whatever happens now, it is not what the row says.
    maps.node.put(&0, &NodeRow { sockets: number ^ 1, ..row })?;
    attach(pins, &wanted)?;
    maps.node.put(&0, &NodeRow { sockets: number, ..row })?;
    tracing::info!(cgroup = %path.display(), "load is balanced by socket");
    Ok(())
}

/// Whether each hook's link is at the cgroup, and its program uses the maps that are open. What the
/// programs are, the node's row says.
fn all_run(pins: &Pins, wanted: &Wanted, maps: &Maps) -> bool {
    SocketHook::ALL.iter().all(|hook| {
        let link = sys::get(&place(pins, *hook)).and_then(sys::link_cgroup);
        link.is_ok_and(|(program, cgroup)| {
            let program = sys::program_by_id(program).and_then(generation::Program::of);
            cgroup == wanted.cgroup.id && program.is_ok_and(|it| it.uses(maps))
        })
    })
}

/// Loads the programs over the pinned maps and has each hook run its own.
fn attach(pins: &Pins, wanted: &Wanted) -> Result<(), DatapathError> {
    let load = |level| -> Result<_, Box<dyn std::error::Error>> {
        let globals = wanted.features.globals();
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(level);
        for spec in MAPS {
            loader.map_pin_path(spec.name, pins.map(spec.name));
        }
        for (name, value) in &globals {
            loader.override_global(name, value, false);
        }
        loader.override_global(HOST_NETNS, &wanted.netns, true);
        let mut object = loader.load(SOCKET_OBJECT)?;
        for hook in SocketHook::ALL {
            match program(&mut object, hook)? {
                Program::CgroupSockAddr(program) => persist(|| program.load())?,
                Program::CgroupSock(program) => persist(|| program.load())?,
                _ => return Err(format!("{} is no program of a cgroup", hook.program()).into()),
            }
        }
        Ok(object)
    };
    let mut object = load(VerifierLogLevel::DISABLE)
        .or_else(|_| load(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS))
        .map_err(|error| DatapathError::Load { cause: chain(error.as_ref()) })?;
    let directory = pins.socket_links();
    make_dir(&directory).map_err(|e| bpffs("make", directory, e))?;
    for hook in SocketHook::ALL {
        let failed =
            |cause: Box<dyn std::error::Error>| DatapathError::Load { cause: chain(&*cause) };
        let fd = match program(&mut object, hook).map_err(failed)? {
            Program::CgroupSockAddr(program) => program.fd(),
            Program::CgroupSock(program) => program.fd(),
            _ => continue,
        };
        let fd = fd.map_err(|error| failed(error.into()))?;
        run(pins, wanted, hook, fd.as_fd())?;
    }
    Ok(())
}

fn program(
    object: &mut aya::Ebpf,
    hook: SocketHook,
) -> Result<&mut Program, Box<dyn std::error::Error>> {
    let found = object.program_mut(hook.program());
    found.ok_or_else(|| format!("the object has no {}", hook.program()).into())
}

/// Has a hook's link run a program; makes the link if there is none at this cgroup.
fn run(
    pins: &Pins,
    wanted: &Wanted,
    hook: SocketHook,
    program: BorrowedFd<'_>,
) -> Result<(), DatapathError> {
    let path = place(pins, hook);
    let refused = |error| super::error::refused("attach", hook.program(), &error);
    let pinned: io::Result<(OwnedFd, u32, u64)> = sys::get(&path).and_then(|link| {
        let (program, cgroup) = sys::link_cgroup(&link)?;
        Ok((link, program, cgroup))
    });
    if let Ok((link, before, cgroup)) = pinned
        && cgroup == wanted.cgroup.id
    {
        let before = sys::program_by_id(before).map_err(refused)?;
        return Ok(sys::link_update(link, program, before).map_err(refused)?);
    }
    let cgroup = wanted.cgroup.directory.as_raw_fd().cast_unsigned();
    let link = sys::link_create(program, cgroup, attach_type(hook)).map_err(refused)?;
    let incoming = incoming(pins, hook);
    unpin(&incoming).map_err(|e| bpffs("remove", incoming.clone(), e))?;
    sys::pin(&link, &incoming).map_err(|e| bpffs("pin a link at", incoming.clone(), e))?;
    rename(&incoming, &path).map_err(|e| bpffs("replace", path, e))
}

fn place(pins: &Pins, hook: SocketHook) -> PathBuf {
    pins.socket_links().join(hook.program())
}

fn incoming(pins: &Pins, hook: SocketHook) -> PathBuf {
    pins.socket_links().join(format!("{}{INCOMING}", hook.program()))
}

/// Removes every link, the way there before the way back; each that there was is named.
pub(super) fn remove(pins: &Pins, removed: &mut Vec<String>) -> Result<(), DatapathError> {
    for hook in SocketHook::ALL.into_iter().rev() {
        for path in [place(pins, hook), incoming(pins, hook)] {
            if unpin(&path).map_err(|e| bpffs("remove", path.clone(), e))? {
                removed.push(format!("link {} of a cgroup", hook.program()));
            }
        }
    }
    let mut directory = pins.socket_links();
    // What somebody else still has something in stays.
    for _ in 0..3 {
        if names(&directory).is_ok_and(|names| names.is_empty()) {
            let _ = remove_dir(&directory);
        }
        directory.pop();
    }
    Ok(())
}
