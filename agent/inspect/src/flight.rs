//! The flight recorder's files: `flight.ring` of the life that runs and `flight.previous.ring` of
//! the one before, in the run directory; those of earlier runs are evidence.
//!
//! The file is mapped: what was stored in it outlives the process, however it ends. A mapped page
//! for which there is no room is a signal that kills, so the whole file is allocated when it is
//! made, and only where that is a promise; otherwise the records live in memory, and the agent says
//! so. Nothing here keeps the agent from starting.

mod file;
#[cfg(test)]
mod tests;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use volvox_actors::{
    host::{
        Clock, Record, Recorder, Time,
        flight::{self, Birth, Flight, FlightError, Memory, Writer},
    },
    restore::RestoreOutcome,
};
use volvox_system::{
    SystemClock,
    mapping::{Damage, Mapping},
};

use crate::evidence::Evidence;

/// The ring of the life that runs, or ran last.
pub const CURRENT: &str = "flight.ring";
/// The ring of the run before.
pub const PREVIOUS: &str = "flight.previous.ring";

/// What is said of a file that was cut short and could not be helped.
const CUT_SHORT: &str = "flight recorder in memory only, lost with this process: somebody cut its file \
                         short; leave that file alone, and restart the agent";

/// Bytes of a ring that has no file.
const MEMORY_BYTES: usize = 1 << 20;

/// Who fills a segment within this comes back to it soon: bringing its pages back each time would
/// cost more than writing them.
const BUSY: Duration = Duration::from_secs(1);

/// Why a ring cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FlightFileError {
    /// The file cannot be opened.
    #[error("open {}: {cause}; {remedy}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// It holds something else.
    #[error("{}: {cause}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: FlightError,
    },
}

/// Reads a ring, whoever wrote it and whether or not he still does.
pub fn open(path: &Path) -> Result<Flight, FlightFileError> {
    read(path, 0, usize::MAX)
}

/// Reads the first `limit` records with a number above `after`.
fn read(path: &Path, after: u64, limit: usize) -> Result<Flight, FlightFileError> {
    let content = |cause| FlightFileError::Content { path: path.to_owned(), cause };
    let words = file::content(path, u64::MAX)?;
    let mut flight = flight::read_part(words.as_slice(), after, limit).map_err(content)?;
    flight.life.previous = path.file_name().is_some_and(|name| name == PREVIOUS);
    Ok(flight)
}

/// A ring for this life, made before there is a host.
pub struct Recording {
    birth: Birth,
    view: FlightView,
}

impl Recording {
    /// Keeps the ring of the run before, and makes one for this life.
    pub fn begin(dir: &Path, bytes: u32, started: Time) -> Self {
        let mut troubles = Vec::new();
        keep_previous(dir, &mut troubles);
        let before = file::life(&dir.join(PREVIOUS));
        let (mapping, path) = match file::create(&dir.join(CURRENT), bytes) {
            Ok(mapping) => (Some(mapping), Some(dir.join(CURRENT))),
            Err(trouble) => {
                troubles.push(trouble.to_string());
                (Mapping::anonymous(MEMORY_BYTES).ok(), None)
            }
        };
        for trouble in &troubles {
            tracing::warn!("{trouble}");
        }
        let age = SystemClock.now().since(started).as_nanos();
        let birth = Birth {
            life: before.unwrap_or(0) + 1,
            pid: process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(),
            started,
            started_wall: SystemClock.wall().saturating_sub(u64::try_from(age).unwrap_or(0)),
        };
        let ring = mapping.map(|mapping| Ring(Arc::new(mapping)));
        let view = FlightView(Arc::new(View { ring, dir: dir.to_owned(), path, troubles }));
        Self { birth, view }
    }

    /// None: what an earlier run recorded must not pass for this one's.
    pub fn off(dir: &Path) -> Self {
        let mut troubles = vec!["switched off by --flight-recorder=false".to_owned()];
        keep_previous(dir, &mut troubles);
        let view = View { ring: None, dir: dir.to_owned(), path: None, troubles };
        Self { birth: Birth::default(), view: FlightView(Arc::new(view)) }
    }

    /// What writes into it; nothing is kept where there is not even memory.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        let ring = self.view.0.ring.clone();
        match ring.and_then(|ring| Writer::new(ring, &self.birth).ok()) {
            Some(writer) => {
                let turn = writer.turn();
                let in_file = self.view.0.path.is_some();
                let birth = self.birth.clone();
                Box::new(FlightRecorder { writer, turn, begun: birth.started, birth, in_file })
            }
            None => Box::new(volvox_actors::host::NoRecorder),
        }
    }

    /// Which life it is of.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }

    /// What others see of it.
    pub fn view(&self) -> FlightView {
        self.view.clone()
    }
}

/// Gives the ring of the run before the name under which it is kept, and the one that had it a place
/// among those of earlier runs. A start that failed left one without a record; the one to be kept is
/// then that of the run before it.
fn keep_previous(dir: &Path, troubles: &mut Vec<String>) {
    let (current, previous) = (dir.join(CURRENT), dir.join(PREVIOUS));
    let retained = match file::is_unwritten(&current) {
        true => fs::remove_file(&current),
        false => {
            if let Some(life) = file::life(&previous).filter(|_| current.exists())
                && let Err(error) = Evidence::at(dir).keep(&previous, life)
            {
                troubles.push(format!("the record of life {life} is not kept: {error}"));
            }
            fs::rename(&current, &previous)
        }
    };
    match retained {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => troubles.push(format!(
            "the flight recorder of the life before is not kept: move {} out of the way, to {}: \
             {error}",
            current.display(),
            previous.display()
        )),
    }
}

/// The ring of the life that runs, to be looked at from any thread.
#[derive(Clone)]
pub struct FlightView(Arc<View>);

struct View {
    ring: Option<Ring>,
    dir: PathBuf,
    path: Option<PathBuf>,
    troubles: Vec<String>,
}

impl FlightView {
    /// The first `limit` records of this life with a number above `after`.
    pub fn current(&self, after: u64, limit: usize) -> Result<Flight, FlightFileError> {
        let path = || self.0.path.clone().unwrap_or_else(|| self.0.dir.join(CURRENT));
        let content = |cause| FlightFileError::Content { path: path(), cause };
        let ring = self.0.ring.as_ref().ok_or_else(|| content(FlightError::NotARing))?;
        let flight = flight::read_part(ring.words(), after, limit).map_err(content);
        self.release(ring);
        flight
    }

    /// The same of the run before.
    pub fn previous(&self, after: u64, limit: usize) -> Result<Flight, FlightFileError> {
        read(&self.0.dir.join(PREVIOUS), after, limit)
    }

    /// The same of an earlier run, by its number.
    pub fn past(&self, life: u64, after: u64, limit: usize) -> Result<Flight, FlightFileError> {
        let mut flight = read(&Evidence::at(&self.0.dir).ring(life), after, limit)?;
        flight.life.previous = true;
        Ok(flight)
    }

    /// Numbers of earlier runs that may have a ring, the newest last.
    pub fn past_lives(&self) -> Vec<u64> {
        Evidence::at(&self.0.dir).lives()
    }

    /// How many endpoints an earlier run could not restore, as far as that is known.
    pub fn failed(&self, life: u64) -> usize {
        let known = Evidence::at(&self.0.dir).life(life);
        known.map_or(0, |life| {
            let endpoints = life.report.endpoints.values();
            endpoints.filter(|it| it.fate == RestoreOutcome::Failed).count()
        })
    }

    /// Notes that this life ends as it should.
    pub fn end(&self) {
        if let Some(ring) = &self.0.ring {
            flight::end(ring.words(), SystemClock.wall());
        }
    }

    /// The ring's file; `None` if it is in memory only, or is not.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref().filter(|_| !self.is_cut_short())
    }

    /// Whether nothing is to be recorded.
    pub fn is_off(&self) -> bool {
        self.0.ring.is_none() && self.0.path.is_none()
    }

    fn is_cut_short(&self) -> bool {
        self.0.ring.as_ref().is_some_and(|ring| ring.0.is_in_memory())
    }

    /// Why there is no file, or not the one of the run before.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = self.0.troubles.clone();
        if self.is_cut_short() {
            troubles.push(CUT_SHORT.to_owned());
        }
        troubles
    }

    /// How many records were begun in this life.
    pub fn records(&self) -> u64 {
        self.0.ring.as_ref().map_or(0, |ring| flight::records(ring.words()))
    }

    /// Takes what was looked at out of this process again; the file keeps it.
    fn release(&self, ring: &Ring) {
        if self.path().is_some() {
            ring.0.release(0..ring.words().len());
        }
    }
}

impl fmt::Debug for FlightView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlightView").field(&self.0.path).finish()
    }
}

#[derive(Clone)]
struct Ring(Arc<Mapping>);

impl Memory for Ring {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// Writes into the ring, and keeps no more of its file in this process than it works at, unless it
/// goes round and round.
struct FlightRecorder {
    writer: Writer<Ring>,
    turn: u64,
    /// When that turn began.
    begun: Time,
    birth: Birth,
    in_file: bool,
}

impl FlightRecorder {
    /// Another segment is written from now on.
    #[cold]
    fn turned(&mut self) {
        let now = SystemClock.now();
        let busy = self.writer.rounds() > 0 && now.since(self.begun) < BUSY;
        (self.turn, self.begun) = (self.writer.turn(), now);
        let mapping = &self.writer.memory().0;
        if !busy {
            mapping.release(self.writer.segments());
        }
        mapping.populate(self.writer.segment());
    }
}

impl FlightRecorder {
    /// Somebody cut the file short: what was in it is gone, what comes is recorded.
    #[cold]
    fn cut_short(&mut self, damage: Damage) {
        // The ring is as large as before, so there is room for its front.
        let _ = self.writer.renew(&self.birth);
        tracing::warn!(
            "the flight recorder's file was cut short: {}",
            match damage {
                Damage::Emptied => "what this life recorded before is lost",
                Damage::InMemory => "it is in memory from now on, and lost with this process",
            }
        );
        self.in_file = damage == Damage::Emptied;
    }
}

impl Recorder for FlightRecorder {
    fn record(&mut self, record: Record<'_>) {
        if self.in_file
            && let Some(damage) = self.writer.memory().0.damage()
        {
            self.cut_short(damage);
        }
        self.writer.record(record);
        if self.in_file && self.writer.turn() != self.turn {
            self.turned();
        }
    }
}

/// The machine's boot.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
