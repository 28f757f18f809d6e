//! Sweeps through the connection tracking maps: connections that expired, or whose address,
//! backend or service is gone.

use std::{collections::BTreeSet, net::IpAddr};

use rustix::time::{ClockId, clock_gettime};
use volvox_actors::{
    model::{BackendId, Families, ServiceId},
    ports::{KernelError, Swept},
};
use volvox_bpf_progs::layouts::{Ct4Key, Ct6Key, CtRow, TupleFlags};
use volvox_maps::table::{Plain, Table};

use super::maps::Maps;

/// The backend that a connection by a service has, if the row is one of those.
fn backend_of(tuple: u8, row: &CtRow) -> Option<BackendId> {
    let id = row.nat_addr[8..12].try_into().map(u32::from_ne_bytes).ok()?;
    (tuple & TupleFlags::SERVICE != 0).then_some(BackendId(id))
}

/// Removes connections of these families whose lifetime is over, by the clock that programs read. Tells who
/// of some backends has connections of TCP; one that goes is looked at as well, for a packet may bring it back.
pub(super) fn collect(
    maps: &Maps,
    families: Families,
    backends: &BTreeSet<BackendId>,
) -> Result<(Swept, BTreeSet<BackendId>), KernelError> {
    maps.finish_resizing()?;
    let now = u32::try_from(clock_gettime(ClockId::Monotonic).tv_sec).unwrap_or(u32::MAX);
    let (mut swept, mut used) = (Swept::default(), BTreeSet::new());
    let mut see = |tuple, row: &CtRow| {
        if !backends.is_empty() {
            used.extend(backend_of(tuple, row).filter(|it| backends.contains(it)));
        }
    };
    let is_over = |row: &CtRow| row.lifetime < now;
    if families.ipv4 {
        let [tcp, any] = &maps.ct4;
        sweep_seen(
            tcp,
            &mut swept,
            |key: &Ct4Key, row| see(key.flags, row),
            |_, row| is_over(row),
        )?;
        sweep(any, &mut swept, |_, row| is_over(row))?;
    }
    if families.ipv6 {
        let [tcp, any] = &maps.ct6;
        sweep_seen(
            tcp,
            &mut swept,
            |key: &Ct6Key, row| see(key.flags, row),
            |_, row| is_over(row),
        )?;
        sweep(any, &mut swept, |_, row| is_over(row))?;
    }
    Ok((swept, used))
}

/// Backends at any of these addresses.
fn backends_at(maps: &Maps, addresses: &[IpAddr]) -> Result<BTreeSet<BackendId>, KernelError> {
    let mut all = BTreeSet::new();
    let mut see = |id: u32, at: IpAddr| {
        if addresses.contains(&at) {
            all.insert(BackendId(id));
        }
    };
    if addresses.iter().any(IpAddr::is_ipv4) {
        maps.services.backends4.for_each(|id, row| see(id, row.socket().ip().to_owned().into()))?;
    }
    if addresses.iter().any(IpAddr::is_ipv6) {
        maps.services.backends6.for_each(|id, row| see(id, row.socket().ip().to_owned().into()))?;
    }
    Ok(all)
}

/// Forgets every connection from and to any of these addresses, and by services to backends there, in one
/// sweep: who has an address next is sent nothing that was his predecessor's.
pub(super) fn scrub(maps: &Maps, addresses: &[IpAddr]) -> Result<Swept, KernelError> {
    // What a map before has would come back from there.
    maps.finish_resizing()?;
    let backends = backends_at(maps, addresses)?;
    let is_to = |tuple, row: &CtRow| {
        !backends.is_empty() && backend_of(tuple, row).is_some_and(|it| backends.contains(&it))
    };
    let mut ipv4 = Vec::new();
    let mut ipv6 = Vec::new();
    for address in addresses {
        match address {
            IpAddr::V4(address) => ipv4.push(address.octets()),
            IpAddr::V6(address) => ipv6.push(address.octets()),
        }
    }
    ipv4.sort_unstable();
    ipv6.sort_unstable();
    let mut swept = Swept::default();
    let touches4 = |key: &Ct4Key| {
        [key.daddr, key.saddr].iter().any(|address| ipv4.binary_search(address).is_ok())
    };
    let touches6 = |key: &Ct6Key| {
        [key.daddr, key.saddr].iter().any(|address| ipv6.binary_search(address).is_ok())
    };
    if !ipv4.is_empty() {
        for table in &maps.ct4 {
            sweep(table, &mut swept, |key, row| touches4(key) || is_to(key.flags, row))?;
        }
    }
    if !ipv6.is_empty() {
        for table in &maps.ct6 {
            sweep(table, &mut swept, |key, row| touches6(key) || is_to(key.flags, row))?;
        }
    }
    Ok(swept)
}

/// Forgets every connection through these services, in one sweep.
pub(super) fn forget(maps: &Maps, services: &[ServiceId]) -> Result<Swept, KernelError> {
    maps.finish_resizing()?;
    let mut swept = Swept::default();
    let is_theirs = |row: &CtRow| services.contains(&ServiceId(row.rev_nat_index.get()));
    for table in &maps.ct4 {
        sweep(table, &mut swept, |_, row| is_theirs(row))?;
    }
    for table in &maps.ct6 {
        sweep(table, &mut swept, |_, row| is_theirs(row))?;
    }
    Ok(swept)
}

/// Removes the rows that are doomed, batch by batch. A batch is a copy: each row is asked for again
/// just before it goes, for a packet may have brought it back to life, or made it anew.
pub(super) fn sweep<K: Plain>(
    table: &Table<K, CtRow>,
    swept: &mut Swept,
    doomed: impl Fn(&K, &CtRow) -> bool,
) -> Result<(), KernelError> {
    sweep_seen(table, swept, |_, _| {}, doomed)
}

/// The same; each row is shown to `see` before.
fn sweep_seen<K: Plain>(
    table: &Table<K, CtRow>,
    swept: &mut Swept,
    mut see: impl FnMut(&K, &CtRow),
    doomed: impl Fn(&K, &CtRow) -> bool,
) -> Result<(), KernelError> {
    table.for_each_batch(|rows| {
        let mut keys = Vec::new();
        for (key, row) in rows {
            swept.seen += 1;
            see(&key, &row);
            if doomed(&key, &row) {
                keys.push(key);
            }
        }
        for key in &keys {
            let is_doomed = table.get(key)?.is_some_and(|row| doomed(key, &row));
            if is_doomed && table.delete(key)? {
                swept.deleted += 1;
            }
        }
        Ok(())
    })
}
