use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use volvox_bpf_progs::maps::{MAPS, POLICY};

/// Endpoints' policy maps together, as they are counted.
pub const POLICY_MAP: &str = "policy_v2";

/// What was done to a map since start, and how full it is.
#[derive(Debug, Default)]
pub struct MapTally {
    updated: AtomicU64,
    not_updated: AtomicU64,
    deleted: AtomicU64,
    not_deleted: AtomicU64,
    rows: AtomicU64,
    room: AtomicU32,
}

impl MapTally {
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

    pub(super) fn updated<E>(&self, rows: usize, result: &Result<(), E>) {
        self.updated.fetch_add(rows as u64, Ordering::Relaxed);
        self.not_updated.fetch_add(result.is_err().into(), Ordering::Relaxed);
    }

    pub(super) fn deleted<E>(&self, rows: usize, result: &Result<(), E>) {
        self.deleted.fetch_add(rows as u64, Ordering::Relaxed);
        self.not_deleted.fetch_add(result.is_err().into(), Ordering::Relaxed);
    }

    pub(super) fn read(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    pub(super) fn has_room(&self, rows: u32) {
        self.room.store(rows, Ordering::Relaxed);
    }
}

/// A tally for each map, by the name that metrics give it.
#[derive(Clone, Debug)]
pub(super) struct Tallies(Arc<BTreeMap<&'static str, Arc<MapTally>>>);

impl Default for Tallies {
    fn default() -> Self {
        let names = MAPS.iter().chain([&POLICY]).map(|spec| short(spec.name));
        Self(Arc::new(names.map(|name| (name, Arc::default())).collect()))
    }
}

impl Tallies {
    /// That of a map, by its own name.
    pub(super) fn of(&self, map: &str) -> Arc<MapTally> {
        let found = self.0.get(short(map));
        Arc::clone(found.expect("every map is in the table of maps"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &MapTally)> {
        self.0.iter().map(|(name, tally)| (*name, &**tally))
    }
}

/// Cilium's metrics leave its own name out.
fn short(map: &str) -> &str {
    map.strip_prefix("cilium_").unwrap_or(map)
}
