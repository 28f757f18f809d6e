//! What runs at a TCX hook, as the kernel says when it is asked: which of it is ours, who comes first.
//!
//! Pins say only what an agent meant to run. Somebody may have detached a link, have put a program
//! before ours, or have mounted another BPF file system over the one where ours are pinned.

use std::{collections::BTreeSet, path::Path};

use volvox_actors::ports::{HookState, Intruder, KernelError};
use volvox_maps::{
    crash,
    error::refused,
    pins::Pins,
    programs::{intruder, is_ours_by_id},
    sys::{self, Running, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};

use super::{
    filter::{self, AttachMode},
    generation::Program,
    link::{PinnedLink, Replaced, Spot},
    writes::{Writes, count},
};

/// What runs at one hook of an interface, in order.
pub(super) struct Lineup(Vec<Running>);

/// How a hook stands, as far as links say it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// `None` where no link of ours runs: a filter may.
    pub(super) linked: Option<HookState>,
    /// Somebody else's program that runs before filters do, if one does.
    pub(super) before: Option<Intruder>,
}

impl Standing {
    /// Where programs run by filters for good, a link of ours is one of another mode.
    pub(super) fn in_mode(self, mode: AttachMode) -> Self {
        match self.linked {
            Some(_) if mode == AttachMode::Clsact => {
                Self { linked: Some(HookState::Stale), ..self }
            }
            _ => self,
        }
    }

    /// How it stands with a filter that was found there.
    pub(super) fn with_filter(self, filter: HookState) -> HookState {
        match self.before {
            Some(intruder) if filter.serves() => HookState::Behind(intruder),
            _ => filter,
        }
    }
}

impl Lineup {
    /// Asks the kernel. At an interface that is gone nothing runs, and nowhere where there is no TCX.
    pub(super) fn read(ifindex: u32, spot: Spot) -> Result<Self, KernelError> {
        let nothing = [Some(libc::ENODEV), Some(libc::EINVAL)];
        match sys::running(ifindex, spot.attach_type) {
            Ok(running) => Ok(Self(running)),
            Err(error) if nothing.contains(&error.raw_os_error()) => Ok(Self(Vec::new())),
            Err(error) => Err(refused("ask what runs at", format!("interface {ifindex}"), &error)),
        }
    }

    /// Whether nothing runs by TCX: filters are next.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a link is among what runs.
    pub(super) fn has(&self, link: &PinnedLink) -> bool {
        self.place(link).is_some()
    }

    fn place(&self, link: &PinnedLink) -> Option<usize> {
        self.0.iter().position(|running| running.link == link.id)
    }

    /// How it stands with the link that is pinned for this hook; it would be `right` with the program
    /// of that number, first and once.
    pub(super) fn judge(
        &self,
        pinned: Option<(&PinnedLink, HookState)>,
        current: Option<u32>,
    ) -> Result<Standing, KernelError> {
        let Some(first) = self.0.first() else { return Ok(Standing::default()) };
        let place = pinned.and_then(|(link, right)| Some((self.place(link)?, link, right)));
        let linked = match place {
            Some((0, link, right)) => {
                let once = !self.any_ours(&self.0[1..])?;
                let serves = once && Some(link.program) == current;
                Some(match serves {
                    true => right,
                    false if !is_ours_by_id(link.program)? => {
                        HookState::Foreign(intruder(link.program))
                    }
                    false => HookState::Stale,
                })
            }
            Some(_) if self.any_ours(&self.0[..1])? => Some(HookState::Stale),
            Some(_) => Some(HookState::Behind(intruder(first.program))),
            None if self.any_ours(&self.0)? => Some(HookState::Stale),
            None => None,
        };
        let before = linked.is_none().then(|| intruder(first.program));
        Ok(Standing { linked, before })
    }

    fn any_ours(&self, some: &[Running]) -> Result<bool, KernelError> {
        for running in some {
            if is_ours_by_id(running.program)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Links that run programs of ours, of whatever life, but for this one.
    fn others_of_ours(&self, own: Option<&PinnedLink>) -> Result<Vec<u32>, KernelError> {
        let mut others = Vec::new();
        for running in &self.0 {
            let is_own = own.is_some_and(|own| own.id == running.link);
            if running.link != 0 && !is_own && is_ours_by_id(running.program)? {
                others.push(running.link);
            }
        }
        Ok(others)
    }
}

/// A place that is to be taken, and by what.
pub(super) struct Seat<'a> {
    pub(super) ifindex: u32,
    pub(super) spot: Spot,
    pub(super) program: &'a Program,
    pub(super) pins: &'a Pins,
    pub(super) writes: &'a Writes,
}

impl Seat<'_> {
    /// Has links of ours that run there run the program: the one that is pinned, or else one of an
    /// earlier life whose pin is lost or hidden, which is pinned at `path`. More than one do not
    /// stay. False if there is none.
    pub(super) fn take_over(
        &self,
        pinned: Option<PinnedLink>,
        path: &Path,
        replaced: &mut Replaced,
    ) -> Result<bool, KernelError> {
        let lineup = Lineup::read(self.ifindex, self.spot)?;
        let mut own = pinned.filter(|link| lineup.has(link));
        for id in lineup.others_of_ours(own.as_ref())? {
            match own {
                None => own = Some(PinnedLink::adopt(id, path, self.pins, self.writes)?),
                Some(_) => self.dismiss(id)?,
            }
        }
        let Some(own) = own else { return Ok(false) };
        own.run(self.program, self.spot, replaced, self.writes)?;
        Ok(true)
    }

    /// Ends a link by its number.
    fn dismiss(&self, id: u32) -> Result<(), KernelError> {
        let ended = sys::link_by_id(id).and_then(sys::link_detach);
        match ended {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(refused("detach", format!("link {id} of an earlier life"), &error))
            }
            _ => {
                count(&self.writes.links);
                Ok(())
            }
        }
    }

    /// Has the program run before all others, by a link that is pinned at `path` in place of those at
    /// `before`. A filter stands in while there is none: the kernel takes a program but once.
    pub(super) fn put_first(
        &self,
        socket: &mut Socket,
        before: &[&Path],
        path: &Path,
    ) -> Result<(), KernelError> {
        let (place, mut replaced) = ((self.ifindex, self.spot), Replaced::new(self.pins));
        filter::put(socket, place, self.program, &mut replaced, self.writes)?;
        for before in before {
            if let Some(link) = PinnedLink::open(before)? {
                if link.ifindex == self.ifindex {
                    link.end(self.writes)?;
                }
                PinnedLink::remove(before, self.pins, self.writes)?;
            }
        }
        PinnedLink::make(self.program, (self.ifindex, self.spot), path, self.writes)
    }

    /// Removes the filter that stood in.
    pub(super) fn remove_filter(&self, socket: &mut Socket) -> Result<(), KernelError> {
        filter::remove(socket, self.ifindex, self.spot)?;
        filter::remove_unused(socket, self.ifindex).map(drop)
    }

    /// Ends all links of ours that run there: those that are pinned at these paths, and those whose pins
    /// are lost. A filter runs the program by then.
    pub(super) fn leave_links(&self, pinned: &[&Path]) -> Result<(), KernelError> {
        for path in pinned {
            let Some(link) = PinnedLink::open(path)? else { continue };
            crash::step();
            if link.ifindex == self.ifindex {
                link.end(self.writes)?;
            }
            crash::step();
            if [0, self.ifindex].contains(&link.ifindex) {
                PinnedLink::remove(path, self.pins, self.writes)?;
            }
        }
        let others = Lineup::read(self.ifindex, self.spot)?.others_of_ours(None)?;
        others.into_iter().try_for_each(|id| self.dismiss(id))
    }
}

/// Numbers of the programs that run at these interfaces by filters.
fn filtering(interfaces: impl Iterator<Item = u32>) -> Vec<u32> {
    let Ok(mut socket) = Socket::open() else { return Vec::new() };
    let mut programs = Vec::new();
    for ifindex in interfaces {
        for direction in [Direction::Ingress, Direction::Egress] {
            let filters = socket.filter_show(ifindex, direction).unwrap_or_default();
            programs.extend(filters.into_iter().map(|filter| filter.prog_id));
        }
    }
    programs
}

/// Numbers of the maps of programs of ours that run at this network namespace's interfaces, whether a
/// pin leads to them or not.
pub(super) fn maps_of_running() -> BTreeSet<u32> {
    let links = Socket::open().and_then(|mut socket| socket.links()).unwrap_or_default();
    let hooks = links.keys().flat_map(|ifindex| [(*ifindex, TCX_INGRESS), (*ifindex, TCX_EGRESS)]);
    let running = hooks.flat_map(|(ifindex, hook)| sys::running(ifindex, hook).unwrap_or_default());
    let mut programs: BTreeSet<u32> = running.map(|running| running.program).collect();
    programs.extend(filtering(links.keys().copied()));
    let ours = programs.into_iter().filter(|id| is_ours_by_id(*id).unwrap_or(false));
    let maps = ours.flat_map(|id| {
        let info = sys::program_by_id(id).and_then(sys::program_info);
        info.map(|info| info.map_ids).unwrap_or_default()
    });
    maps.collect()
}
