use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, Hook, HookState, KernelError},
};

use super::{
    crash,
    error::{netlink, refused},
    generation::{Generation, Program, is_ours},
    pins::{HOOKS, Pins, make_dir, program_name, refused_pin, remove_dir, rename, unpin},
    sys::{self, LinkInfo, TCX_EGRESS, TCX_INGRESS},
    writes::{Writes, count},
};
use crate::ports::netlink::{Direction, Socket};

/// Attaching and detaching at the host side of endpoints' interfaces.
///
/// A hook goes through: nothing → clsact filter → filter and link, pinned as `…_unsettled` → link
/// alone, pinned under its own name. While both are there, the link runs in the filter's place, so
/// that at every moment exactly one program runs; a crash between any two steps is seen by the
/// pin's name and finished by the next settling.
pub(super) struct Hooks<'a> {
    pub(super) pins: &'a Pins,
    pub(super) generation: &'a Generation,
    pub(super) netlink: &'a mut Socket,
    pub(super) writes: &'a Writes,
    /// Programs of ours that were replaced: each is opened and judged once.
    replaced: BTreeMap<u32, OwnedFd>,
}

/// An endpoint and its host-side interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) endpoint: EndpointId,
    pub(super) ifindex: u32,
}

/// A pinned link that is attached.
struct Link {
    fd: OwnedFd,
    info: LinkInfo,
}

/// Where the kernel knows a hook.
fn attach_type(hook: Hook) -> u32 {
    match hook {
        Hook::FromContainer => TCX_INGRESS,
        Hook::ToContainer => TCX_EGRESS,
    }
}

fn direction(hook: Hook) -> Direction {
    match hook {
        Hook::FromContainer => Direction::Ingress,
        Hook::ToContainer => Direction::Egress,
    }
}

/// The interface of an endpoint's links, where one is attached.
pub(super) fn linked_ifindex(
    pins: &Pins,
    endpoint: EndpointId,
) -> Result<Option<u32>, KernelError> {
    for hook in HOOKS {
        for path in [pins.link(endpoint, hook), pins.unsettled_link(endpoint, hook)] {
            match pinned(&path)?.map(|link| link.info.ifindex) {
                None | Some(0) => {}
                found => return Ok(found),
            }
        }
    }
    Ok(None)
}

/// Opens a pinned link; `None` if there is no pin.
fn pinned(path: &Path) -> Result<Option<Link>, KernelError> {
    let open = || {
        let fd = sys::get(path)?;
        let info = sys::link_info(&fd)?;
        io::Result::Ok(Link { fd, info })
    };
    match open() {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused_pin("open", path, &error)),
    }
}

/// What links alone say of a hook; `None` where a filter may run.
pub(super) fn linked(
    pins: &Pins,
    generation: &Generation,
    place: Place,
    hook: Hook,
) -> Result<Option<HookState>, KernelError> {
    let current = generation.program(hook).id;
    let paths = [
        (pins.link(place.endpoint, hook), HookState::Link),
        (pins.unsettled_link(place.endpoint, hook), HookState::Filter),
    ];
    for (path, state) in paths {
        if let Some(Link { info, .. }) = pinned(&path)?
            && info.ifindex == place.ifindex
        {
            return Ok(Some(if info.prog_id == current { state } else { HookState::Stale }));
        }
    }
    Ok(None)
}

impl<'a> Hooks<'a> {
    /// For work with one generation.
    pub(super) fn new(
        pins: &'a Pins,
        generation: &'a Generation,
        netlink: &'a mut Socket,
        writes: &'a Writes,
    ) -> Self {
        Self { pins, generation, netlink, writes, replaced: BTreeMap::new() }
    }

    fn program(&self, hook: Hook) -> &'a Program {
        self.generation.program(hook)
    }

    /// What runs at both hooks.
    pub(super) fn read(&mut self, place: Place) -> Result<Attachment, KernelError> {
        Ok(Attachment {
            from_container: self.state(place, Hook::FromContainer)?,
            to_container: self.state(place, Hook::ToContainer)?,
        })
    }

    pub(super) fn state(&mut self, place: Place, hook: Hook) -> Result<HookState, KernelError> {
        match linked(self.pins, self.generation, place, hook)? {
            Some(state) => Ok(state),
            None => self.filtered(place.ifindex, hook),
        }
    }

    pub(super) fn filtered(&mut self, ifindex: u32, hook: Hook) -> Result<HookState, KernelError> {
        let filters = self.netlink.filter_show(ifindex, direction(hook)).map_err(netlink)?;
        let current = self.program(hook).id;
        let ours = filters.iter().find(|filter| filter.name == program_name(hook));
        Ok(match ours {
            Some(filter) if filter.prog_id == current => HookState::Filter,
            Some(_) => HookState::Stale,
            None => HookState::Empty,
        })
    }

    /// Makes both hooks run the current generation, the fast way.
    pub(super) fn attach(&mut self, place: Place) -> Result<(), KernelError> {
        for hook in HOOKS {
            match self.state(place, hook)? {
                HookState::Link | HookState::Filter => {}
                HookState::Empty => self.add_filter(place.ifindex, hook)?,
                HookState::Stale => self.renew(place, hook)?,
            }
        }
        Ok(())
    }

    fn add_filter(&mut self, ifindex: u32, hook: Hook) -> Result<(), KernelError> {
        let program = self.generation.program(hook);
        crash::step();
        self.netlink.clsact_add(ifindex).map_err(netlink)?;
        crash::step();
        self.netlink
            .filter_add(ifindex, direction(hook), program.as_fd(), program_name(hook))
            .map_err(netlink)?;
        count(&self.writes.links);
        Ok(())
    }

    /// Replaces a program of another generation, by its link or else its filter.
    pub(super) fn renew(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        let mut linked = false;
        for path in self.link_paths(place.endpoint, hook) {
            if let Some(link) = pinned(&path)?
                && link.info.ifindex == place.ifindex
            {
                self.swap(&link, hook)?;
                linked = true;
            }
        }
        if linked { Ok(()) } else { self.renew_filter(place.ifindex, hook) }
    }

    /// Has a link run the current program, if it still runs the one that was read.
    fn swap(&mut self, link: &Link, hook: Hook) -> Result<(), KernelError> {
        let (new, old) = (self.generation.program(hook), link.info.prog_id);
        if new.id == old {
            return Ok(());
        }
        let swapped = sys::link_update(&link.fd, new, self.replace(old)?);
        swapped.map_err(|e| {
            refused("replace", format!("program {old} at {}", program_name(hook)), &e)
        })?;
        count(&self.writes.links);
        Ok(())
    }

    fn renew_filter(&mut self, ifindex: u32, hook: Hook) -> Result<(), KernelError> {
        let filters = self.netlink.filter_show(ifindex, direction(hook)).map_err(netlink)?;
        for filter in filters.iter().filter(|filter| filter.name == program_name(hook)) {
            self.replace(filter.prog_id)?;
        }
        self.add_filter(ifindex, hook)
    }

    /// Opens a program that is about to be replaced; one that somebody else made is refused.
    fn replace(&mut self, id: u32) -> Result<&OwnedFd, KernelError> {
        use std::collections::btree_map::Entry;
        match self.replaced.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => {
                let about = || format!("program {id}");
                let program = sys::program_by_id(id).map_err(|e| refused("open", about(), &e))?;
                if !is_ours(program.as_fd()).map_err(|e| refused("read", about(), &e))? {
                    let foreign = io::Error::from_raw_os_error(libc::EPERM);
                    return Err(refused("replace another agent's", about(), &foreign));
                }
                Ok(entry.insert(program))
            }
        }
    }

    fn link_paths(&self, endpoint: EndpointId, hook: Hook) -> [std::path::PathBuf; 2] {
        [self.pins.link(endpoint, hook), self.pins.unsettled_link(endpoint, hook)]
    }

    /// Makes a hook run the current generation through a pinned link, and nothing else.
    pub(super) fn settle(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        let [settled, unsettled] = self.link_paths(place.endpoint, hook);
        let linked = linked(self.pins, self.generation, place, hook)?;
        match linked {
            Some(HookState::Link) => return Ok(()),
            Some(HookState::Stale) => self.renew(place, hook)?,
            Some(_) => {}
            None => self.link(place, hook, &unsettled)?,
        }
        // A stale link may have been a settled one: then there is nothing left to rename.
        if pinned(&unsettled)?.is_none() {
            return Ok(());
        }
        let name = program_name(hook);
        crash::step();
        self.netlink.filter_del(place.ifindex, direction(hook), name).map_err(netlink)?;
        rename(&unsettled, &settled).map_err(|error| refused_pin("rename to", &settled, &error))
    }

    /// Creates a link and pins it. Without the pin it would go with its descriptor, and the filter
    /// would run again.
    fn link(&self, place: Place, hook: Hook, path: &Path) -> Result<(), KernelError> {
        let directory = self.pins.links(place.endpoint);
        make_dir(&directory).map_err(|e| refused_pin("make", &directory, &e))?;
        unpin(path).map_err(|e| refused_pin("remove", path, &e))?;
        let link = sys::link_create(self.program(hook), place.ifindex, attach_type(hook)).map_err(
            |e| {
                let about = format!("{} to interface {}", program_name(hook), place.ifindex);
                refused("link", about, &e)
            },
        )?;
        sys::pin(&link, path).map_err(|e| refused_pin("pin a link at", path, &e))?;
        count(&self.writes.links);
        Ok(())
    }

    /// Removes what is ours at both hooks.
    pub(super) fn detach(&mut self, place: Place) -> Result<(), KernelError> {
        self.unlink(place)?;
        for hook in HOOKS {
            crash::step();
            match self.netlink.filter_del(place.ifindex, direction(hook), program_name(hook)) {
                Ok(true) => count(&self.writes.links),
                Ok(false) => {}
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(netlink(error)),
            }
        }
        match self.netlink.clsact_del_unused(place.ifindex) {
            Ok(true) => count(&self.writes.links),
            Ok(false) => {}
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(netlink(error)),
        }
        Ok(())
    }

    /// Removes the endpoint's links. Those that run at another interface are another one's, and
    /// stay.
    pub(super) fn unlink(&mut self, place: Place) -> Result<(), KernelError> {
        for hook in HOOKS {
            for path in self.link_paths(place.endpoint, hook) {
                let Some(link) = pinned(&path)? else { continue };
                if [0, place.ifindex].contains(&link.info.ifindex) {
                    unpin(&path).map_err(|e| refused_pin("remove", &path, &e))?;
                    count(&self.writes.links);
                }
            }
        }
        // Directories that still hold something stay; so may ones that are gone already.
        let links = self.pins.links(place.endpoint);
        if remove_dir(&links).is_ok()
            && let Some(parent) = links.parent()
        {
            let _ = remove_dir(parent);
        }
        Ok(())
    }
}
