//! For the fuzzer: rows of maps.

use std::sync::atomic::AtomicU64;

use volvox_actors::ports::ServiceTables;
use volvox_bpf_progs::layouts as raw;
use volvox_maps::{
    cpus, rows,
    services::{Taken, sort},
};
use zerocopy::FromBytes;

use super::socket_notes;

/// Reads bytes as rows of each map. What our own rows say is written and read as it was.
pub(crate) fn rows(data: &[u8]) {
    if let Some((ifindex, row)) = pair(data, rows::config_row) {
        assert_eq!(rows::config_from_raw(&rows::config_to_raw(&row)), row, "{ifindex}");
    }
    if let Some((ifindex, row)) = pair(data, rows::device_row) {
        let again = rows::device_row(ifindex, rows::device_to_raw(ifindex, &row));
        assert_eq!(again, Some((ifindex, row)));
    }
    if let Some((_, row)) = pair(data, rows::lxc_row) {
        assert_eq!(rows::lxc_from_raw(&rows::lxc_to_raw(&row)), row);
    }
    if let Some((prefix, row)) = pair(data, rows::ipcache_row) {
        let key = rows::ipcache_key(&prefix);
        assert_eq!(rows::ipcache_prefix(&key), Some(prefix.trunc()));
        let row_again = rows::ipcache_from_raw(&rows::ipcache_to_raw(&row));
        assert_eq!(row_again, row);
    }
    policy(data);
    if let Ok((mut row, _)) = raw::EndpointRow::read_from_prefix(data) {
        rows::endpoint_from_raw(&row);
        // Whoever writes rows like ours, checksum and all.
        row.crc32 = rows::checksum(&row);
        let read = rows::endpoint_from_raw(&row).expect("its checksum holds");
        let again = rows::endpoint_from_raw(&rows::endpoint_to_raw(&read)).expect("just written");
        assert_eq!((again.addresses, again.identity), (read.addresses, read.identity));
    }
    for key in [raw::Prefix4Key::read_from_prefix(data)].into_iter().flatten() {
        rows::unmasqueraded4(&key.0);
    }
    for key in [raw::Prefix6Key::read_from_prefix(data)].into_iter().flatten() {
        rows::unmasqueraded6(&key.0);
    }
    services(data);
    notes(data);
    cpus::parse(&String::from_utf8_lossy(data));
}

/// A key and its row.
fn pair<K: FromBytes, V: FromBytes, T>(data: &[u8], read: impl Fn(K, V) -> Option<T>) -> Option<T> {
    let (key, rest) = K::read_from_prefix(data).ok()?;
    let (row, _) = V::read_from_prefix(rest).ok()?;
    read(key, row)
}

fn policy(data: &[u8]) {
    let Ok((key, rest)) = raw::PolicyKey::read_from_prefix(data) else { return };
    let read = rows::policy_key_from_raw(&key);
    assert_eq!(rows::policy_key_from_raw(&rows::policy_key_to_raw(&read)), read);
    let Ok((row, _)) = raw::PolicyRow::read_from_prefix(rest) else { return };
    let entry = rows::policy_entry_from_raw(&row);
    let again = rows::policy_entry_from_raw(&rows::policy_entry_to_raw(&key, &entry));
    assert_eq!(again, entry);
}

fn services(data: &[u8]) {
    let mut tables = ServiceTables::default();
    take::<raw::Lb4Key, raw::LbRow>(data, &mut tables);
    take::<raw::Lb6Key, raw::LbRow>(data, &mut tables);
    take::<u32, raw::Backend4Row>(data, &mut tables);
    take::<u32, raw::Backend6Row>(data, &mut tables);
    take::<raw::MemberKey, raw::Member4Row>(data, &mut tables);
    take::<raw::MemberKey, raw::Member6Row>(data, &mut tables);
    take::<raw::Be16, raw::ReverseNat4Row>(data, &mut tables);
    take::<raw::Be16, raw::ReverseNat6Row>(data, &mut tables);
    take::<raw::AffinityMatchKey, u8>(data, &mut tables);
    take::<raw::SourceRange4Key, u8>(data, &mut tables);
    take::<raw::SourceRange6Key, u8>(data, &mut tables);
    sort(&mut tables);
}

/// All rows that the bytes hold.
fn take<K: Taken<V>, V: FromBytes>(mut data: &[u8], tables: &mut ServiceTables) {
    while let Ok((key, rest)) = K::read_from_prefix(data)
        && let Ok((row, rest)) = V::read_from_prefix(rest)
    {
        key.take(row, tables);
        data = rest;
    }
}

fn notes(data: &[u8]) {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
    let mut set: Vec<_> = data.chunks(8).map(|bytes| AtomicU64::new(word(bytes))).collect();
    set.resize_with(size_of::<raw::SocketSet>() / 8, AtomicU64::default);
    assert!((0..raw::SOCKET_NOTES).filter_map(|at| socket_notes::read(&set, at)).count() <= 8);
}
