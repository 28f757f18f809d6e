//! Lives as the agent's flight recorder keeps them, for `volvox trace` and the dashboard.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use anyhow::{Context, Result};
use volvox_actors_simulated::host::{
    Record, Recorder, Time,
    flight::{Birth, Writer, to_bytes},
};

type Ring = Arc<[AtomicU64]>;

/// Words of a ring: more than a life fills.
const RING_WORDS: usize = 1 << 19;
/// What all lives take for the moment of their start: nothing in a file may depend on when it was
/// written.
const STARTED_WALL: u64 = 1_700_000_000_000_000_000;

/// Records of each life.
#[derive(Default)]
pub(super) struct Flights {
    rings: Vec<Ring>,
    writer: Option<Writer<Ring>>,
}

impl Flights {
    /// Another life begins.
    pub(super) fn begin(&mut self) {
        let ring: Ring = (0..RING_WORDS).map(|_| AtomicU64::default()).collect();
        self.rings.push(Arc::clone(&ring));
        let birth = Birth {
            life: self.rings.len() as u64,
            pid: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: "simulated".to_owned(),
            started: Time::default(),
            started_wall: STARTED_WALL,
        };
        self.writer = Writer::new(ring, &birth).ok();
    }

    /// Keeps a record.
    pub(super) fn record(&mut self, record: Record<'_>) {
        if let Some(writer) = &mut self.writer {
            writer.record(record);
        }
    }

    /// Writes the last life to that file and each before it beside it, `FILE.1` the first of all;
    /// the files, the last life's first.
    pub(super) fn write(&self, file: &Path) -> Result<Vec<PathBuf>> {
        let lives = self.rings.len();
        let mut written = Vec::new();
        for (before, ring) in self.rings.iter().enumerate().rev() {
            let life = before + 1;
            let path = match life == lives {
                true => file.to_owned(),
                false => {
                    let mut name = file.as_os_str().to_owned();
                    name.push(format!(".{life}"));
                    name.into()
                }
            };
            let failed =
                || format!("write {}: name a file in a directory with room", path.display());
            fs::write(&path, to_bytes(ring)).with_context(failed)?;
            written.push(path);
        }
        Ok(written)
    }
}
