//! The maps that balance load.

mod complete;
mod digests;

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd},
};

use ipnet::IpNet;
use volvox_actors::{
    model::{BackendId, LookupScope, ServiceId},
    ports::{
        BackendRow, BackendState, KernelError, MaglevTable, MemberKey, ServiceKeys, ServiceRows,
        ServiceTables, SlotKey, SlotRow, UnusedNumbers,
    },
    services::service_cache::maglev,
};
use volvox_bpf_progs::layouts as raw;
use volvox_maps::{
    error::refused,
    services::{maglev_tables, sort, take_all},
    sys::{Map, NewMap},
    table::{Plain, Table},
};
use zerocopy::IntoBytes;

pub(super) use self::{complete::complete, digests::Digests};
use super::socket_notes::SocketNotes;

/// Tables of Maglev that are made before they are written in one batch: each is a file descriptor.
const TABLES_AT_ONCE: usize = 256;

/// The maps that balance load, open.
#[derive(Debug)]
pub(super) struct ServiceMaps {
    pub(super) slots4: Table<raw::Lb4Key, raw::LbRow>,
    pub(super) slots6: Table<raw::Lb6Key, raw::LbRow>,
    pub(super) backends4: Table<u32, raw::Backend4Row>,
    pub(super) backends6: Table<u32, raw::Backend6Row>,
    pub(super) members4: Table<raw::MemberKey, raw::Member4Row>,
    pub(super) members6: Table<raw::MemberKey, raw::Member6Row>,
    pub(super) reverse4: Table<raw::Be16, raw::ReverseNat4Row>,
    pub(super) reverse6: Table<raw::Be16, raw::ReverseNat6Row>,
    pub(super) matches: Table<raw::AffinityMatchKey, u8>,
    pub(super) ranges4: Table<raw::SourceRange4Key, u8>,
    pub(super) ranges6: Table<raw::SourceRange6Key, u8>,
    /// What sockets asked for, by the backend that they were given,
    pub(super) notes: SocketNotes,
    /// and of what finds no room there.
    pub(super) sockets4: Table<raw::ReverseSk4Key, raw::ReverseSk4Row>,
    pub(super) sockets6: Table<raw::ReverseSk6Key, raw::ReverseSk6Row>,
    pub(super) numbers: Table<u32, raw::LbNumbersRow>,
    /// Service to table of Maglev, IPv6 first. Written with descriptors.
    pub(super) maglev: [Table<raw::Be16, u32>; 2],
    /// How such a table is made.
    pub(super) table: NewMap<'static>,
    /// What the tables are that were written or compared.
    pub(super) digests: Digests,
}

impl ServiceMaps {
    /// Writes rows of one kind.
    pub(super) fn put(&self, rows: ServiceRows) -> Result<(), KernelError> {
        match rows {
            ServiceRows::Unused(unused) => {
                let (next_backend, next_service) = (unused.backend, unused.service);
                let row = raw::LbNumbersRow { next_backend, next_service, ..Default::default() };
                self.numbers.put(&0, &row)
            }
            ServiceRows::Slots(rows) => {
                let all = rows.iter().map(|(key, row)| (slot_key(key), slot_to_raw(row)));
                let (mut four, mut six) = (Rows::default(), Rows::default());
                for (key, row) in all {
                    match key {
                        raw::LbKey::V4(key) => four.push(key, row),
                        raw::LbKey::V6(key) => six.push(key, row),
                    }
                }
                four.put(&self.slots4)?;
                six.put(&self.slots6)
            }
            ServiceRows::Backends(rows) => self.put_backends(&rows),
            ServiceRows::Members(rows) => self.put_members(&rows),
            ServiceRows::ReverseNat(rows) => {
                let (mut four, mut six) = (Rows::default(), Rows::default());
                for (id, at) in rows {
                    match at {
                        SocketAddr::V4(at) => {
                            four.push(raw::Be16::new(id.0), raw::ReverseNat4Row::new(at));
                        }
                        SocketAddr::V6(at) => {
                            six.push(raw::Be16::new(id.0), raw::ReverseNat6Row::new(at));
                        }
                    }
                }
                four.put(&self.reverse4)?;
                six.put(&self.reverse6)
            }
            ServiceRows::AffinityMatches(rows) => {
                let keys: Vec<_> = rows.iter().map(match_key).collect();
                self.matches.put_all(&keys, &vec![1; keys.len()])
            }
            ServiceRows::SourceRanges(rows) => {
                let (four, six) = range_keys(&rows);
                self.ranges4.put_all(&four, &vec![1; four.len()])?;
                self.ranges6.put_all(&six, &vec![1; six.len()])
            }
            ServiceRows::Maglev(rows) => self.put_tables(&rows),
        }
    }

    fn put_backends(&self, rows: &[(BackendId, BackendRow)]) -> Result<(), KernelError> {
        let (mut four, mut six) = (Rows::default(), Rows::default());
        for (id, row) in rows {
            let (protocol, state, zone) = (row.at.transport.0, state_to_raw(row.state), row.zone);
            match row.at.socket() {
                SocketAddr::V4(at) => {
                    let row = raw::Backend4Row::new(id.0, at, protocol, state);
                    four.push(id.0, raw::Backend4Row { zone, ..row });
                }
                SocketAddr::V6(at) => {
                    let row = raw::Backend6Row::new(id.0, at, protocol, state);
                    six.push(id.0, raw::Backend6Row { zone, ..row });
                }
            }
        }
        four.put(&self.backends4)?;
        six.put(&self.backends6)
    }

    fn put_members(&self, rows: &[(MemberKey, BackendRow)]) -> Result<(), KernelError> {
        let (mut four, mut six) = (Rows::default(), Rows::default());
        for (key, row) in rows {
            let (key, protocol) = (member_key(key), row.at.transport.0);
            let state = state_to_raw(row.state);
            match row.at.socket() {
                SocketAddr::V4(at) => {
                    four.push(key, raw::Member4Row::new(key, at, protocol, state))
                }
                SocketAddr::V6(at) => six.push(key, raw::Member6Row::new(key, at, protocol, state)),
            }
        }
        four.put(&self.members4)?;
        six.put(&self.members6)
    }

    /// Makes tables of Maglev and puts them into the outer map, many in one batch: the kernel waits
    /// for a grace period after each.
    fn put_tables(&self, rows: &[MaglevTable]) -> Result<(), KernelError> {
        let size = self.table.value_size as usize / size_of::<u32>();
        for rows in rows.chunks(TABLES_AT_ONCE) {
            for is_ipv4 in [true, false] {
                let of_family = rows.iter().filter(|(_, it, _)| *it == is_ipv4);
                let (mut keys, mut tables) = (Vec::new(), Vec::new());
                for (id, _, backends) in of_family {
                    let failed =
                        |e| refused("make", format!("the Maglev table of service {id}"), &e);
                    let table = Map::create(&self.table).map_err(failed)?;
                    let rows = maglev::table(backends, size);
                    table.update(0u32.as_bytes(), rows.as_bytes()).map_err(failed)?;
                    self.digests.note((*id, is_ipv4), backends, rows.as_bytes());
                    keys.push(raw::Be16::new(id.0));
                    tables.push(table);
                }
                let fds: Vec<u32> =
                    tables.iter().map(|table| table.as_fd().as_raw_fd().cast_unsigned()).collect();
                let outer = &self.maglev[usize::from(is_ipv4)];
                outer.put_all(&keys, &fds)?;
            }
        }
        Ok(())
    }

    /// Removes rows of one kind; absent ones are fine.
    pub(super) fn delete(&self, keys: ServiceKeys) -> Result<(), KernelError> {
        fn split<T, K>(keys: &[(T, bool)], key: impl Fn(&T) -> K) -> [Vec<K>; 2] {
            [false, true].map(|ipv4| {
                keys.iter().filter(|(_, is_ipv4)| *is_ipv4 == ipv4).map(|(it, _)| key(it)).collect()
            })
        }
        match keys {
            ServiceKeys::Slots(keys) => {
                let (mut four, mut six) = (Vec::new(), Vec::new());
                for key in &keys {
                    match slot_key(key) {
                        raw::LbKey::V4(key) => four.push(key),
                        raw::LbKey::V6(key) => six.push(key),
                    }
                }
                self.slots4.delete_all(&four)?;
                self.slots6.delete_all(&six)?;
            }
            ServiceKeys::Backends(keys) => {
                let [six, four] = split(&keys, |id: &BackendId| id.0);
                self.backends4.delete_all(&four)?;
                self.backends6.delete_all(&six)?;
            }
            ServiceKeys::Members(keys) => {
                let [six, four] = split(&keys, member_key);
                self.members4.delete_all(&four)?;
                self.members6.delete_all(&six)?;
            }
            ServiceKeys::ReverseNat(keys) => {
                let [six, four] = split(&keys, |id: &ServiceId| raw::Be16::new(id.0));
                self.reverse4.delete_all(&four)?;
                self.reverse6.delete_all(&six)?;
            }
            ServiceKeys::AffinityMatches(keys) => {
                let keys: Vec<_> = keys.iter().map(match_key).collect();
                self.matches.delete_all(&keys)?;
            }
            ServiceKeys::SourceRanges(keys) => {
                let (four, six) = range_keys(&keys);
                self.ranges4.delete_all(&four)?;
                self.ranges6.delete_all(&six)?;
            }
            ServiceKeys::Maglev(keys) => {
                self.digests.forget(&keys);
                let keys = split(&keys, |id: &ServiceId| raw::Be16::new(id.0));
                for (outer, keys) in self.maglev.iter().zip(&keys) {
                    outer.delete_all(keys)?;
                }
            }
        }
        Ok(())
    }

    /// Reads all of them.
    pub(super) fn read(&self) -> Result<ServiceTables, KernelError> {
        let room = self.slots4.room().max(self.slots6.room()) as usize;
        let mut tables = ServiceTables { room, ..ServiceTables::default() };
        if let Some(row) = self.numbers.get(&0)? {
            tables.unused = UnusedNumbers { backend: row.next_backend, service: row.next_service };
        }
        take_all(&self.slots4, &mut tables)?;
        take_all(&self.slots6, &mut tables)?;
        take_all(&self.backends4, &mut tables)?;
        take_all(&self.backends6, &mut tables)?;
        take_all(&self.members4, &mut tables)?;
        take_all(&self.members6, &mut tables)?;
        take_all(&self.reverse4, &mut tables)?;
        take_all(&self.reverse6, &mut tables)?;
        take_all(&self.matches, &mut tables)?;
        take_all(&self.ranges4, &mut tables)?;
        take_all(&self.ranges6, &mut tables)?;
        for (is_ipv4, outer) in [false, true].into_iter().zip(&self.maglev) {
            let found = maglev_tables(outer)?;
            tables.maglev.extend(found.into_iter().map(|(id, _)| (id, is_ipv4)));
        }
        sort(&mut tables);
        Ok(tables)
    }
}

/// Keys and values side by side, as batches want them.
struct Rows<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Self { keys: Vec::new(), values: Vec::new() }
    }
}

impl<K: Plain, V: Plain> Rows<K, V> {
    fn push(&mut self, key: K, value: V) {
        self.keys.push(key);
        self.values.push(value);
    }

    fn put(&self, table: &Table<K, V>) -> Result<(), KernelError> {
        if self.keys.is_empty() { Ok(()) } else { table.put_all(&self.keys, &self.values) }
    }
}

/// The key of a slot of an IPv4 frontend.
pub(super) fn slot_key4(key: &SlotKey) -> Option<raw::Lb4Key> {
    if let raw::LbKey::V4(key) = slot_key(key) { Some(key) } else { None }
}

/// The key of a slot of an IPv6 frontend.
pub(super) fn slot_key6(key: &SlotKey) -> Option<raw::Lb6Key> {
    if let raw::LbKey::V6(key) = slot_key(key) { Some(key) } else { None }
}

fn slot_key((frontend, slot): &SlotKey) -> raw::LbKey {
    let scope = match frontend.scope {
        LookupScope::External => raw::LbScope::External,
        LookupScope::Internal => raw::LbScope::Internal,
    };
    raw::LbKey::new(frontend.at.socket(), frontend.at.transport.0, scope).slot(*slot)
}

pub(super) fn slot_to_raw(row: &SlotRow) -> raw::LbRow {
    let [flags, flags2] = row.flags.to_le_bytes();
    raw::LbRow {
        backend: row.word,
        count: row.count,
        rev_nat: raw::Be16::new(row.id.0),
        flags,
        flags2,
        qcount: row.quarantined,
    }
}

pub(super) fn member_key((id, backend): &MemberKey) -> raw::MemberKey {
    raw::MemberKey::new(backend.0, id.0)
}

pub(super) fn match_key((backend, id): &(BackendId, ServiceId)) -> raw::AffinityMatchKey {
    raw::AffinityMatchKey::new(backend.0, id.0)
}

pub(super) fn range_keys(
    rows: &[(ServiceId, IpNet)],
) -> (Vec<raw::SourceRange4Key>, Vec<raw::SourceRange6Key>) {
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for (id, range) in rows {
        match range.network() {
            IpAddr::V4(at) => four.push(raw::SourceRange4Key::new(id.0, at, range.prefix_len())),
            IpAddr::V6(at) => six.push(raw::SourceRange6Key::new(id.0, at, range.prefix_len())),
        }
    }
    (four, six)
}

fn state_to_raw(state: BackendState) -> raw::BackendState {
    match state {
        BackendState::Active => raw::BackendState::Active,
        BackendState::Terminating => raw::BackendState::Terminating,
        BackendState::Quarantined => raw::BackendState::Quarantined,
        BackendState::Maintenance => raw::BackendState::Maintenance,
    }
}
