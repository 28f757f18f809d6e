//! Rows of `volvox_lb4_members` and `volvox_lb6_members` that programs of an earlier version did not need,
//! and those that come now do: before any hook runs these, what services lead to is a member of theirs.

use std::collections::{BTreeMap, BTreeSet};

use volvox_actors::{
    model::{BackendId, ServiceId},
    ports::{BackendRow, BackendState, KernelError, MemberKey, ServiceTables},
};
use volvox_bpf_progs::layouts::{CtRow, TupleFlags};
use volvox_maps::services::take_all;

use crate::datapath::maps::Maps;

/// Adds what is missing, and mends what an earlier version changed without. Nothing goes: what is too much
/// is seen to by the owner of services.
pub(in crate::datapath) fn complete(maps: &Maps) -> Result<(), KernelError> {
    let services = &maps.services;
    let mut found = ServiceTables::default();
    take_all(&services.slots4, &mut found)?;
    take_all(&services.slots6, &mut found)?;
    if found.slots.is_empty() {
        return Ok(());
    }
    take_all(&services.backends4, &mut found)?;
    take_all(&services.backends6, &mut found)?;
    take_all(&services.members4, &mut found)?;
    take_all(&services.members6, &mut found)?;
    let backends: BTreeMap<(BackendId, bool), BackendRow> =
        found.backends.iter().map(|(id, row)| ((*id, row.at.address.is_ipv4()), *row)).collect();
    let firsts = found.slots.iter().filter(|((_, slot), _)| *slot == 0);
    let used: BTreeMap<_, _> = firsts.map(|((at, _), row)| (*at, row.count)).collect();
    let mut desired = BTreeMap::new();
    for ((frontend, slot), row) in found.slots.iter().filter(|((_, slot), _)| *slot > 0) {
        let key = (BackendId(row.word), frontend.at.address.is_ipv4());
        let is_used = used.get(frontend).is_none_or(|count| slot <= count);
        let state = if is_used { BackendState::Active } else { BackendState::Quarantined };
        if let Some(BackendRow { at, .. }) = backends.get(&key) {
            desired.insert((row.id, key), BackendRow { at: *at, state, zone: 0 });
        }
    }
    add_ending(maps, &backends, &mut desired)?;
    let there: BTreeMap<(ServiceId, (BackendId, bool)), BackendRow> = found
        .members
        .iter()
        .map(|((id, backend), row)| ((*id, (*backend, row.at.address.is_ipv4())), *row))
        .collect();
    let missing = desired.into_iter().filter(|(key, row)| there.get(key) != Some(row));
    let rows: Vec<(MemberKey, BackendRow)> =
        missing.map(|((id, (backend, _)), row)| ((id, backend), row)).collect();
    services.put_members(&rows)
}

/// Backends that end have no slot: connections tell whose they are.
fn add_ending(
    maps: &Maps,
    backends: &BTreeMap<(BackendId, bool), BackendRow>,
    desired: &mut BTreeMap<(ServiceId, (BackendId, bool)), BackendRow>,
) -> Result<(), KernelError> {
    let ending = backends.iter().filter(|(_, row)| row.state == BackendState::Terminating);
    let ending: BTreeSet<_> = ending.map(|(key, _)| *key).collect();
    if ending.is_empty() {
        return Ok(());
    }
    let mut add = |flags: u8, is_ipv4: bool, row: &CtRow| {
        let [.., a, b, c, d, _, _, _, _] = row.nat_addr;
        let key = (BackendId(u32::from_ne_bytes([a, b, c, d])), is_ipv4);
        if flags == TupleFlags::SERVICE && ending.contains(&key) {
            let place = (ServiceId(row.rev_nat_index.get()), key);
            desired.entry(place).or_insert(BackendRow { zone: 0, ..backends[&key] });
        }
    };
    for table in &maps.ct4 {
        table.for_each(|key, row| add(key.flags, true, &row))?;
    }
    for table in &maps.ct6 {
        table.for_each(|key, row| add(key.flags, false, &row))?;
    }
    Ok(())
}
