//! Which lives the dashboard can show: those of a running agent, or files that somebody opened.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use axum::extract::State;
use serde::Serialize;
use volvox_actors::host::flight::{Flight, Life};

use super::{
    error::DashboardError,
    faults::{self, Fault},
};
use crate::{
    flight::{self, FlightView, boot_id},
    http::{Answer, ok},
};

/// The lives that can be looked at.
#[derive(Clone, Debug)]
pub enum Lives {
    /// Of a running agent: its own, the one before, and those of earlier ones that are kept.
    Agent(FlightView),
    /// Records that somebody opened.
    Opened(Vec<Opened>),
}

/// A record that was read from a file, whole.
#[derive(Clone, Debug)]
pub struct Opened {
    name: String,
    flight: Arc<Flight>,
    faults: Arc<[Fault]>,
}

impl Opened {
    /// What is in it.
    pub fn flight(&self) -> &Flight {
        &self.flight
    }

    /// Reads a ring, or what was exported from one.
    pub fn read(path: &Path) -> Result<Self, DashboardError> {
        let failed = |cause| DashboardError::File { path: path.to_owned(), cause };
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let begin = reader.fill_buf().map_err(failed)?;
        let first = begin.iter().find(|byte| !byte.is_ascii_whitespace());
        let flight = if first == Some(&b'{') {
            serde_json::from_reader(reader)
                .map_err(|cause| DashboardError::Export { path: path.to_owned(), cause })?
        } else {
            flight::open(path)?
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let faults = faults::beside(path)?.into();
        Ok(Self { name, flight: Arc::new(flight), faults })
    }
}

/// One life in the list of those that can be looked at.
#[derive(Debug, Serialize)]
struct Listed {
    /// What the page asks for it by.
    id: String,
    /// What people call it.
    name: String,
    /// Whether it is being lived.
    live: bool,
    number: u64,
    version: String,
    started_unix_ns: u64,
    ending: Ending,
    /// The message that was being handled when it was killed.
    last: Option<Arc<str>>,
    /// Endpoints that it could not restore.
    failed: usize,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ending {
    /// It did not.
    Lives,
    /// As it should: it was told to stop.
    Stopped,
    /// It was killed, or crashed.
    Killed,
    /// With its machine, which booted after it.
    Machine,
    /// Nobody knows: it may be recorded still.
    Unknown,
}

impl Ending {
    fn of(life: &Life, boot_id: &str) -> Self {
        match life.ended_unix_ns {
            0 if life.boot_id == boot_id => Self::Killed,
            0 => Self::Machine,
            _ => Self::Stopped,
        }
    }
}

impl Lives {
    /// The first `limit` events of a life with a number above `after`; `None` if there is no such
    /// life.
    pub(super) fn read(
        &self,
        id: &str,
        after: u64,
        limit: usize,
    ) -> Option<Result<Flight, DashboardError>> {
        match (self, id) {
            (Self::Agent(view), "current") => Some(view.current(after, limit).map_err(Into::into)),
            (Self::Agent(view), "previous") => {
                Some(view.previous(after, limit).map_err(Into::into))
            }
            (Self::Agent(view), number) => {
                Some(view.past(number.parse().ok()?, after, limit).map_err(Into::into))
            }
            (Self::Opened(files), _) => {
                let flight = &files.get(id.parse::<usize>().ok()?)?.flight;
                let first = flight.events.partition_point(|event| event.seq <= after);
                let events = flight.events.iter().skip(first).take(limit).cloned().collect();
                Some(Ok(Flight { life: flight.life.clone(), events }))
            }
        }
    }

    /// The life that is being lived.
    pub(super) fn current(
        &self,
        after: u64,
        limit: usize,
    ) -> Option<Result<Flight, DashboardError>> {
        self.read("current", after, limit)
    }

    /// Faults that were noted beside a life's record.
    pub(super) fn faults(&self, id: &str) -> &[Fault] {
        match self {
            Self::Agent(_) => &[],
            Self::Opened(files) => {
                let file = id.parse::<usize>().ok().and_then(|index| files.get(index));
                file.map_or(&[], |file| &file.faults)
            }
        }
    }

    fn listed(&self) -> Vec<Listed> {
        match self {
            Self::Agent(view) => {
                let named = ["current", "previous"].into_iter().filter_map(|id| {
                    self.entry(id.to_owned(), |number| format!("life {number}, {id}"))
                });
                let past = view.past_lives().into_iter().rev().filter_map(|life| {
                    self.entry(life.to_string(), |number| format!("life {number}"))
                });
                named.chain(past).collect()
            }
            Self::Opened(files) => (files.iter().enumerate())
                .filter_map(|(index, file)| {
                    self.entry(index.to_string(), |number| format!("{}, life {number}", file.name))
                })
                .collect(),
        }
    }

    fn entry(&self, id: String, name: impl Fn(u64) -> String) -> Option<Listed> {
        // The front alone.
        let life = self.read(&id, u64::MAX, 0)?.ok()?.life;
        let ending = match self {
            Self::Agent(_) if id == "current" => Ending::Lives,
            Self::Agent(_) => Ending::of(&life, &boot_id()),
            Self::Opened(_) if life.ended_unix_ns > 0 => Ending::Stopped,
            Self::Opened(_) => Ending::Unknown,
        };
        let failed = match self {
            Self::Agent(view) if ending != Ending::Lives => view.failed(life.number),
            _ => 0,
        };
        let was_cut = matches!(ending, Ending::Killed | Ending::Machine);
        Some(Listed {
            name: name(life.number),
            live: id == "current",
            id,
            number: life.number,
            version: life.version,
            started_unix_ns: life.started_unix_ns,
            ending,
            last: life.unfinished.filter(|_| was_cut).map(|last| last.kind),
            failed,
        })
    }
}

pub(super) async fn list(State(lives): State<Arc<Lives>>) -> Answer {
    let listed = tokio::task::spawn_blocking(move || lives.listed()).await;
    ok(&listed.map_err(super::flight::broken)?)
}
