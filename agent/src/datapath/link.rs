//! Links that are pinned: each runs one program at one hook of one interface, also while there is no
//! agent.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use volvox_actors::ports::KernelError;
use volvox_maps::{
    error::{CILIUM_PROGRAMS, foreign, refused},
    pins::{Pins, make_dir, refused_pin, unpin},
    programs::is_ours,
    sys::{self, TCX_INGRESS},
};
use volvox_system::netlink::Direction;

use super::{
    generation::Program,
    writes::{Writes, count},
};

/// A place where a program runs: the program's name, and where the kernel knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) program: &'static str,
    pub(super) attach_type: u32,
}

impl Spot {
    /// Which packets of the interface come through there.
    pub(super) fn direction(self) -> Direction {
        match self.attach_type {
            TCX_INGRESS => Direction::Ingress,
            _ => Direction::Egress,
        }
    }
}

/// A link that is pinned.
pub(super) struct PinnedLink {
    fd: OwnedFd,
    /// Its number in the kernel.
    pub(super) id: u32,
    /// 0 if the interface is gone, or somebody detached it.
    pub(super) ifindex: u32,
    /// Number of the program that it runs.
    pub(super) program: u32,
}

impl PinnedLink {
    /// Opens one; `None` if there is no pin.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, KernelError> {
        let open = || {
            let fd = sys::get(path)?;
            let info = sys::link_info(&fd)?;
            io::Result::Ok(Self { fd, id: info.id, ifindex: info.ifindex, program: info.prog_id })
        };
        match open() {
            Ok(link) => Ok(Some(link)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused_pin("open", path, &error)),
        }
    }

    /// Pins one of an earlier run by its number, in place of what is pinned there.
    pub(super) fn adopt(
        id: u32,
        path: &Path,
        pins: &Pins,
        writes: &Writes,
    ) -> Result<Self, KernelError> {
        let failed = |error| refused("take over", format!("link {id} of an earlier life"), &error);
        let fd = sys::link_by_id(id).map_err(failed)?;
        let info = sys::link_info(&fd).map_err(failed)?;
        let directory = path.parent().unwrap_or(path);
        make_dir(directory).map_err(|e| refused_pin("make", directory, &e))?;
        pins.has_inherited().map_err(|e| refused_pin("note", path, &e))?;
        unpin(path).map_err(|e| refused_pin("remove", path, &e))?;
        sys::pin(&fd, path).map_err(|e| refused_pin("pin a link at", path, &e))?;
        count(&writes.links);
        tracing::warn!(link = id, path = %path.display(), "a link whose pin was lost is taken over");
        Ok(Self { fd, id, ifindex: info.ifindex, program: info.prog_id })
    }

    /// Makes one and pins it, in place of what is pinned there. Without the pin it would go with its
    /// descriptor.
    pub(super) fn make(
        program: &Program,
        (ifindex, spot): (u32, Spot),
        path: &Path,
        writes: &Writes,
    ) -> Result<(), KernelError> {
        let directory = path.parent().unwrap_or(path);
        make_dir(directory).map_err(|e| refused_pin("make", directory, &e))?;
        unpin(path).map_err(|e| refused_pin("remove", path, &e))?;
        let link = sys::link_create(program, ifindex, spot.attach_type)
            .map_err(|e| refused("link", format!("{} to interface {ifindex}", spot.program), &e))?;
        sys::pin(&link, path).map_err(|e| refused_pin("pin a link at", path, &e))?;
        count(&writes.links);
        Ok(())
    }

    /// Ends it, whoever else holds it.
    pub(super) fn end(&self, writes: &Writes) -> Result<(), KernelError> {
        let ended = sys::link_detach(&self.fd);
        ended.map_err(|e| refused("detach", format!("link {}", self.id), &e))?;
        count(&writes.links);
        Ok(())
    }

    /// Removes what is pinned there, if anything is: the kernel lets go of the link. One that may have
    /// another pin, which nobody sees, is ended; else that is left to the kernel, which takes a grace
    /// period for it.
    pub(super) fn remove(path: &Path, pins: &Pins, writes: &Writes) -> Result<(), KernelError> {
        if pins.are_inherited()
            && let Some(link) = Self::open(path)?
            && link.ifindex != 0
        {
            link.end(writes)?;
        }
        if unpin(path).map_err(|e| refused_pin("remove", path, &e))? {
            count(&writes.links);
        }
        Ok(())
    }

    /// Has it run a program, if it still runs the one that was read.
    pub(super) fn run(
        &self,
        new: &Program,
        spot: Spot,
        replaced: &mut Replaced,
        writes: &Writes,
    ) -> Result<(), KernelError> {
        let old = self.program;
        if new.id == old {
            return Ok(());
        }
        let swapped = sys::link_update(&self.fd, new, replaced.open(old)?);
        swapped
            .map_err(|e| refused("replace", format!("program {old} at {}", spot.program), &e))?;
        count(&writes.links);
        Ok(())
    }
}

/// Programs that were replaced, ours and in a takeover Cilium's: each is opened and judged once.
pub(super) struct Replaced {
    known: BTreeMap<u32, OwnedFd>,
    take_over: bool,
}

impl Replaced {
    /// None yet.
    pub(super) fn new(pins: &Pins) -> Self {
        Self { known: BTreeMap::new(), take_over: pins.take_over() }
    }

    /// Opens a program that is about to be replaced; one that somebody else made is refused, unless it
    /// is Cilium's and that is taken over.
    pub(super) fn open(&mut self, id: u32) -> Result<&OwnedFd, KernelError> {
        match self.known.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => {
                let about = || format!("program {id}");
                let program = sys::program_by_id(id).map_err(|e| refused("open", about(), &e))?;
                permit(&program, self.take_over)?;
                Ok(entry.insert(program))
            }
        }
    }
}

/// Fails for a program that is not to be replaced.
pub(super) fn permit(program: &OwnedFd, take_over: bool) -> Result<(), KernelError> {
    let failed = |error: io::Error| refused("read", "a program that is to be replaced", &error);
    if is_ours(program.as_fd()).map_err(failed)? {
        return Ok(());
    }
    let info = sys::program_info(program).map_err(failed)?;
    let name = info.text();
    match take_over && name.starts_with(CILIUM_PROGRAMS) {
        true => Ok(()),
        false => Err(foreign(info.id, &name)),
    }
}
