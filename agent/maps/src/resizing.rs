//! Connection tracking while its maps change size: the map before stays reachable until every hook
//! uses the current one. Then its rows are copied, and it goes.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::maps::CONNECTIONS;
use zerocopy::IntoBytes;

use super::{error::refused, sys::Map, table::scan};

/// Maps of connections that are being replaced by ones of another size.
///
/// A program goes on with the map that it was loaded with, and hooks are switched one by one: for a
/// while an endpoint's two hooks use different maps. So the map before stands in a slot until all
/// are switched. Programs look there for what the current map does not have, and note what they
/// track in both.
#[derive(Debug)]
pub struct Resizing {
    /// `volvox_ct4_old` and `volvox_ct6_old`, each of a family that is on.
    pub outers: [Option<Map>; 2],
}

/// Where the predecessor of one map stands while that is replaced.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    /// That map's name.
    pub name: &'static str,
    /// The outer map that has the slot.
    pub outer: &'a Map,
    /// Which one of it.
    pub number: u32,
}

impl Resizing {
    fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        CONNECTIONS.into_iter().filter_map(|(name, outer, number)| {
            Some(Slot { name, outer: self.outers[outer].as_ref()?, number })
        })
    }

    /// The slot of a map; `None` if it is none of connections.
    pub fn slot(&self, name: &str) -> Option<Slot<'_>> {
        self.slots().find(|slot| slot.name == name)
    }

    /// Takes over what only the maps before have, and lets go of them. To be called when every hook
    /// runs a program that uses the current maps, whose numbers are given by name.
    pub fn finish(&self, current: &[(&'static str, u32)]) -> Result<(), KernelError> {
        let mut filled = Vec::new();
        for slot in self.slots() {
            filled.extend(slot.map()?.map(|old| (slot, old)));
        }
        let Some((first, some)) = filled.first() else { return Ok(()) };
        // An older program may still be on its way, and write what the copy then misses.
        first.put(some)?;
        for (slot, old) in &filled {
            let of_name = current.iter().find(|(name, _)| *name == slot.name);
            let (_, current) = of_name.expect("every map of connections is open");
            slot.take_over(old, *current)?;
        }
        // A newer one may have found nothing in the current map and look into the slot next.
        first.put(some)?;
        filled.iter().try_for_each(|(slot, _)| slot.clear())
    }
}

impl Slot<'_> {
    fn refused(&self, op: &'static str) -> impl Fn(io::Error) -> KernelError {
        let about = format!("the slot of {} before its size changed", self.name);
        move |error| refused(op, &about, &error)
    }

    /// The map in it.
    pub fn map(&self) -> Result<Option<Map>, KernelError> {
        let mut id = 0_u32;
        let found = self.outer.lookup(self.number.as_bytes(), id.as_mut_bytes());
        if !found.map_err(self.refused("read"))? {
            return Ok(None);
        }
        match Map::by_id(id) {
            Ok(map) => Ok(Some(map)),
            // It was let go of meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(self.refused("open the map in")(error)),
        }
    }

    /// Puts a map into it. Returns after every program that ran meanwhile.
    pub fn put(&self, map: &Map) -> Result<(), KernelError> {
        let descriptor = map.as_fd().as_raw_fd();
        let put = self.outer.update(self.number.as_bytes(), descriptor.as_bytes());
        put.map_err(self.refused("write"))
    }

    fn clear(&self) -> Result<(), KernelError> {
        self.outer.delete(self.number.as_bytes()).map(drop).map_err(self.refused("clear"))
    }

    fn take_over(&self, old: &Map, current: u32) -> Result<(), KernelError> {
        // A crash came before the new map.
        if old.info().id == current {
            return Ok(());
        }
        let copied = Map::by_id(current).and_then(|new| copy_missing(old, &new));
        let copied = copied.map_err(self.refused("copy connections from"))?;
        tracing::info!(map = self.name, copied, "connections taken over");
        Ok(())
    }
}

/// Copies every row that is not there.
fn copy_missing(from: &Map, to: &Map) -> io::Result<usize> {
    let (key, value) = (from.key_bytes(), from.value_bytes());
    let (mut copied, mut result) = (0, Ok(()));
    scan(from, |keys, values| {
        for (key, value) in keys.chunks_exact(key).zip(values.chunks_exact(value)) {
            match to.insert(key, value) {
                Ok(inserted) => copied += usize::from(inserted),
                Err(error) => {
                    result = Err(error);
                    return false;
                }
            }
        }
        true
    })?;
    result.map(|()| copied)
}
