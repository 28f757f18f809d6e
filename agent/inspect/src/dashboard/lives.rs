//! Which lives the dashboard can show: those of a running agent, or files that somebody opened.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use axum::extract::State;
use serde::Serialize;
use volvox_actors::host::flight::Flight;

use super::error::DashboardError;
use crate::{
    flight::{self, FlightView},
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
        Ok(Self { name, flight: Arc::new(flight) })
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
        Some(Listed {
            name: name(life.number),
            live: id == "current",
            id,
            number: life.number,
            version: life.version,
            started_unix_ns: life.started_unix_ns,
        })
    }
}

pub(super) async fn list(State(lives): State<Arc<Lives>>) -> Answer {
    let listed = tokio::task::spawn_blocking(move || lives.listed()).await;
    ok(&listed.map_err(super::flight::broken)?)
}
