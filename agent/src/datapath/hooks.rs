//! Attaching at an endpoint's host-side interface: which program runs at each of its two hooks, and
//! whether by a filter or by a link. How programs are loaded is left to others.

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, Hook, HookState, KernelError},
};
use volvox_maps::{
    crash,
    error::refused,
    pins::{HOOKS, Pins, program_name, refused_pin, remove_dir, rename},
    sys::{TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::Socket;

use super::{
    filter::{self, AttachMode, Filtered},
    generation::Generation,
    link::{PinnedLink, Replaced, Spot},
    running::{Lineup, Seat, Standing},
    writes::{Writes, count},
};

/// Attaching and detaching at the host side of endpoints' interfaces.
///
/// A hook goes through: nothing → clsact filter → filter and link, pinned as `…_unsettled` → link
/// alone, pinned under its own name. While both are there, the link runs in the filter's place, so
/// that at every moment exactly one program runs; a crash between any two steps is seen by the
/// pin's name and finished by the next settling.
///
/// In [`AttachMode::Clsact`] it ends with the filter; a link that is there then is one from another mode,
/// and goes as soon as the filter is there.
pub(super) struct Hooks<'a> {
    pub(super) pins: &'a Pins,
    pub(super) generation: &'a Generation,
    pub(super) netlink: &'a mut Socket,
    pub(super) writes: &'a Writes,
    mode: AttachMode,
    replaced: Replaced,
}

/// How often a hook is put right before that is given up: somebody else may work against it.
const ATTEMPTS_MAX: usize = 3;

/// An endpoint and its host-side interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) endpoint: EndpointId,
    pub(super) ifindex: u32,
}

pub(super) fn spot(hook: Hook) -> Spot {
    let attach_type = match hook {
        Hook::FromContainer => TCX_INGRESS,
        Hook::ToContainer => TCX_EGRESS,
    };
    Spot { program: program_name(hook), attach_type }
}

/// The hooks of endpoints' interfaces.
pub(super) fn all() -> [Spot; 2] {
    HOOKS.map(spot)
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

/// How a hook stands, as far as links say it.
pub(super) fn standing(
    pins: &Pins,
    generation: &Generation,
    place: Place,
    (hook, mode): (Hook, AttachMode),
) -> Result<Standing, KernelError> {
    let lineup = Lineup::read(place.ifindex, spot(hook))?;
    let pinned = pinned(pins, place, hook, &lineup)?;
    let pinned = pinned.as_ref().map(|(link, state)| (link, *state));
    lineup.judge(pinned, generation.id(hook)).map(|standing| standing.in_mode(mode))
}

/// The link that is pinned for a hook and runs there, and how the hook stands with it at best.
fn pinned(
    pins: &Pins,
    place: Place,
    hook: Hook,
    lineup: &Lineup,
) -> Result<Option<(PinnedLink, HookState)>, KernelError> {
    let paths = [
        (pins.link(place.endpoint, hook), HookState::Link),
        (pins.unsettled_link(place.endpoint, hook), HookState::Filter),
    ];
    for (path, state) in paths {
        if let Some(link) = PinnedLink::open(&path)?.filter(|link| lineup.has(link)) {
            return Ok(Some((link, state)));
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
        (writes, mode): (&'a Writes, AttachMode),
    ) -> Self {
        Self { pins, generation, netlink, writes, mode, replaced: Replaced::new(pins) }
    }

    /// What runs at both hooks.
    pub(super) fn read(&mut self, place: Place) -> Result<Attachment, KernelError> {
        Ok(Attachment {
            from_container: self.state(place, Hook::FromContainer)?,
            to_container: self.state(place, Hook::ToContainer)?,
        })
    }

    pub(super) fn state(&mut self, place: Place, hook: Hook) -> Result<HookState, KernelError> {
        let look = |hooks: &Self| standing(hooks.pins, hooks.generation, place, (hook, hooks.mode));
        let found = look(self)?;
        if let Some(state) = found.linked {
            return Ok(state);
        }
        match self.filtered(place.ifindex, hook)? {
            // A link may have taken the filter's place between the looks.
            HookState::Empty => Ok(look(self)?.linked.unwrap_or_default()),
            filter => Ok(found.with_filter(filter)),
        }
    }

    fn filtered(&mut self, ifindex: u32, hook: Hook) -> Result<HookState, KernelError> {
        let filtered = Filtered::read(self.netlink, ifindex, spot(hook))?;
        Ok(filtered.state(self.mode, self.generation.id(hook)))
    }

    /// Makes both hooks run the current generation, first and once, the fast way.
    pub(super) fn attach(&mut self, place: Place) -> Result<(), KernelError> {
        HOOKS.into_iter().try_for_each(|hook| self.attach_one(place, hook))
    }

    fn attach_one(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        let mut state = self.state(place, hook)?;
        for _ in 0..ATTEMPTS_MAX {
            match state {
                HookState::Link | HookState::Filter => return Ok(()),
                HookState::Empty => {
                    self.add_filter(place.ifindex, hook)?;
                    if Lineup::read(place.ifindex, spot(hook))?.is_empty() {
                        return Ok(());
                    }
                }
                HookState::Stale | HookState::Foreign(_) => self.renew(place, hook)?,
                HookState::Behind(who) if self.mode == AttachMode::Clsact => {
                    let why = format!("{who} is first there: remove it, or have --enable-tcx=true");
                    let cause = std::io::Error::other(why);
                    let interface = format!("interface {}", place.ifindex);
                    return Err(refused("run first at", interface, &cause));
                }
                HookState::Behind(_) => self.put_first(place, hook)?,
            }
            state = self.state(place, hook)?;
        }
        match state {
            HookState::Link | HookState::Filter => Ok(()),
            state => {
                let cause = std::io::Error::other(format!("it is {state:?} however often"));
                Err(refused("run first at", format!("interface {}", place.ifindex), &cause))
            }
        }
    }

    /// Has the program run before those of others, by a link that is not settled yet.
    fn put_first(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        let [settled, unsettled] = self.link_paths(place.endpoint, hook);
        crash::step();
        let seat = self.seat(place, hook)?;
        seat.put_first(self.netlink, &[&settled, &unsettled], &unsettled)
    }

    fn seat(&self, place: Place, hook: Hook) -> Result<Seat<'a>, KernelError> {
        let (pins, writes) = (self.pins, self.writes);
        let program = self.generation.program(hook)?;
        Ok(Seat { ifindex: place.ifindex, spot: spot(hook), program, pins, writes })
    }

    fn add_filter(&mut self, ifindex: u32, hook: Hook) -> Result<(), KernelError> {
        let (program, place) = (self.generation.program(hook)?, (ifindex, spot(hook)));
        filter::put(self.netlink, place, program, &mut self.replaced, self.writes)
    }

    /// Replaces a program of another generation, by its link or else its filter; of several of ours
    /// one stays.
    pub(super) fn renew(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        let [settled, unsettled] = self.link_paths(place.endpoint, hook);
        if self.mode == AttachMode::Clsact {
            self.add_filter(place.ifindex, hook)?;
            return self.seat(place, hook)?.leave_links(&[&settled, &unsettled]);
        }
        let lineup = Lineup::read(place.ifindex, spot(hook))?;
        let pinned = pinned(self.pins, place, hook, &lineup)?.map(|(link, _)| link);
        match self.seat(place, hook)?.take_over(pinned, &settled, &mut self.replaced)? {
            true => Ok(()),
            false => self.add_filter(place.ifindex, hook),
        }
    }

    fn link_paths(&self, endpoint: EndpointId, hook: Hook) -> [std::path::PathBuf; 2] {
        [self.pins.link(endpoint, hook), self.pins.unsettled_link(endpoint, hook)]
    }

    /// Makes a hook run the current generation through a pinned link, and nothing else. Where there are no
    /// links, it is settled with its filter.
    pub(super) fn settle(&mut self, place: Place, hook: Hook) -> Result<(), KernelError> {
        if self.mode == AttachMode::Clsact {
            return Ok(());
        }
        let [settled, unsettled] = self.link_paths(place.endpoint, hook);
        match standing(self.pins, self.generation, place, (hook, self.mode))?.linked {
            Some(HookState::Link) => return Ok(()),
            Some(HookState::Stale | HookState::Foreign(_)) => self.renew(place, hook)?,
            Some(HookState::Behind(_)) => self.put_first(place, hook)?,
            Some(_) => {}
            None => {
                let program = self.generation.program(hook)?;
                PinnedLink::make(program, (place.ifindex, spot(hook)), &unsettled, self.writes)?;
            }
        }
        // A stale link may have been a settled one: then there is nothing left to rename.
        if PinnedLink::open(&unsettled)?.is_none() {
            return Ok(());
        }
        crash::step();
        filter::remove(self.netlink, place.ifindex, spot(hook))?;
        rename(&unsettled, &settled).map_err(|error| refused_pin("rename to", &settled, &error))
    }

    /// Removes what is ours at both hooks.
    pub(super) fn detach(&mut self, place: Place) -> Result<(), KernelError> {
        self.unlink(place)?;
        for hook in HOOKS {
            crash::step();
            if filter::remove(self.netlink, place.ifindex, spot(hook))? {
                count(&self.writes.links);
            }
        }
        if filter::remove_unused(self.netlink, place.ifindex)? {
            count(&self.writes.links);
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
                    PinnedLink::remove(&path, self.pins, self.writes)?;
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
