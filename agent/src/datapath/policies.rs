//! Policy maps of endpoints: they are built, put into slots, read, compared, changed row by row and
//! pinned. What the rows should be, the actors decide.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, AsRawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use volvox_actors::{
    model::{EndpointId, PolicyEntry, PolicyKey, PolicyRows},
    ports::{KernelError, PolicyCheck},
};
use volvox_bpf_progs::layouts as raw;
use volvox_maps::{
    error::{not_made, refused},
    pins::{Pins, refused_pin, rename, unpin},
    policies::all_rows,
    rows::{policy_entry_to_raw, policy_key_from_raw, policy_key_to_raw},
    sys::{self, Map, NewMap},
    table::scan_by,
    tally::MapTally,
};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    maps::Maps,
    writes::{Writes, count},
};

/// Endpoints' policy maps and the slots of `volvox_policy` in which they stand.
pub(super) struct Policies<'a> {
    pub(super) pins: &'a Pins,
    pub(super) maps: &'a Maps,
    pub(super) spec: NewMap<'a>,
    pub(super) built: &'a Built,
    pub(super) writes: &'a Writes,
}

/// A slot and the map that is to stand in it; `None` empties it.
pub(super) type SlotChange = (u32, Option<Map>);

/// Policy maps that were built and not flipped yet, by slot.
pub(super) type Built = Mutex<BTreeMap<u32, Map>>;

/// What was to be in a slot, or built for it, is not there.
pub(super) fn absent(op: &'static str, slot: u32) -> KernelError {
    refused(op, slot_name(slot), &io::Error::from_raw_os_error(libc::ENOENT))
}

/// A slot that cannot be written.
pub(super) fn refused_slot(slot: u32, error: &io::Error) -> KernelError {
    refused("write", slot_name(slot), error)
}

fn slot_name(slot: u32) -> String {
    format!("map volvox_policy slot {slot}")
}

impl Policies<'_> {
    /// Makes a map of these rows, to be flipped into the slot. It goes with its last reference.
    pub(super) fn build(&self, slot: u32, rows: &PolicyRows) -> Result<(), KernelError> {
        let map = Map::create(&self.spec).map_err(|e| not_made(self.spec.name, &e))?;
        let keys: Vec<_> = rows.keys().map(policy_key_to_raw).collect();
        let values: Vec<_> = keys
            .iter()
            .zip(rows.values())
            .map(|(key, row)| policy_entry_to_raw(key, row))
            .collect();
        let (done, result) = map.update_batch(keys.as_bytes(), values.as_bytes());
        self.tally().updated(done, &result);
        result.map_err(|e| refused("write", format!("map {}", self.spec.name), &e))?;
        self.tally().tell_pressure(slot, rows.len() as u64);
        self.built().insert(slot, map);
        Ok(())
    }

    fn tally(&self) -> Arc<MapTally> {
        self.writes.tallies.of(self.spec.name)
    }

    fn built(&self) -> MutexGuard<'_, BTreeMap<u32, Map>> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the map that was built for a slot.
    pub(super) fn take_built(&self, slot: u32) -> Option<Map> {
        self.built().remove(&slot)
    }

    /// Takes back a map that could not be put into its slot, unless a newer one was built.
    pub(super) fn keep_built(&self, (slot, map): SlotChange) {
        if let Some(map) = map {
            self.built().entry(slot).or_insert(map);
        }
    }

    /// Writes slots, in order. Returns after a grace period: then no program uses any more what
    /// was in them. Answers with each change what came of it.
    pub(super) fn write_slots(
        &self,
        changes: Vec<SlotChange>,
    ) -> Vec<(SlotChange, Result<(), KernelError>)> {
        let slots: Vec<u32> = changes.iter().map(|(slot, _)| *slot).collect();
        let descriptors: Vec<i32> = changes
            .iter()
            .map(|(_, map)| map.as_ref().unwrap_or(&self.maps.empty).as_fd().as_raw_fd())
            .collect();
        let mut results = Vec::with_capacity(changes.len());
        while results.len() < changes.len() {
            let next = results.len();
            let (done, result) = self
                .maps
                .slots
                .update_batch(slots[next..].as_bytes(), descriptors[next..].as_bytes());
            self.writes.endpoint_maps.fetch_add(done as u64, Ordering::Relaxed);
            self.writes.tallies.of("volvox_policy").updated(done, &result);
            results.resize(next + done, Ok(()));
            if let Err(error) = result {
                results.push(Err(refused_slot(slots[next + done], &error)));
            }
        }
        changes.into_iter().zip(results).collect()
    }

    /// Empties slots, once no program can be on its way to them any more: one that read the
    /// configuration row before it named another slot would else find nothing and drop.
    pub(super) fn clear(&self, slots: &[u32]) -> Result<(), KernelError> {
        // What was built for them and never got there goes too.
        slots.iter().for_each(|slot| drop(self.take_built(*slot)));
        // Slot 0 is nobody's. Writing it waits for every program that runs now.
        let passed = self.write_slots(vec![(0, None)]);
        let cleared = self.write_slots(slots.iter().map(|slot| (*slot, None)).collect());
        passed.into_iter().chain(cleared).try_for_each(|(_, result)| result)
    }

    /// Whether a slot shows the map of that number.
    pub(super) fn shows(&self, (slot, desired): (u32, u32)) -> bool {
        let mut id = 0_u32;
        let found = self.maps.slots.lookup(slot.as_bytes(), id.as_mut_bytes());
        found.is_ok_and(|found| found && id == desired)
    }

    /// The map in a slot.
    pub(super) fn in_slot(&self, slot: u32) -> Result<Option<Map>, KernelError> {
        let failed = |error: io::Error| refused("read", slot_name(slot), &error);
        let mut id = 0_u32;
        let found = self.maps.slots.lookup(slot.as_bytes(), id.as_mut_bytes()).map_err(failed)?;
        if !found || id == self.maps.empty.info().id {
            return Ok(None);
        }
        match Map::by_id(id) {
            Ok(map) => Ok(Some(map)),
            // It was replaced after its number was read.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The rows in a slot; `None` if it is empty, or holds what nobody writes: that cannot be changed
    /// row by row.
    pub(super) fn read(&self, slot: u32) -> Result<Option<PolicyRows>, KernelError> {
        let Some(map) = self.in_slot(slot)? else { return Ok(None) };
        let rows = all_rows(&map).map(|(rows, all_ours)| all_ours.then_some(rows));
        rows.map_err(|error| refused("read", slot_name(slot), &error))
    }

    /// The rows in many slots; what is empty, or cannot be read now, is left out and read by the
    /// endpoint itself. Slots of endpoints with equal rows share them.
    pub(super) fn read_all(&self, slots: &[u32]) -> BTreeMap<u32, Arc<PolicyRows>> {
        let mut distinct: BTreeSet<Arc<PolicyRows>> = BTreeSet::new();
        let mut found = BTreeMap::new();
        for &slot in slots {
            let Ok(Some(rows)) = self.read(slot) else { continue };
            let rows = distinct.get(&rows).cloned().unwrap_or_else(|| Arc::new(rows));
            distinct.insert(Arc::clone(&rows));
            found.insert(slot, rows);
        }
        found
    }

    /// Of which endpoints the policy map, or what its pin shows, is not what was written. One whose
    /// configuration is another's is left out: its rows say so.
    pub(super) fn differing(
        &self,
        checks: &[PolicyCheck],
    ) -> Result<BTreeSet<EndpointId>, KernelError> {
        let mut differing = BTreeSet::new();
        for check in checks {
            if self.differs(check)? {
                differing.insert(check.endpoint);
            }
        }
        Ok(differing)
    }

    fn differs(&self, check: &PolicyCheck) -> Result<bool, KernelError> {
        let config = self.maps.config.get(&check.ifindex)?;
        let Some(config) = config.filter(|row| row.ep_id == check.endpoint.0) else {
            return Ok(false);
        };
        let Some(map) = self.in_slot(config.policy_slot)? else { return Ok(true) };
        let pinned = Map::pinned(&self.pins.policy(check.endpoint));
        if pinned.is_ok_and(|pinned| pinned.info().id != map.info().id) {
            return Ok(true);
        }
        let same = holds(&map, &check.rows);
        same.map(|same| !same)
            .map_err(|error| refused("read", slot_name(config.policy_slot), &error))
    }

    /// The map in a slot that must not be empty.
    fn standing(&self, slot: u32) -> Result<Map, KernelError> {
        self.in_slot(slot)?.ok_or_else(|| absent("find the map in", slot))
    }

    /// Puts one row into the map in a slot.
    pub(super) fn put_row(
        &self,
        slot: u32,
        key: &PolicyKey,
        entry: &PolicyEntry,
    ) -> Result<(), KernelError> {
        let key = policy_key_to_raw(key);
        let row = policy_entry_to_raw(&key, entry);
        let result = self.standing(slot)?.update(key.as_bytes(), row.as_bytes());
        self.tally().updated(result.is_ok().into(), &result);
        result.map_err(|error| refused("write", slot_name(slot), &error))?;
        count(&self.writes.endpoint_maps);
        Ok(())
    }

    /// Removes one row, if it is there, from the map in a slot.
    pub(super) fn delete_row(&self, slot: u32, key: &PolicyKey) -> Result<(), KernelError> {
        let key = policy_key_to_raw(key);
        let result = self.standing(slot)?.delete(key.as_bytes());
        let deleted = usize::from(matches!(result, Ok(true)));
        self.tally().deleted(deleted, &result.as_ref().map(drop));
        let deleted = result.map_err(|error| refused("delete from", slot_name(slot), &error))?;
        if deleted {
            count(&self.writes.endpoint_maps);
        }
        Ok(())
    }

    /// Pins the map in a slot under the endpoint's name, unless it already is.
    pub(super) fn pin(&self, endpoint: EndpointId, slot: u32) -> Result<(), KernelError> {
        let map = self.standing(slot)?;
        let place = self.pins.policy(endpoint);
        if Map::pinned(&place).is_ok_and(|pinned| pinned.info().id == map.info().id) {
            return Ok(());
        }
        let incoming = self.pins.incoming_map(&volvox_bpf_progs::maps::policy_pin_name(endpoint.0));
        unpin(&incoming)
            .and_then(|_| sys::pin(&map, &incoming))
            .and_then(|()| rename(&incoming, &place))
            .map_err(|error| refused_pin("pin", &place, &error))?;
        count(&self.writes.endpoint_maps);
        Ok(())
    }

    /// Removes the pin of an endpoint's policy map.
    pub(super) fn unpin(&self, endpoint: EndpointId) -> Result<(), KernelError> {
        let place = self.pins.policy(endpoint);
        let removed = unpin(&place).map_err(|error| refused_pin("remove", &place, &error))?;
        if removed {
            count(&self.writes.endpoint_maps);
        }
        Ok(())
    }
}

/// Whether a policy map holds these rows, and no others.
fn holds(map: &Map, rows: &PolicyRows) -> io::Result<bool> {
    let (key, value) = (size_of::<raw::PolicyKey>(), size_of::<raw::PolicyRow>());
    if (map.key_bytes(), map.value_bytes()) != (key, value) {
        return Ok(false);
    }
    let (mut seen, mut same) = (0, true);
    scan_by(map, rows.len() + 1, |keys, values| {
        let keys = keys.chunks_exact(key);
        for (key, value) in keys.zip(values.chunks_exact(value)) {
            seen += 1;
            let desired = raw::PolicyKey::read_from_bytes(key).ok().and_then(|found| {
                let key = policy_key_from_raw(&found);
                let desired = policy_entry_to_raw(&found, rows.get(&key)?);
                (policy_key_to_raw(&key).as_bytes() == found.as_bytes()).then_some(desired)
            });
            same &= desired.is_some_and(|desired| desired.as_bytes() == value);
        }
        same
    })?;
    Ok(same && seen == rows.len())
}
