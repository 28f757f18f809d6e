//! Translations of addresses: which of them still have a connection.

use volvox_actors::{
    model::Families,
    ports::{KernelError, Swept},
};
use volvox_bpf_progs::layouts::{
    Ct4Key, Ct6Key, CtRow, Nat4Key, Nat4Row, Nat6Key, Nat6Row, TupleFlags,
};
use volvox_maps::table::{Plain, Table};

use super::maps::Maps;

/// Removes translations of these families whose connection is gone. Programs make a connection
/// before they translate it, and a row is asked for again just before it goes: what lives is not cut.
pub(super) fn collect(maps: &Maps, families: Families) -> Result<Swept, KernelError> {
    let mut swept = Swept::default();
    if families.ipv4 {
        let [tcp, any] = &maps.ct4;
        sweep(&maps.nat4, &mut swept, |key, row| {
            is_tracked(tcp, any, &opener4(key, row), key.protocol)
        })?;
    }
    if families.ipv6 {
        let [tcp, any] = &maps.ct6;
        sweep(&maps.nat6, &mut swept, |key, row| {
            is_tracked(tcp, any, &opener6(key, row), key.protocol)
        })?;
    }
    Ok(swept)
}

/// The connection that a row translates, as its opener made it.
fn opener4(key: &Nat4Key, row: &Nat4Row) -> Ct4Key {
    let comes_back = key.flags & TupleFlags::IN != 0;
    let (opener, other) =
        if comes_back { (row.address, key.saddr) } else { (key.saddr, key.daddr) };
    let (sport, dport) = if comes_back { (row.port, key.sport) } else { (key.sport, key.dport) };
    let (protocol, flags) = (key.protocol, TupleFlags::OUT);
    Ct4Key { daddr: opener, saddr: other, dport, sport, protocol, flags }
}

/// The same over IPv6.
fn opener6(key: &Nat6Key, row: &Nat6Row) -> Ct6Key {
    let comes_back = key.flags & TupleFlags::IN != 0;
    let (opener, other) =
        if comes_back { (row.address, key.saddr) } else { (key.saddr, key.daddr) };
    let (sport, dport) = if comes_back { (row.port, key.sport) } else { (key.sport, key.dport) };
    let (protocol, flags) = (key.protocol, TupleFlags::OUT);
    Ct6Key { daddr: opener, saddr: other, dport, sport, protocol, flags }
}

fn is_tracked<K: Plain>(
    tcp: &Table<K, CtRow>,
    any: &Table<K, CtRow>,
    key: &K,
    protocol: u8,
) -> Result<bool, KernelError> {
    let table = if i32::from(protocol) == libc::IPPROTO_TCP { tcp } else { any };
    Ok(table.get(key)?.is_some())
}

fn sweep<K: Plain, V: Plain>(
    table: &Table<K, V>,
    swept: &mut Swept,
    alive: impl Fn(&K, &V) -> Result<bool, KernelError>,
) -> Result<(), KernelError> {
    table.for_each_batch(|rows| {
        let mut orphans = Vec::new();
        for (key, row) in rows {
            swept.seen += 1;
            if !alive(&key, &row)? {
                orphans.push((key, row));
            }
        }
        for (key, row) in &orphans {
            if !alive(key, row)? && table.delete(key)? {
                swept.deleted += 1;
            }
        }
        Ok(())
    })
}
