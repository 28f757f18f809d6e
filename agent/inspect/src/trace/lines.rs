//! Records as lines of text for people: when, which actor, what happened.

use std::{sync::Arc, time::Duration};

use volvox_actors::host::{
    CellId, Outcome, Time,
    flight::{Event, RecordedWait, What},
};

use super::{Story, story::root_of};

/// A record in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, UTC: `2026-11-21T22:10:01.123456`.
    pub time: String,
    /// Number of the outside event behind it.
    pub root: String,
    /// The actor.
    pub actor: String,
    /// What happened.
    pub what: String,
}

/// Records in words.
pub fn lines(story: &Story<'_>, events: &[&Event]) -> Vec<Line> {
    events.iter().map(|event| line(story, event)).collect()
}

fn line(story: &Story<'_>, event: &Event) -> Line {
    let actor = |cell: &Option<CellId>| match cell {
        Some(cell) => story.name(*cell),
        None => Arc::from("outside"),
    };
    let (who, what) = match &event.what {
        What::Root { what, .. } => (Arc::from("outside"), format!("{what}")),
        What::Spawned { cell, parent, .. } => {
            (story.name(*cell), format!("begins, made by {}", actor(parent)))
        }
        What::Message { kind, from, to, enqueued, started, ended, outcome, .. } => {
            let from = actor(from);
            let end = outcome_text(*outcome, *enqueued, *started, *ended);
            (story.name(*to), format!("{kind} from {from}: {end}"))
        }
        What::Crash { cell, kind, cause, .. } => {
            (story.name(*cell), format!("CRASH over {kind}: {cause}"))
        }
        What::State { cell, from, to, why, .. } => {
            (story.name(*cell), format!("{from} -> {to}: {why}"))
        }
        What::WaitBegan(RecordedWait { who, whom, why, since, until, .. }) => {
            let most = span(*since, *until);
            (actor(who), format!("waits for {whom}, {most} at most: {why}"))
        }
        What::Waited { wait, ended, answered } => {
            let RecordedWait { who, whom, why, since, .. } = wait;
            let (took, end) = (span(*since, *ended), if *answered { "" } else { ", NO ANSWER" });
            (actor(who), format!("waited {took} for {whom}{end}: {why}"))
        }
        What::Kernel { cell, op, about, submitted, started, ended, failed, .. } => {
            let (queued, took) = (span(*submitted, *started), span(*started, *ended));
            let end = failed.as_ref().map_or(String::new(), |why| format!(", FAILED: {why}"));
            (actor(cell), format!("kernel {op} {about}: waited {queued}, took {took}{end}"))
        }
        What::Phase { name, started, ended } => {
            (Arc::from("start"), format!("{name}: took {}", span(*started, *ended)))
        }
        What::Stopped { cell, .. } => (story.name(*cell), "ends".to_owned()),
    };
    Line {
        time: moment(story.wall(event.what.at())),
        root: root_of(event).map(|root| root.0.to_string()).unwrap_or_default(),
        actor: who.to_string(),
        what,
    }
}

fn outcome_text(outcome: Outcome, enqueued: Time, started: Time, ended: Time) -> String {
    match outcome {
        Outcome::Handled | Outcome::Crashed => {
            let end = if outcome == Outcome::Crashed { "CRASHED, " } else { "" };
            let (waited, took) = (span(enqueued, started), span(started, ended));
            format!("{end}waited {waited}, took {took}")
        }
        Outcome::Absorbed => "one that waits already stands for it".to_owned(),
        Outcome::Refused => "REFUSED, its mailbox was full".to_owned(),
        Outcome::Discarded => "discarded, it stopped first".to_owned(),
    }
}

/// A moment so many nanoseconds after 1970, to the microsecond.
pub(super) fn moment(wall: u64) -> String {
    let seconds = volvox_actors::model::Timestamp::from_nanos(wall).0;
    format!("{}.{:06}", seconds.trim_end_matches('Z'), wall % 1_000_000_000 / 1000)
}

fn span(from: Time, to: Time) -> String {
    shown(to.since(from))
}

/// A span in the unit that suits it.
fn shown(span: Duration) -> String {
    match span.as_nanos() {
        ns if ns < 1000 => format!("{ns} ns"),
        ns if ns < 1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        ns if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        ns => format!("{:.1} s", ns as f64 / 1e9),
    }
}
