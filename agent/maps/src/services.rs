//! Rows of the maps that balance load, as the agent speaks of them.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use volvox_actors::{
    model::{BackendId, Frontend, L4Address, LookupScope, ServiceId, Transport},
    ports::{BackendRow, BackendState, KernelError, MemberKey, ServiceTables, SlotRow},
};
use volvox_bpf_progs::layouts as raw;

use crate::table::{Plain, Table};

/// The key of a map that balances load, whose rows are `V`.
pub trait Taken<V>: Plain {
    /// Puts the row where it belongs; one that means nothing among the foreign ones.
    fn take(self, row: V, tables: &mut ServiceTables);
}

/// Reads all rows of a map.
pub fn take_all<K: Taken<V>, V: Plain>(
    table: &Table<K, V>,
    tables: &mut ServiceTables,
) -> Result<(), KernelError> {
    table.for_each(|key, row| key.take(row, tables))
}

/// Reads which services have a table of Maglev, with the number that the kernel has for it.
pub fn maglev_tables(outer: &Table<raw::Be16, u32>) -> Result<Vec<(ServiceId, u32)>, KernelError> {
    let mut found = Vec::new();
    outer.for_each(|id, map| found.push((ServiceId(id.get()), map)))?;
    Ok(found)
}

/// Sorts rows by their keys.
pub fn sort(tables: &mut ServiceTables) {
    tables.slots.sort_unstable_by_key(|(key, _)| *key);
    tables.backends.sort_unstable_by_key(|(id, row)| (!row.at.address.is_ipv4(), *id));
    let by_key = |(key, row): &(MemberKey, BackendRow)| (!row.at.address.is_ipv4(), *key);
    tables.members.sort_unstable_by_key(by_key);
    tables.mistaken.sort_unstable();
    tables.reverse_nat.sort_unstable_by_key(|(id, at)| (!at.is_ipv4(), *id));
    tables.affinity.sort_unstable();
    tables.ranges.sort_unstable();
    tables.maglev.sort_unstable();
}

impl Taken<raw::LbRow> for raw::Lb4Key {
    fn take(self, row: raw::LbRow, tables: &mut ServiceTables) {
        let frontend = (IpAddr::from(self.address), self.port.get());
        take_slot(tables, frontend, (self.protocol, self.scope, self.slot), &row);
    }
}

impl Taken<raw::LbRow> for raw::Lb6Key {
    fn take(self, row: raw::LbRow, tables: &mut ServiceTables) {
        let frontend = (IpAddr::from(self.address), self.port.get());
        take_slot(tables, frontend, (self.protocol, self.scope, self.slot), &row);
    }
}

impl Taken<raw::Backend4Row> for u32 {
    fn take(self, row: raw::Backend4Row, tables: &mut ServiceTables) {
        take_backend(
            tables,
            self,
            row.socket().into(),
            (row.protocol, row.state, row.zone, row.tag),
        );
    }
}

impl Taken<raw::Backend6Row> for u32 {
    fn take(self, row: raw::Backend6Row, tables: &mut ServiceTables) {
        take_backend(
            tables,
            self,
            row.socket().into(),
            (row.protocol, row.state, row.zone, row.tag),
        );
    }
}

impl Taken<raw::Member4Row> for raw::MemberKey {
    fn take(self, row: raw::Member4Row, tables: &mut ServiceTables) {
        take_member(tables, self, row.socket().into(), (row.protocol, row.state, row.key));
    }
}

impl Taken<raw::Member6Row> for raw::MemberKey {
    fn take(self, row: raw::Member6Row, tables: &mut ServiceTables) {
        take_member(tables, self, row.socket().into(), (row.protocol, row.state, row.key));
    }
}

impl Taken<raw::ReverseNat4Row> for raw::Be16 {
    fn take(self, row: raw::ReverseNat4Row, tables: &mut ServiceTables) {
        tables.reverse_nat.push((ServiceId(self.get()), row.frontend().into()));
    }
}

impl Taken<raw::ReverseNat6Row> for raw::Be16 {
    fn take(self, row: raw::ReverseNat6Row, tables: &mut ServiceTables) {
        tables.reverse_nat.push((ServiceId(self.get()), row.frontend().into()));
    }
}

impl Taken<u8> for raw::AffinityMatchKey {
    fn take(self, _: u8, tables: &mut ServiceTables) {
        tables.affinity.push((BackendId(self.backend), ServiceId(self.rev_nat.get())));
    }
}

impl Taken<u8> for raw::SourceRange4Key {
    fn take(self, _: u8, tables: &mut ServiceTables) {
        take_range(tables, self.prefix_len, self.rev_nat, self.address.into());
    }
}

impl Taken<u8> for raw::SourceRange6Key {
    fn take(self, _: u8, tables: &mut ServiceTables) {
        take_range(tables, self.prefix_len, self.rev_nat, self.address.into());
    }
}

fn take_slot(
    tables: &mut ServiceTables,
    (address, port): (IpAddr, u16),
    (protocol, scope, slot): (u8, u8, u16),
    row: &raw::LbRow,
) {
    let at = L4Address { address, port, transport: Transport(protocol) };
    let scope = match scope {
        0 => LookupScope::External,
        1 => LookupScope::Internal,
        other => return tables.foreign.push(format!("service {at} has the scope {other}")),
    };
    tables.slots.push(((Frontend { at, scope }, slot), slot_row(row)));
}

fn take_backend(
    tables: &mut ServiceTables,
    id: u32,
    at: SocketAddr,
    (protocol, state, zone, tag): (u8, u8, u8, u8),
) {
    let transport = Transport(protocol);
    let at = L4Address { address: at.ip(), port: at.port(), transport };
    match raw::BackendState::from_number(state) {
        _ if ![0, raw::backend_tag(id)].contains(&tag) => {
            tables.mistaken.push((BackendId(id), at));
        }
        Some(state) => {
            let row = BackendRow { at, state: backend_state(state), zone };
            tables.backends.push((BackendId(id), row));
        }
        None => tables.foreign.push(format!("backend {id}, {at}, has the state {state}")),
    }
}

/// One that names another key than its own, or no state, is as good as none: programs do not use it, and
/// it is written anew.
fn take_member(
    tables: &mut ServiceTables,
    key: raw::MemberKey,
    at: SocketAddr,
    (protocol, state, own): (u8, u8, raw::MemberKey),
) {
    let at = L4Address { address: at.ip(), port: at.port(), transport: Transport(protocol) };
    let state = raw::BackendState::from_number(state).filter(|_| own == key);
    let at = if state.is_some() { at } else { L4Address { port: 0, ..at } };
    let state = state.map(backend_state).unwrap_or_default();
    let id = (ServiceId(key.rev_nat.get()), BackendId(key.backend));
    tables.members.push((id, BackendRow { at, state, zone: 0 }));
}

fn take_range(tables: &mut ServiceTables, prefix_len: u32, id: raw::Be16, address: IpAddr) {
    // The service's number is the fixed part, with two bytes that are unused.
    let bits = prefix_len.checked_sub(32).and_then(|bits| u8::try_from(bits).ok());
    let id = ServiceId(id.get());
    match bits.and_then(|bits| IpNet::new(address, bits).ok()) {
        Some(range) => tables.ranges.push((id, range)),
        None => tables.foreign.push(format!("a source range of service {id} is {prefix_len} long")),
    }
}

fn slot_row(row: &raw::LbRow) -> SlotRow {
    SlotRow {
        word: row.backend,
        count: row.count,
        id: ServiceId(row.rev_nat.get()),
        flags: u16::from_le_bytes([row.flags, row.flags2]),
        quarantined: row.qcount,
    }
}

fn backend_state(state: raw::BackendState) -> BackendState {
    match state {
        raw::BackendState::Active => BackendState::Active,
        raw::BackendState::Terminating => BackendState::Terminating,
        raw::BackendState::Quarantined => BackendState::Quarantined,
        raw::BackendState::Maintenance => BackendState::Maintenance,
    }
}
