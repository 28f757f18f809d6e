//! The maps of what is switched off: programs that do not use them name them all the same, so while
//! programs are loaded there are others in their places, of one row; and pins that an earlier life left go.
//! Which maps these are, `Features::uses` says.

use std::{io, os::fd::AsFd, path::PathBuf};

use volvox_bpf_progs::{
    Features,
    maps::{MAGLEV_TABLE, MAPS, MapSpec, MapUse},
};
use volvox_maps::{
    error::{DatapathError, not_made},
    pins::{Pins, bpffs, unpin},
    sys::{self, Map, NewMap},
};

use super::{maglev::TABLE, maps::new_map};

/// What the kernel calls maps that stand in for others.
const STAND_IN: &str = "volvox_off";

/// Names of the pins of maps of what is switched off.
fn pins_off(features: Features) -> impl Iterator<Item = &'static str> {
    let maps = MAPS.iter().map(|spec| (spec.name, spec.of));
    let all = maps.chain([(TABLE, MapUse::Maglev)]);
    all.filter(move |(_, of)| !features.uses(*of)).map(|(name, _)| name)
}

/// Removes the pins of maps of what is switched off. A map goes with the last program that uses it; if it
/// is wanted again before, programs tell which it was.
pub(super) fn remove(pins: &Pins, features: Features) -> Result<(), DatapathError> {
    let mut removed = Vec::new();
    for name in pins_off(features) {
        let path = pins.map(name);
        if unpin(&path).map_err(|e| bpffs("remove", path, e))? {
            removed.push(name);
        }
    }
    if !removed.is_empty() {
        tracing::info!(maps = removed.join(" "), "maps of what is switched off are removed");
    }
    Ok(())
}

/// Maps that stand in for those of what is switched off, pinned while programs are loaded.
pub(super) struct StandIns(Vec<(&'static str, PathBuf)>);

impl StandIns {
    /// Makes and pins them; none where all is switched on.
    pub(super) fn pin(pins: &Pins, features: Features) -> Result<Self, DatapathError> {
        let mut all = Self(Vec::new());
        for spec in MAPS.iter().filter(|spec| !features.uses(spec.of)) {
            let path = pins.incoming_map(spec.name);
            // One whose loader was killed.
            unpin(&path).map_err(|e| bpffs("remove", path.clone(), e))?;
            let map = stand_in(spec, features).map_err(|e| not_made(spec.name, &e))?;
            sys::pin(&map, &path).map_err(|e| bpffs("pin a map at", path.clone(), e))?;
            all.0.push((spec.name, path));
        }
        Ok(all)
    }

    /// Where a map is pinned that programs are to use.
    pub(super) fn place(&self, pins: &Pins, name: &str) -> PathBuf {
        let found = self.0.iter().find(|(of, _)| *of == name);
        found.map_or_else(|| pins.map(name), |(_, path)| path.clone())
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        // What stays the next start removes.
        for (_, path) in &self.0 {
            if let Err(error) = unpin(path) {
                tracing::warn!(path = %path.display(), %error, "a pin stays until the next start");
            }
        }
    }
}

/// The verifier may look at programs that nothing calls, so it is like the map that it stands for.
fn stand_in(spec: &MapSpec, features: Features) -> io::Result<Map> {
    let inner = spec.inner.map(|inner| {
        let like = new_map(inner, 1);
        let value_size = match *inner == MAGLEV_TABLE {
            true => features.maglev * size_of::<u32>() as u32,
            false => like.value_size,
        };
        Map::create(&NewMap { name: STAND_IN, value_size, ..like })
    });
    let inner = inner.transpose()?;
    let inner = inner.as_ref().map(AsFd::as_fd);
    Map::create(&NewMap { name: STAND_IN, inner, ..new_map(spec, 1) })
}
