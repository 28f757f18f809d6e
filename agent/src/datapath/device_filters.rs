//! Programs at the node's devices by filters. Filters are not pinned, so a directory on the BPF file system
//! notes at which device they are: `cilium/devices/NAME/filters/KIND_IFINDEX`.

use std::path::PathBuf;

use volvox_actors::ports::{DeviceKind, HookState, KernelError};
use volvox_maps::{
    crash,
    error::netlink,
    pins::{make_dir, names, refused_pin, remove_dir},
};
use volvox_system::netlink::Socket;

use super::{
    devices::{Devices, hooks},
    filter::{self, Filtered},
    generation::Program,
    link::Replaced,
    running::{Lineup, Seat},
    writes::count,
};

const KINDS: [(DeviceKind, &str); 2] =
    [(DeviceKind::Native, "native"), (DeviceKind::Overlay, "overlay")];

/// A device that has filters, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) kind: DeviceKind,
    pub(super) ifindex: u32,
}

impl Note {
    fn file_name(self) -> String {
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        format!("{kind}_{}", self.ifindex)
    }

    fn of(name: &str) -> Option<Self> {
        let (kind, ifindex) = name.split_once('_')?;
        let (kind, _) = KINDS.iter().find(|(_, name)| *name == kind)?;
        Some(Self { kind: *kind, ifindex: ifindex.parse().ok()? })
    }
}

impl Devices<'_> {
    fn notes(&self, name: &str) -> PathBuf {
        self.pins.device(name).join("filters")
    }

    /// What is noted of the device of that name.
    pub(super) fn note(&self, name: &str) -> Result<Option<Note>, KernelError> {
        let directory = self.notes(name);
        let found = names(&directory).map_err(|e| refused_pin("list", &directory, &e))?;
        Ok(found.iter().find_map(|name| Note::of(name)))
    }

    /// Notes it in place of what is noted.
    fn put_note(&self, name: &str, note: Note) -> Result<(), KernelError> {
        if self.note(name)? == Some(note) {
            return Ok(());
        }
        self.remove_filters(name)?;
        let directory = self.notes(name).join(note.file_name());
        make_dir(&directory).map_err(|e| refused_pin("make", &directory, &e))
    }

    /// The interface that is noted, and the least of its hooks' states; interface 0 if it is gone.
    pub(super) fn filtered_state(
        &self,
        note: Note,
        current: Option<&[Program]>,
    ) -> Result<(u32, HookState), KernelError> {
        let mut socket = Socket::open().map_err(netlink)?;
        if socket.link_by_index(note.ifindex).map_err(netlink)?.is_none() {
            return Ok((0, HookState::Stale));
        }
        let mut least = HookState::Link;
        for (nth, hook) in hooks(note.kind).iter().enumerate() {
            let desired = current.map(|programs| programs[nth].id);
            let filtered = Filtered::read(&mut socket, note.ifindex, *hook)?;
            let standing = Lineup::read(note.ifindex, *hook)?.judge(None, desired)?;
            let standing = standing.in_mode(self.mode);
            let filter = || standing.with_filter(filtered.state(self.mode, desired));
            match standing.linked.unwrap_or_else(filter) {
                HookState::Link => {}
                HookState::Empty => least = HookState::Stale,
                state => least = state,
            }
        }
        Ok((note.ifindex, least))
    }

    /// Has a device run the current programs by filters. Links that it has from another mode end as soon as
    /// all filters are there.
    pub(super) fn attach_by_filters(
        &self,
        (ifindex, name): (u32, &str),
        kind: DeviceKind,
        programs: &[Program],
    ) -> Result<(), KernelError> {
        self.put_note(name, Note { kind, ifindex })?;
        let mut socket = Socket::open().map_err(netlink)?;
        let (pins, writes, mut replaced) = (self.pins, self.writes, Replaced::new(self.pins));
        for (hook, program) in hooks(kind).iter().zip(programs) {
            filter::put(&mut socket, (ifindex, *hook), program, &mut replaced, writes)?;
        }
        for (spot, program) in hooks(kind).iter().zip(programs) {
            let path = self.path(name, spot.program);
            Seat { ifindex, spot: *spot, program, pins, writes }.leave_links(&[&path])?;
        }
        let _ = remove_dir(&self.pins.device(name).join("links"));
        Ok(())
    }

    /// Has filters that run older programs of a kind run the current ones, those only that must where not
    /// `all` are to.
    pub(super) fn switch_filters(
        &self,
        note: Note,
        (programs, all): (&mut Option<Vec<Program>>, bool),
    ) -> Result<(), KernelError> {
        let mut socket = Socket::open().map_err(netlink)?;
        let mut replaced = Replaced::new(self.pins);
        for (nth, hook) in hooks(note.kind).iter().enumerate() {
            let there = Filtered::read(&mut socket, note.ifindex, *hook);
            // An interface that is gone has none.
            let Some(program) = there.ok().and_then(|there| there.program) else { continue };
            if !all && self.serves(program) {
                continue;
            }
            let programs = match &mut *programs {
                Some(programs) => programs,
                None => programs.insert(self.programs(note.kind)?),
            };
            let place = (note.ifindex, *hook);
            filter::put(&mut socket, place, &programs[nth], &mut replaced, self.writes)?;
        }
        Ok(())
    }

    /// Removes the filters that are noted, the way out first, and the note.
    pub(super) fn remove_filters(&self, name: &str) -> Result<(), KernelError> {
        while let Some(note) = self.note(name)? {
            let mut socket = Socket::open().map_err(netlink)?;
            for hook in hooks(note.kind).iter().rev() {
                crash::step();
                if filter::remove(&mut socket, note.ifindex, *hook)? {
                    count(&self.writes.links);
                }
            }
            filter::remove_unused(&mut socket, note.ifindex)?;
            let path = self.notes(name).join(note.file_name());
            remove_dir(&path).map_err(|e| refused_pin("remove", &path, &e))?;
        }
        let _ = remove_dir(&self.notes(name));
        Ok(())
    }
}
