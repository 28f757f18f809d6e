use std::os::fd::AsFd;

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, Hook, HookState, KernelError},
};

use super::{
    crash,
    error::netlink,
    generation::Generation,
    link::{PinnedLink, Replaced, Spot},
    pins::{HOOKS, Pins, program_name, refused_pin, remove_dir, rename},
    sys::{TCX_EGRESS, TCX_INGRESS},
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
    replaced: Replaced,
}

/// An endpoint and its host-side interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) endpoint: EndpointId,
    pub(super) ifindex: u32,
}

fn spot(hook: Hook) -> Spot {
    let attach_type = match hook {
        Hook::FromContainer => TCX_INGRESS,
        Hook::ToContainer => TCX_EGRESS,
    };
    Spot { program: program_name(hook), attach_type }
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
            match PinnedLink::open(&path)?.map(|link| link.ifindex) {
                None | Some(0) => {}
                found => return Ok(found),
            }
        }
    }
    Ok(None)
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
        if let Some(link) = PinnedLink::open(&path)?
            && link.ifindex == place.ifindex
        {
            return Ok(Some(if link.program == current { state } else { HookState::Stale }));
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
        Self { pins, generation, netlink, writes, replaced: Replaced::default() }
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
        let current = self.generation.program(hook).id;
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
            if let Some(link) = PinnedLink::open(&path)?
                && link.ifindex == place.ifindex
            {
                let program = self.generation.program(hook);
                link.run(program, spot(hook), &mut self.replaced, self.writes)?;
                linked = true;
            }
        }
        if linked { Ok(()) } else { self.renew_filter(place.ifindex, hook) }
    }

    fn renew_filter(&mut self, ifindex: u32, hook: Hook) -> Result<(), KernelError> {
        let filters = self.netlink.filter_show(ifindex, direction(hook)).map_err(netlink)?;
        for filter in filters.iter().filter(|filter| filter.name == program_name(hook)) {
            self.replaced.open(filter.prog_id)?;
        }
        self.add_filter(ifindex, hook)
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
            None => {
                let program = self.generation.program(hook);
                PinnedLink::make(program, (place.ifindex, spot(hook)), &unsettled, self.writes)?;
            }
        }
        // A stale link may have been a settled one: then there is nothing left to rename.
        if PinnedLink::open(&unsettled)?.is_none() {
            return Ok(());
        }
        let name = program_name(hook);
        crash::step();
        self.netlink.filter_del(place.ifindex, direction(hook), name).map_err(netlink)?;
        rename(&unsettled, &settled).map_err(|error| refused_pin("rename to", &settled, &error))
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
                let Some(link) = PinnedLink::open(&path)? else { continue };
                if [0, place.ifindex].contains(&link.ifindex) {
                    PinnedLink::remove(&path, self.writes)?;
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
