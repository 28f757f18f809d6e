//! The BPF file system that pins are in may be another one than before: mounted over it, or away.
//!
//! What the agent holds open lives on. It is pinned again where the next run will look for it.

use std::{io, os::fd::AsFd};

use volvox_bpf_progs::maps::MapUse;
use volvox_maps::{
    error::DatapathError,
    pins::{HOOKS, Pins, bpffs, make_dir, program_name},
    sys::{self, Map},
};

use super::{Datapath, maglev::TableMaps, maps::EMPTY_POLICY};

impl Datapath {
    /// Looks which BPF file system is there. Where it is another one, maps and programs are pinned in
    /// it; links are by whoever looks at their hooks. What is in the way, if anything is.
    pub(super) fn see_mount(&self) -> Option<String> {
        let mut seen = self.mount.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let root = self.pins.root().display();
        let now = match self.pins.device_of_root() {
            Ok(now) if now == *seen => return None,
            Ok(now) => now,
            Err(error) => return Some(format!("{root} cannot be looked at: {error}")),
        };
        match self.pin_again() {
            Ok(()) => {
                tracing::warn!(
                    root = %root,
                    before = *seen,
                    now,
                    "another BPF file system is mounted there: all is pinned again in it"
                );
                *seen = now;
                None
            }
            Err(error) => Some(format!(
                "another file system than before is mounted at {root}, and what runs cannot be pinned \
                 there ({error}): mount the BPF file system again before the agent ends"
            )),
        }
    }

    fn pin_again(&self) -> Result<(), DatapathError> {
        let pins = Pins::prepare(self.pins.root())?;
        let named = self.maps.ids.iter().map(|(name, id)| (*name, *id));
        for (name, id) in named.chain([(EMPTY_POLICY, self.maps.empty.info().id)]) {
            let path = pins.map(name);
            let map = Map::by_id(id).map_err(|e| bpffs("open the map of", path.clone(), e))?;
            pin_unless_there(map, &path).map_err(|e| bpffs("pin a map at", path, e))?;
        }
        if self.build.features().uses(MapUse::Maglev) {
            TableMaps::of(&pins, self.sizes)?.settle(&pins)?;
        }
        let generation = self.generation();
        let directory = self.build.directory(&pins);
        make_dir(&directory).map_err(|e| bpffs("make", directory.clone(), e))?;
        for hook in HOOKS {
            let Ok(program) = generation.program(hook) else { continue };
            let path = directory.join(program_name(hook));
            let pinned = pin_unless_there(program, &path);
            pinned.map_err(|e| bpffs("pin a program at", path, e))?;
        }
        Ok(())
    }
}

fn pin_unless_there(object: impl AsFd, path: &std::path::Path) -> io::Result<()> {
    match sys::pin(object, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
