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

use aya::programs::Program;
use volvox_actors::ports::KernelError;
use volvox_bpf_progs::{Features, SOCKET_OBJECT, SocketHook, build_hash, layouts::NodeRow};
use volvox_maps::{
    error::DatapathError,
    pins::{Pins, bpffs, make_dir, names, remove_dir, rename, unpin},
    programs, sys,
};
use volvox_system::netns::Netns;

use super::{
    generation,
    link::permit,
    loader::{chain, open, persist},
    maps::Maps,
};

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
struct Desired {
    cgroup: Cgroup,
    features: Features,
    netns: u64,
}

impl Desired {
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
    let desired = Desired { cgroup: Cgroup::open(path)?, features, netns };
    let number = desired.number();
    let strays = strays(pins, &desired.cgroup, maps);
    if row.sockets == number && strays.is_empty() && all_run(pins, &desired.cgroup, maps) {
        return Ok(());
    }
    // Whatever happens now, it is not what the row says.
    maps.node.put(&0, &NodeRow { sockets: number ^ 1, ..row })?;
    attach(pins, &desired)?;
    end(&strays)?;
    maps.node.put(&0, &NodeRow { sockets: number, ..row })?;
    tracing::info!(cgroup = %path.display(), "load is balanced by socket");
    Ok(())
}

/// Whether each hook's link is at the cgroup, and its program uses the maps that are open. What the
/// programs are, the node's row says.
fn all_run(pins: &Pins, cgroup: &Cgroup, maps: &Maps) -> bool {
    SocketHook::ALL.iter().all(|hook| {
        let link = sys::get(&place(pins, *hook)).and_then(sys::link_cgroup);
        link.is_ok_and(|link| {
            let program = sys::program_by_id(link.prog_id).and_then(generation::Program::of);
            link.cgroup == cgroup.id && program.is_ok_and(|it| it.uses(maps))
        })
    })
}

/// What keeps the programs from running at a cgroup as they are to, if anything does.
pub(super) fn trouble(pins: &Pins, maps: &Maps, path: &Path) -> Option<String> {
    let cgroup = match Cgroup::open(path) {
        Ok(cgroup) => cgroup,
        Err(error) => return Some(error.to_string()),
    };
    if !all_run(pins, &cgroup, maps) {
        return Some(format!("not all programs of sockets run at {}", path.display()));
    }
    let strays = !strays(pins, &cgroup, maps).is_empty();
    strays.then(|| format!("programs of sockets run twice at {}", path.display()))
}

/// Links that run programs over maps of ours at the cgroup and that no pin leads to: an earlier run's,
/// whose BPF file system is hidden.
fn strays(pins: &Pins, cgroup: &Cgroup, maps: &Maps) -> Vec<u32> {
    let pinned: Vec<_> = SocketHook::ALL
        .iter()
        .filter_map(|hook| sys::get(&place(pins, *hook)).and_then(sys::link_cgroup).ok())
        .collect();
    let is_over_ours = |id: u32| {
        let program = sys::program_by_id(id);
        let ours = program.as_ref().is_ok_and(|it| programs::is_ours(it.as_fd()).unwrap_or(false));
        ours && program.and_then(generation::Program::of).is_ok_and(|it| it.shares(maps))
    };
    let is_stray = |id: u32| pinned.iter().all(|link| link.prog_id != id) && is_over_ours(id);
    let directory = cgroup.directory.as_raw_fd().cast_unsigned();
    let hooks = SocketHook::ALL.map(attach_type);
    let running = hooks.iter().flat_map(|hook| sys::running(directory, *hook).unwrap_or_default());
    let strays: Vec<u32> =
        running.map(|running| running.program).filter(|id| is_stray(*id)).collect();
    if strays.is_empty() {
        return Vec::new();
    }
    // The kernel says of a cgroup's programs not by which links they run: all links are asked.
    let all = std::iter::successors(sys::link_after(0).ok().flatten(), |id| {
        sys::link_after(*id).ok().flatten()
    });
    let of_strays = all.filter(|id| {
        let link = sys::link_by_id(*id).and_then(sys::link_cgroup);
        link.is_ok_and(|link| {
            link.cgroup == cgroup.id
                && hooks.contains(&link.attach_type)
                && strays.contains(&link.prog_id)
        })
    });
    of_strays.collect()
}

fn end(links: &[u32]) -> Result<(), DatapathError> {
    for id in links {
        let ended = sys::link_by_id(*id).and_then(sys::link_detach);
        let refused = |error| volvox_maps::error::refused("detach", format!("link {id}"), &error);
        ended.map_err(refused)?;
        tracing::warn!(link = id, "programs of sockets of an earlier life are detached");
    }
    Ok(())
}

/// Fails if the programs that run are all another agent's and are not to be taken over. Some of ours use no map
/// that only we have: one that does says whose all are.
fn permit_all(pins: &Pins) -> Result<(), KernelError> {
    let pinned = SocketHook::ALL.iter().filter_map(|hook| {
        let link = sys::get(&place(pins, *hook)).and_then(sys::link_cgroup).ok()?;
        sys::program_by_id(link.prog_id).ok()
    });
    let mut refused = Ok(());
    for program in pinned {
        match permit(&program, pins.take_over()) {
            Ok(()) => return Ok(()),
            error => refused = refused.and(error),
        }
    }
    refused
}

/// Loads the programs over the pinned maps and has each hook run its own.
fn attach(pins: &Pins, desired: &Desired) -> Result<(), DatapathError> {
    permit_all(pins)?;
    let settings = (desired.features, Some(desired.netns));
    let mut object = open(pins, settings, SOCKET_OBJECT, |object| {
        for hook in SocketHook::ALL {
            match program(object, hook)? {
                Program::CgroupSockAddr(program) => persist(|| program.load())?,
                Program::CgroupSock(program) => persist(|| program.load())?,
                _ => return Err(format!("{} is no program of a cgroup", hook.program()).into()),
            }
        }
        Ok(())
    })?;
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
        run(pins, desired, hook, fd.as_fd())?;
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
    desired: &Desired,
    hook: SocketHook,
    program: BorrowedFd<'_>,
) -> Result<(), DatapathError> {
    let path = place(pins, hook);
    let refused = |error| volvox_maps::error::refused("attach", hook.program(), &error);
    let pinned: io::Result<(OwnedFd, u32, u64)> = sys::get(&path).and_then(|link| {
        let info = sys::link_cgroup(&link)?;
        Ok((link, info.prog_id, info.cgroup))
    });
    if let Ok((link, before, cgroup)) = pinned
        && cgroup == desired.cgroup.id
    {
        let before = sys::program_by_id(before).map_err(refused)?;
        return Ok(sys::link_update(link, program, before).map_err(refused)?);
    }
    let cgroup = desired.cgroup.directory.as_raw_fd().cast_unsigned();
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
