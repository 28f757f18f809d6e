//! Rows as they are read to be compared: a page at a time, each with its key. What the agent never
//! writes, in a value or in a key, is told apart: it may mean something to programs all the same.

use ipnet::IpNet;
use volvox_actors::{
    model::{BackendId, ServiceId},
    ports::{KernelError, PageRows, RowMap, RowPage, RowPlace, ServiceTables, UnusedNumbers},
};
use volvox_bpf_progs::layouts as raw;
use volvox_maps::{
    rows::{ipcache_from_raw, ipcache_prefix, ipcache_to_raw, lxc_from_raw, lxc_to_raw},
    services::Taken,
    table::{Plain, Table},
};

use super::{
    Datapath,
    services::{match_key, member_key, range_keys, slot_key4, slot_key6, slot_to_raw},
};

/// Rows with their keys, keys that nobody writes, and where the next page begins.
type Page<A, B> = (Vec<(A, Option<B>)>, Vec<Box<[u8]>>, Option<RowPlace>);

/// Reads a page and says of each row what `read` makes of it: nothing of a key that nobody writes.
fn page<K: Plain, V: Plain, A, B>(
    table: &Table<K, V>,
    from: Option<&[u8]>,
    mut read: impl FnMut(&K, V) -> Option<(A, Option<B>)>,
) -> Result<Page<A, B>, KernelError> {
    let (found, next) = table.page(from)?;
    let (mut rows, mut strange) = (Vec::with_capacity(found.len()), Vec::new());
    for (key, value) in found {
        match read(&key, value) {
            Some(row) => rows.push(row),
            None => strange.push(Box::from(key.as_bytes())),
        }
    }
    Ok((rows, strange, next))
}

/// Whether these are the same bytes.
fn same<T: Plain>(one: &T, other: &T) -> bool {
    one.as_bytes() == other.as_bytes()
}

/// Some rows of a map.
pub(super) fn read(
    datapath: &Datapath,
    map: RowMap,
    from: Option<RowPlace>,
) -> Result<RowPage, KernelError> {
    let (maps, from) = (&datapath.maps, from.as_deref());
    let services = &maps.services;
    let of = |is_ipv4: bool| map.is_ipv4() == Some(is_ipv4);
    let whole = |rows| RowPage { rows, strange: Vec::new(), next: None };
    let (rows, strange, next) = match map {
        RowMap::Node => return Ok(whole(PageRows::Node(datapath.is_node_as_written()?))),
        RowMap::Unused => {
            let row = services.numbers.get(&0)?.unwrap_or_default();
            let (backend, service) = (row.next_backend, row.next_service);
            return Ok(whole(PageRows::Unused(UnusedNumbers { backend, service })));
        }
        RowMap::Ipcache => {
            let (rows, strange, next) = page(&maps.ipcache, from, |key, value| {
                let prefix = ipcache_prefix(key).filter(|_| key.pad == 0)?.trunc();
                let row = ipcache_from_raw(&value);
                Some((prefix, same(&ipcache_to_raw(&row), &value).then_some(row)))
            })?;
            (PageRows::Ipcache(rows), strange, next)
        }
        RowMap::Lxc => {
            let (rows, strange, next) = page(&maps.lxc, from, |key, value| {
                let address = key.ip().filter(|at| same(&raw::LxcKey::new(*at), key))?;
                let row = lxc_from_raw(&value);
                Some((address, same(&lxc_to_raw(&row), &value).then_some(row)))
            })?;
            (PageRows::Lxc(rows), strange, next)
        }
        RowMap::Slots4 => slots(&services.slots4, from, slot_key4)?,
        RowMap::Slots6 => slots(&services.slots6, from, slot_key6)?,
        RowMap::Backends4 => backends(&services.backends4, from)?,
        RowMap::Backends6 => backends(&services.backends6, from)?,
        RowMap::Members4 => members(&services.members4, from)?,
        RowMap::Members6 => members(&services.members6, from)?,
        RowMap::ReverseNat4 => reverse(&services.reverse4, from)?,
        RowMap::ReverseNat6 => reverse(&services.reverse6, from)?,
        RowMap::AffinityMatches => {
            let (rows, strange, next) = page(&services.matches, from, |key, _| {
                let row = (BackendId(key.backend), ServiceId(key.rev_nat.get()));
                same(&match_key(&row), key).then_some((row, Some(())))
            })?;
            (PageRows::AffinityMatches(keys(rows)), strange, next)
        }
        RowMap::SourceRanges4 => {
            let canonical = |row: &(ServiceId, IpNet)| range_keys(&[*row]).0.pop();
            let (rows, strange, next) = page(&services.ranges4, from, |key, value| {
                let row = range(*key, value)?;
                let key = raw::SourceRange4Key { address: canonical(&row)?.address, ..*key };
                same(&canonical(&row)?, &key).then_some((row, Some(())))
            })?;
            (PageRows::SourceRanges(keys(rows)), strange, next)
        }
        RowMap::SourceRanges6 => {
            let canonical = |row: &(ServiceId, IpNet)| range_keys(&[*row]).1.pop();
            let (rows, strange, next) = page(&services.ranges6, from, |key, value| {
                let row = range(*key, value)?;
                let key = raw::SourceRange6Key { address: canonical(&row)?.address, ..*key };
                same(&canonical(&row)?, &key).then_some((row, Some(())))
            })?;
            (PageRows::SourceRanges(keys(rows)), strange, next)
        }
        RowMap::Maglev4 | RowMap::Maglev6 => {
            let outer = &services.maglev[usize::from(of(true))];
            let (rows, strange, next) =
                page(outer, from, |id, _| Some((ServiceId(id.get()), Some(()))))?;
            (PageRows::Maglev(keys(rows)), strange, next)
        }
    };
    Ok(RowPage { rows, strange, next })
}

fn keys<A>(rows: Vec<(A, Option<()>)>) -> Vec<A> {
    rows.into_iter().map(|(key, _)| key).collect()
}

type Rows = (PageRows, Vec<Box<[u8]>>, Option<RowPlace>);

fn slots<K: Taken<raw::LbRow> + Copy>(
    table: &Table<K, raw::LbRow>,
    from: Option<&[u8]>,
    canonical: impl Fn(&volvox_actors::ports::SlotKey) -> Option<K>,
) -> Result<Rows, KernelError> {
    let mut taken = ServiceTables::default();
    let (rows, strange, next) = page(table, from, |key, value| {
        key.take(value, &mut taken);
        let (at, row) = taken.slots.pop()?;
        let is_right = canonical(&at).is_some_and(|canonical| same(&canonical, key));
        is_right.then(|| (at, same(&slot_to_raw(&row), &value).then_some(row)))
    })?;
    Ok((PageRows::Slots(rows), strange, next))
}

fn backends<V: Plain>(table: &Table<u32, V>, from: Option<&[u8]>) -> Result<Rows, KernelError>
where
    u32: Taken<V>,
{
    let mut taken = ServiceTables::default();
    let (rows, strange, next) = page(table, from, |&id, value| {
        id.take(value, &mut taken);
        Some((BackendId(id), taken.backends.pop().map(|(_, row)| row)))
    })?;
    Ok((PageRows::Backends(rows), strange, next))
}

fn members<V: Plain>(
    table: &Table<raw::MemberKey, V>,
    from: Option<&[u8]>,
) -> Result<Rows, KernelError>
where
    raw::MemberKey: Taken<V>,
{
    let mut taken = ServiceTables::default();
    let (rows, strange, next) = page(table, from, |key, value| {
        key.take(value, &mut taken);
        let (at, row) = taken.members.pop()?;
        same(&member_key(&at), key).then_some((at, Some(row)))
    })?;
    Ok((PageRows::Members(rows), strange, next))
}

fn reverse<V: Plain>(table: &Table<raw::Be16, V>, from: Option<&[u8]>) -> Result<Rows, KernelError>
where
    raw::Be16: Taken<V>,
{
    let mut taken = ServiceTables::default();
    let (rows, strange, next) = page(table, from, |&id, value| {
        id.take(value, &mut taken);
        Some((ServiceId(id.get()), taken.reverse_nat.pop().map(|(_, at)| at)))
    })?;
    Ok((PageRows::ReverseNat(rows), strange, next))
}

/// A range of clients; bits behind the prefix mean nothing.
fn range<K: Taken<u8>>(key: K, value: u8) -> Option<(ServiceId, IpNet)> {
    let mut taken = ServiceTables::default();
    key.take(value, &mut taken);
    taken.ranges.pop().map(|(id, range)| (id, range.trunc()))
}

/// Removes rows by their keys as the kernel has them; absent ones are fine.
pub(super) fn delete(
    datapath: &Datapath,
    map: RowMap,
    keys: &[Box<[u8]>],
) -> Result<(), KernelError> {
    let maps = &datapath.maps;
    let services = &maps.services;
    match map {
        RowMap::Node | RowMap::Unused => Ok(()),
        RowMap::Ipcache => gone(&maps.ipcache, keys),
        RowMap::Lxc => gone(&maps.lxc, keys),
        RowMap::Slots4 => gone(&services.slots4, keys),
        RowMap::Slots6 => gone(&services.slots6, keys),
        RowMap::Backends4 => gone(&services.backends4, keys),
        RowMap::Backends6 => gone(&services.backends6, keys),
        RowMap::Members4 => gone(&services.members4, keys),
        RowMap::Members6 => gone(&services.members6, keys),
        RowMap::ReverseNat4 => gone(&services.reverse4, keys),
        RowMap::ReverseNat6 => gone(&services.reverse6, keys),
        RowMap::AffinityMatches => gone(&services.matches, keys),
        RowMap::SourceRanges4 => gone(&services.ranges4, keys),
        RowMap::SourceRanges6 => gone(&services.ranges6, keys),
        RowMap::Maglev4 => gone(&services.maglev[1], keys),
        RowMap::Maglev6 => gone(&services.maglev[0], keys),
    }
}

fn gone<K: Plain, V: Plain>(table: &Table<K, V>, keys: &[Box<[u8]>]) -> Result<(), KernelError> {
    let keys = keys.iter().filter_map(|key| K::read_from_bytes(key).ok());
    table.delete_all(&keys.collect::<Vec<_>>()).map(drop)
}
