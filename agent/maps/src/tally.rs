//! How often each map was written to, how full it is, and a warning when it is nearly full. The
//! numbers feed the metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use volvox_bpf_progs::maps::{MAPS, POLICY};

use super::error::size_flag;

/// Endpoints' policy maps together, as they are counted.
pub const POLICY_MAP: &str = "policy_v2";

/// Maps that may have too many rows, as metrics name them; those of load balancing their owner knows.
pub const PRESSED: [&str; 9] = [
    "ct4_global",
    "ct6_global",
    "ct_any4_global",
    "ct_any6_global",
    "snat_v4_external",
    "snat_v6_external",
    "ipcache_v2",
    "lxc",
    POLICY_MAP,
];

/// Tables of flows.
const FLOWS: &[&str] = PRESSED.first_chunk::<6>().expect("they come first").as_slice();

/// How much of a map may be in use before people are told, percent.
const TOLD_AT: u64 = 90;

/// What was done to a map since start, and how full it is.
#[derive(Debug, Default)]
pub struct MapTally {
    name: &'static str,
    updated: AtomicU64,
    not_updated: AtomicU64,
    deleted: AtomicU64,
    not_deleted: AtomicU64,
    rows: AtomicU64,
    room: AtomicU32,
    /// Of which of the maps of this name it was told that they are nearly full.
    reported: Mutex<BTreeSet<u32>>,
}

impl MapTally {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Operation, outcome and how many rows it was done to.
    pub fn ops(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("update", "success", &self.updated),
            ("update", "fail", &self.not_updated),
            ("delete", "success", &self.deleted),
            ("delete", "fail", &self.not_deleted),
        ]
        .map(|(operation, outcome, count)| (operation, outcome, count.load(Ordering::Relaxed)))
    }

    /// Rows that it had when it was last read as a whole.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows that it has room for; none if it was not opened.
    pub fn room(&self) -> Option<u32> {
        Some(self.room.load(Ordering::Relaxed)).filter(|room| *room > 0)
    }

    /// Counts rows that were written.
    pub fn updated<E>(&self, rows: usize, result: &Result<(), E>) {
        self.updated.fetch_add(rows as u64, Ordering::Relaxed);
        self.not_updated.fetch_add(result.is_err().into(), Ordering::Relaxed);
    }

    /// Counts rows that were removed.
    pub fn deleted<E>(&self, rows: usize, result: &Result<(), E>) {
        self.deleted.fetch_add(rows as u64, Ordering::Relaxed);
        self.not_deleted.fetch_add(result.is_err().into(), Ordering::Relaxed);
    }

    /// Notes how many rows a full read found.
    pub fn read(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
        self.tell_pressure(0, rows);
    }

    /// How full it was then, percent.
    fn fill(&self) -> u64 {
        self.room().map_or(0, |room| self.rows() * 100 / u64::from(room))
    }

    /// Tells that a map is nearly full; of several maps of this name `part` is its number.
    pub fn tell_pressure(&self, part: u32, rows: u64) {
        if !self.is_news(part, rows) {
            return;
        }
        let (map, room) = (self.name, self.room().unwrap_or_default());
        match size_flag(map) {
            Some(flag) => tracing::warn!(map, part, rows, room, "nearly full: raise {flag}"),
            None => tracing::warn!(map, part, rows, room, "nearly full, and of a fixed size"),
        }
    }

    /// Whether it is nearly full and nobody was told. One that has more room again is told anew when it
    /// fills up another time.
    fn is_news(&self, part: u32, rows: u64) -> bool {
        let Some(room) = self.room().filter(|_| PRESSED.contains(&self.name)) else { return false };
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match rows * 100 > u64::from(room) * TOLD_AT {
            true => reported.insert(part),
            false => {
                reported.remove(&part);
                false
            }
        }
    }

    /// Notes how many rows there is room for.
    pub fn has_room(&self, rows: u32) {
        self.room.store(rows, Ordering::Relaxed);
    }
}

/// A tally for each map, by the name that metrics give it.
#[derive(Clone, Debug)]
pub struct Tallies(Arc<BTreeMap<&'static str, Arc<MapTally>>>);

impl Default for Tallies {
    fn default() -> Self {
        let names = MAPS.iter().chain([&POLICY]).map(|spec| short(spec.name));
        Self(Arc::new(names.map(|name| (name, Arc::new(MapTally::new(name)))).collect()))
    }
}

impl Tallies {
    /// That of a map, by its own name.
    pub fn of(&self, map: &str) -> Arc<MapTally> {
        let found = self.0.get(short(map));
        Arc::clone(found.expect("every map is in the table of maps"))
    }

    /// How full the fullest table of flows was when it was last read, percent.
    pub fn flows(&self) -> u8 {
        let fills = FLOWS.iter().map(|name| self.of(name).fill());
        u8::try_from(fills.max().unwrap_or_default()).unwrap_or(u8::MAX)
    }

    /// Each map and its tally.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &MapTally)> {
        self.0.iter().map(|(name, tally)| (*name, &**tally))
    }
}

/// Cilium's metrics leave its own name out.
fn short(map: &str) -> &str {
    map.strip_prefix("cilium_").unwrap_or(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_told_once_each_time_that_it_fills_up() {
        for name in PRESSED {
            let tally = MapTally::new(name);
            assert!(!tally.is_news(0, 10), "no limit is known");
            tally.has_room(10);
            assert!(!tally.is_news(0, 9));
            assert!(tally.is_news(0, 10), "{name}");
            assert!(!tally.is_news(0, 10), "it was told");
            assert!(tally.is_news(7, 10), "another one of that name");
            assert!(!tally.is_news(0, 9));
            assert!(tally.is_news(0, 10), "it had room meanwhile");
        }
        let array = MapTally::new("node");
        array.has_room(1);
        assert!(!array.is_news(0, 1), "some are always full");
    }

    #[test]
    fn the_fullest_table_of_flows_counts() {
        let tallies = Tallies::default();
        assert_eq!(tallies.flows(), 0);
        for (map, rows) in
            [("cilium_ct4_global", 40), ("cilium_snat_v6_external", 80), ("cilium_lxc", 99)]
        {
            tallies.of(map).has_room(100);
            tallies.of(map).read(rows);
        }
        assert_eq!(tallies.flows(), 80);
    }
}
