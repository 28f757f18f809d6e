//! Picks records: by endpoint, by outside event or by age.

use std::{collections::BTreeSet, time::Duration};

use volvox_actors::host::{
    CellId, RootId, Time,
    flight::{Event, What},
};

use super::{Story, story::root_of};

/// Which records are desired; all if nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What that endpoint did, got and waited for.
    pub endpoint: Option<u16>,
    /// What followed from that outside event.
    pub root: Option<u64>,
    /// What happened in that long before the end.
    pub since: Option<Duration>,
}

impl Selection {
    /// The records that are desired, in order.
    pub fn of<'a>(&self, story: &Story<'a>, end: Time) -> Vec<&'a Event> {
        let cells = self.endpoint.map(|endpoint| story.cells_of(endpoint));
        let from = self.since.map(|span| {
            Time(end.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
        });
        let expected = |event: &&Event| {
            let about = cells.as_ref().is_none_or(|cells| concerns(event, cells));
            let behind = self.root.is_none_or(|root| root_of(event) == Some(RootId(root)));
            about && behind && from.is_none_or(|from| event.what.at() >= from)
        };
        story.flight.events.iter().filter(expected).collect()
    }
}

/// Whether a record is about one of these actors.
fn concerns(event: &Event, cells: &BTreeSet<CellId>) -> bool {
    let any = |some: &[Option<CellId>]| some.iter().flatten().any(|cell| cells.contains(cell));
    match &event.what {
        What::Root { .. } | What::Phase { .. } => false,
        What::Spawned { cell, .. }
        | What::Crash { cell, .. }
        | What::State { cell, .. }
        | What::Stopped { cell, .. } => cells.contains(cell),
        What::Message { from, to, .. } => any(&[*from, Some(*to)]),
        What::Kernel { cell, .. } => any(&[*cell]),
        What::WaitBegan(wait) | What::Waited { wait, .. } => any(&[wait.who, wait.whom_cell]),
    }
}
