//! Entries of connection tracking, as a test looks at them.

use super::{Node, TCP};
use aya::maps::HashMap;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// A connection from its opener's side: addresses, ports, protocol.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub opener: (IpAddr, u16),
    pub other: (IpAddr, u16),
    pub protocol: u8,
}

impl Node {
    /// The entry of a connection, as opened by (`OUT`) or towards (`IN`) an endpoint.
    pub fn tracked(&mut self, connection: Connection, tuple: u8) -> Option<CtRow> {
        let mut row = None;
        self.with_entry(connection, tuple, |entry| row = *entry);
        row
    }

    /// Changes an entry, which must exist.
    pub fn change(&mut self, connection: Connection, tuple: u8, change: impl Fn(&mut CtRow)) {
        self.with_entry(connection, tuple, |entry| {
            change(entry.as_mut().expect("the entry exists"))
        });
    }

    /// Makes an entry.
    pub fn track(&mut self, connection: Connection, tuple: u8, row: CtRow) {
        self.with_entry(connection, tuple, |entry| *entry = Some(row));
    }

    /// Removes an entry, which must exist.
    pub fn untrack(&mut self, connection: Connection, tuple: u8) {
        self.with_entry(connection, tuple, |entry| *entry = None);
    }

    /// How many entries there are, in all maps.
    pub fn tracked_count(&mut self) -> usize {
        let mut count = 0;
        for name in ["cilium_ct4_global", "cilium_ct_any4_global"] {
            self.map::<HashMap<_, Ct4Key, CtRow>>(name, |map| count += map.keys().count());
        }
        for name in ["cilium_ct6_global", "cilium_ct_any6_global"] {
            self.map::<HashMap<_, Ct6Key, CtRow>>(name, |map| count += map.keys().count());
        }
        count
    }

    fn with_entry(
        &mut self,
        connection: Connection,
        flags: u8,
        mut with: impl FnMut(&mut Option<CtRow>),
    ) {
        let Connection { opener, other, protocol } = connection;
        let (dport, sport) = (Be16::new(other.1), Be16::new(opener.1));
        let tcp = protocol == TCP;
        match (opener.0, other.0) {
            (IpAddr::V4(daddr), IpAddr::V4(saddr)) => {
                let key = Ct4Key {
                    daddr: daddr.octets(),
                    saddr: saddr.octets(),
                    dport,
                    sport,
                    protocol,
                    flags,
                };
                let name = if tcp { "cilium_ct4_global" } else { "cilium_ct_any4_global" };
                self.map(name, |map| update(map, key, &mut with));
            }
            (IpAddr::V6(daddr), IpAddr::V6(saddr)) => {
                let key = Ct6Key {
                    daddr: daddr.octets(),
                    saddr: saddr.octets(),
                    dport,
                    sport,
                    protocol,
                    flags,
                };
                let name = if tcp { "cilium_ct6_global" } else { "cilium_ct_any6_global" };
                self.map(name, |map| update(map, key, &mut with));
            }
            _ => panic!("a connection has one family"),
        }
    }
}

fn update<K: aya::Pod>(
    mut map: HashMap<&mut aya::maps::MapData, K, CtRow>,
    key: K,
    with: &mut impl FnMut(&mut Option<CtRow>),
) {
    let before = map.get(&key, 0).ok();
    let mut after = before;
    with(&mut after);
    match after {
        Some(row) if after != before => map.insert(key, row, 0).unwrap(),
        None if before.is_some() => map.remove(&key).unwrap(),
        _ => {}
    }
}

/// Seconds of the monotonic clock, rounded down.
pub fn now() -> u32 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(result, 0);
    u32::try_from(time.tv_sec).unwrap()
}

/// Checks that what `run` leaves in an entry ends `seconds` after it ran.
pub fn assert_lifetime(seconds: u32, run: impl FnOnce() -> u32) {
    // The programs read a clock that may be one tick behind.
    let earliest = now() - 1;
    let lifetime = run();
    let latest = now();
    assert!(
        (earliest..=latest).contains(&(lifetime - seconds)),
        "a lifetime of {seconds} s ends at {lifetime}, set between {earliest} and {latest}"
    );
}
