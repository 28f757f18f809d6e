//! Programs at the node's devices, and at the tunnel to other nodes, by pinned links or by filters.
//!
//! A device's programs are loaded when the first device is to run them, and pinned beside those of
//! the endpoints, with which they are replaced.

use std::{collections::BTreeMap, io, path::PathBuf};

use volvox_actors::ports::{DeviceKind, DeviceLinks, DeviceTables, HookState, KernelError};
use volvox_bpf_progs::{DEVICE_OBJECT, OVERLAY_OBJECT, object};
use volvox_maps::{
    error::{DatapathError, netlink, refused},
    pins::{Pins, bpffs, make_dir, names, refused_pin, remove_dir, rename, unpin},
    rows::{device_row, unmasqueraded4, unmasqueraded6},
    sys::{self, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::Socket;

use super::{
    filter::AttachMode,
    generation::{Build, Program},
    link::{PinnedLink, Replaced, Spot},
    loader,
    maps::Maps,
    running::{Lineup, Seat},
    takeover::cilium_program,
    writes::Writes,
};

/// The hooks of a device, what comes from it first: what leaves as another is to find its way back.
const NATIVE: [Spot; 2] = [
    Spot { program: object::FROM_NETDEV, attach_type: TCX_INGRESS },
    Spot { program: object::TO_NETDEV, attach_type: TCX_EGRESS },
];
const OVERLAY: [Spot; 2] = [
    Spot { program: object::FROM_OVERLAY, attach_type: TCX_INGRESS },
    Spot { program: object::TO_OVERLAY, attach_type: TCX_EGRESS },
];

/// Which devices are to run other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// All that do not run the current ones.
    All,
    /// Those whose programs use maps that were replaced.
    Needed,
}

/// The devices' programs, links and rows.
pub(super) struct Devices<'a> {
    pub(super) pins: &'a Pins,
    pub(super) maps: &'a Maps,
    pub(super) build: Build,
    pub(super) writes: &'a Writes,
    pub(super) mode: AttachMode,
}

impl Devices<'_> {
    /// What the kernel holds of devices.
    pub(super) fn read(&self) -> Result<DeviceTables, KernelError> {
        let mut tables =
            DeviceTables { rows: self.maps.device.collect(device_row)?, ..DeviceTables::default() };
        self.maps
            .unmasqueraded4
            .for_each(|key, _| tables.unmasqueraded.extend(unmasqueraded4(&key)))?;
        self.maps
            .unmasqueraded6
            .for_each(|key, _| tables.unmasqueraded.extend(unmasqueraded6(&key)))?;
        let mut current = BTreeMap::new();
        for kind in [DeviceKind::Native, DeviceKind::Overlay] {
            current.insert(kind, self.pinned_programs(kind)?);
        }
        for name in self.names()? {
            let note = self.note(&name)?;
            let is_overlay = self.link(&name, OVERLAY[0].program)?.is_some();
            let kind = match note {
                _ if is_overlay => DeviceKind::Overlay,
                Some(note) => note.kind,
                None => DeviceKind::Native,
            };
            let current = current[&kind].as_deref();
            let (ifindex, state) = match (self.mode, note) {
                (AttachMode::Clsact, Some(note)) => self.filtered_state(note, current)?,
                (AttachMode::Tcx, None) => self.state(&name, kind, current)?,
                // From another mode: it is to be attached again.
                _ => (self.interface_of(&name)?.unwrap_or(0), HookState::Stale),
            };
            match ifindex {
                0 => drop(tables.gone.insert(name)),
                _ => drop(tables.links.insert(ifindex, DeviceLinks { name, kind, state })),
            }
        }
        Ok(tables)
    }

    /// The interface of a device's links, and the least of their states.
    fn state(
        &self,
        name: &str,
        kind: DeviceKind,
        current: Option<&[Program]>,
    ) -> Result<(u32, HookState), KernelError> {
        let (mut at, mut state) = (0, HookState::Link);
        for (nth, hook) in hooks(kind).iter().enumerate() {
            let desired = current.map(|programs| programs[nth].id);
            match self.link(name, hook.program)? {
                Some(link) if link.ifindex != 0 && [0, link.ifindex].contains(&at) => {
                    at = link.ifindex;
                    let lineup = Lineup::read(at, *hook)?;
                    let found = lineup.judge(Some((&link, HookState::Link)), desired)?.linked;
                    if found != Some(HookState::Link) {
                        state = found.unwrap_or(HookState::Stale);
                    }
                }
                _ => state = HookState::Stale,
            }
        }
        Ok((at, state))
    }

    /// Has a device run the current programs. Where they run already, nothing is written.
    pub(super) fn attach(
        &self,
        ifindex: u32,
        name: &str,
        kind: DeviceKind,
    ) -> Result<(), KernelError> {
        let programs = self.programs(kind)?;
        self.take_over(ifindex, name)?;
        if self.mode == AttachMode::Clsact {
            return self.attach_by_filters((ifindex, name), kind, &programs);
        }
        let mut replaced = Replaced::new(self.pins);
        for (hook, program) in hooks(kind).iter().zip(&programs) {
            self.attach_one((ifindex, name), *hook, program, &mut replaced)?;
        }
        // Those of another mode; links run before them.
        self.remove_filters(name)
    }

    fn attach_one(
        &self,
        (ifindex, name): (u32, &str),
        spot: Spot,
        program: &Program,
        replaced: &mut Replaced,
    ) -> Result<(), KernelError> {
        let path = self.path(name, spot.program);
        let (pins, writes) = (self.pins, self.writes);
        let seat = Seat { ifindex, spot, program, pins, writes };
        if !seat.take_over(PinnedLink::open(&path)?, &path, replaced)? {
            PinnedLink::make(program, (ifindex, spot), &path, writes)?;
        }
        let Some(link) = PinnedLink::open(&path)? else { return Ok(()) };
        let standing =
            Lineup::read(ifindex, spot)?.judge(Some((&link, HookState::Link)), Some(program.id))?;
        if let Some(HookState::Behind(_)) = standing.linked {
            let mut socket = Socket::open().map_err(netlink)?;
            drop(link);
            seat.put_first(&mut socket, &[&path], &path)?;
            seat.remove_filter(&mut socket)?;
        }
        Ok(())
    }

    /// An interface that had another name keeps its links under the new one.
    fn take_over(&self, ifindex: u32, name: &str) -> Result<(), KernelError> {
        for other in self.names()? {
            if other == name || self.interface_of(&other)? != Some(ifindex) {
                continue;
            }
            self.detach(name)?;
            let (from, to) = (self.pins.device(&other), self.pins.device(name));
            return rename(&from, &to).map_err(|error| refused_pin("rename to", &to, &error));
        }
        Ok(())
    }

    /// Where the programs run that are pinned or noted by a name.
    fn interface_of(&self, name: &str) -> Result<Option<u32>, KernelError> {
        for hook in NATIVE.iter().chain(&OVERLAY) {
            if let Some(link) = self.link(name, hook.program)?
                && link.ifindex != 0
            {
                return Ok(Some(link.ifindex));
            }
        }
        let Some(note) = self.note(name)? else { return Ok(None) };
        let link = Socket::open().and_then(|mut socket| socket.link_by_index(note.ifindex));
        Ok(link.map_err(netlink)?.map(|link| link.ifindex))
    }

    /// Removes the links and filters of a name, the way out first.
    pub(super) fn detach(&self, name: &str) -> Result<(), KernelError> {
        for hook in NATIVE.iter().chain(&OVERLAY).rev() {
            PinnedLink::remove(&self.path(name, hook.program), self.pins, self.writes)?;
        }
        self.remove_filters(name)?;
        // What somebody else has something in stays.
        for directory in [self.pins.device(name).join("links"), self.pins.device(name)] {
            let _ = remove_dir(&directory);
        }
        Ok(())
    }

    /// Has every device that runs older programs run the current ones; false if one does not. Those
    /// programs take long to load: where it is not needed they go on until the devices' owner asks.
    pub(super) fn switch(&self, desired: Switch) -> Result<bool, DatapathError> {
        let mut all = true;
        for name in self.names()? {
            for kind in [DeviceKind::Native, DeviceKind::Overlay] {
                if let Err(error) = self.switch_one(&name, kind, desired) {
                    all = false;
                    tracing::warn!(device = name, %error, "an older program goes on serving");
                }
            }
        }
        Ok(all)
    }

    fn switch_one(&self, name: &str, kind: DeviceKind, desired: Switch) -> Result<(), KernelError> {
        let (mut programs, mut replaced) = (None, Replaced::new(self.pins));
        for (nth, hook) in hooks(kind).iter().enumerate() {
            let Some(link) = self.link(name, hook.program)? else { continue };
            if link.ifindex == 0 || (desired == Switch::Needed && self.serves(link.program)) {
                continue;
            }
            // It gets ours when the device has its row.
            if cilium_program(link.program)?.is_some() {
                continue;
            }
            let programs = match &mut programs {
                Some(programs) => programs,
                None => programs.insert(self.programs(kind)?),
            };
            link.run(&programs[nth], *hook, &mut replaced, self.writes)?;
        }
        match self.note(name)?.filter(|note| note.kind == kind) {
            Some(note) => self.switch_filters(note, (&mut programs, desired == Switch::All)),
            None => Ok(()),
        }
    }

    /// Whether a program of that number uses the maps that are open.
    pub(super) fn serves(&self, program: u32) -> bool {
        let program = sys::program_by_id(program).and_then(Program::of);
        program.is_ok_and(|program| program.uses(self.maps))
    }

    /// The current programs of a kind of device, loaded if need be.
    pub(super) fn programs(&self, kind: DeviceKind) -> Result<Vec<Program>, KernelError> {
        if let Some(programs) = self.pinned_programs(kind)? {
            return Ok(programs);
        }
        let object = match kind {
            DeviceKind::Native => DEVICE_OBJECT,
            DeviceKind::Overlay => OVERLAY_OBJECT,
        };
        let names: Vec<_> = hooks(kind).iter().map(|hook| hook.program).collect();
        let directory = self.build.directory(self.pins);
        // Where the kernel refused the endpoints' programs there is none yet.
        make_dir(&directory).map_err(|e| refused_pin("make", &directory, &e))?;
        // Pins of an earlier try, or of programs that use maps which were replaced.
        for name in &names {
            let path = directory.join(name);
            unpin(&path).map_err(|e| refused_pin("remove", &path, &e))?;
        }
        let loaded = loader::load(self.pins, self.build.features(), object, &names, &directory);
        loaded.map_err(|error| match error {
            DatapathError::Kernel(error) => error,
            other => refused("load", "programs of devices", &io::Error::other(other)),
        })
    }

    /// The programs of a kind that are pinned, unless one is missing or uses a map that was
    /// replaced.
    fn pinned_programs(&self, kind: DeviceKind) -> Result<Option<Vec<Program>>, KernelError> {
        let directory = self.build.directory(self.pins);
        let mut programs = Vec::new();
        for hook in hooks(kind) {
            let path = directory.join(hook.program);
            match sys::get(&path).and_then(Program::of) {
                Ok(program) if program.uses(self.maps) => programs.push(program),
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(refused_pin("open", &path, &error)),
            }
        }
        Ok(Some(programs))
    }

    /// Names by which links are pinned, or filters noted; not those where only somebody else pinned
    /// something.
    pub(super) fn names(&self) -> Result<Vec<String>, KernelError> {
        let directory = self.pins.devices();
        let mut found =
            names(&directory).map_err(|error| refused_pin("list", &directory, &error))?;
        found.retain(|name| {
            let has_link = |spot: Spot| self.path(name, spot.program).exists();
            let links = names(&self.pins.device(name).join("links")).unwrap_or_default();
            links.is_empty() || all().any(has_link)
        });
        Ok(found)
    }

    pub(super) fn path(&self, name: &str, program: &str) -> PathBuf {
        self.pins.device(name).join("links").join(program)
    }

    fn link(&self, name: &str, program: &str) -> Result<Option<PinnedLink>, KernelError> {
        PinnedLink::open(&self.path(name, program))
    }
}

/// The hooks of devices, of every kind.
pub(super) fn all() -> impl Iterator<Item = Spot> {
    NATIVE.into_iter().chain(OVERLAY)
}

/// The hooks of a device of that kind.
pub(super) fn hooks(kind: DeviceKind) -> &'static [Spot; 2] {
    match kind {
        DeviceKind::Native => &NATIVE,
        DeviceKind::Overlay => &OVERLAY,
    }
}

/// Removes the links of every device; each that there was is named.
pub(super) fn remove(pins: &Pins, removed: &mut Vec<String>) -> Result<(), DatapathError> {
    let directory = pins.devices();
    for name in names(&directory).map_err(|e| bpffs("list", directory.clone(), e))? {
        let links = pins.device(&name).join("links");
        for hook in NATIVE.iter().chain(&OVERLAY).rev() {
            let path = links.join(hook.program);
            if pins.are_inherited()
                && let Ok(link) = sys::get(&path)
            {
                sys::link_detach(link).map_err(|e| bpffs("end", path.clone(), e))?;
            }
            if unpin(&path).map_err(|e| bpffs("remove", path.clone(), e))? {
                removed.push(format!("link {} of device {name}", hook.program));
            }
        }
        // The filters themselves went with all others.
        let notes = pins.device(&name).join("filters");
        for note in names(&notes).map_err(|e| bpffs("list", notes.clone(), e))? {
            let _ = remove_dir(&notes.join(note));
        }
        let _ = remove_dir(&notes);
        // What somebody else still has something in stays.
        let _ = remove_dir(&links);
        let _ = remove_dir(&pins.device(&name));
    }
    let _ = remove_dir(&directory);
    Ok(())
}
