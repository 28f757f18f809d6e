//! Sweeps through the connection tracking maps: connections that expired, or whose address or
//! service is gone.

use std::net::IpAddr;

use rustix::time::{ClockId, clock_gettime};
use volvox_actors::{
    model::{Families, ServiceId},
    ports::{KernelError, Swept},
};
use volvox_bpf_progs::layouts::{Ct4Key, Ct6Key, CtRow};
use volvox_maps::table::{Plain, Table};

use super::maps::Maps;

/// Removes connections of these families whose lifetime is over, by the clock that programs read.
pub(super) fn collect(maps: &Maps, families: Families) -> Result<Swept, KernelError> {
    maps.finish_resizing()?;
    let now = u32::try_from(clock_gettime(ClockId::Monotonic).tv_sec).unwrap_or(u32::MAX);
    let mut swept = Swept::default();
    for table in maps.ct4.iter().filter(|_| families.ipv4) {
        sweep(table, &mut swept, |_, row| row.lifetime < now)?;
    }
    for table in maps.ct6.iter().filter(|_| families.ipv6) {
        sweep(table, &mut swept, |_, row| row.lifetime < now)?;
    }
    Ok(swept)
}

/// Forgets every connection from and to any of these addresses, in one sweep.
pub(super) fn scrub(maps: &Maps, addresses: &[IpAddr]) -> Result<Swept, KernelError> {
    // What a map before has would come back from there.
    maps.finish_resizing()?;
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
            sweep(table, &mut swept, |key, _| touches4(key))?;
        }
    }
    if !ipv6.is_empty() {
        for table in &maps.ct6 {
            sweep(table, &mut swept, |key, _| touches6(key))?;
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
    table.for_each_batch(|rows| {
        let mut keys = Vec::new();
        for (key, row) in rows {
            swept.seen += 1;
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
