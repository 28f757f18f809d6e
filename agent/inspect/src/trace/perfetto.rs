//! Records as a trace that Perfetto opens, in the JSON format of Chrome's tracing.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use volvox_actors::host::{
    CellId, Time,
    flight::{Event, RecordedWait, What},
};

use super::{Story, story::root_of};

/// Groups of tracks, as processes are shown.
const ACTORS: u32 = 1;
const BOOT: u32 = 2;

/// Events in the JSON format of Chrome's tracing, which Perfetto opens: a track for each actor, a
/// slice for each message handled, an arrow from each message to those it led to.
pub fn perfetto(story: &Story<'_>, events: &[&Event]) -> Value {
    let life = &story.flight.life;
    let title = format!("volvox-agent life {} (pid {})", life.number, life.pid);
    let export = Export { story, start: start(events) };
    let mut out = vec![
        name("process_name", ACTORS, 0, &title),
        name("process_name", BOOT, 0, "start"),
        name("thread_name", BOOT, 0, "phases"),
        name("thread_name", ACTORS, 0, "outside"),
    ];
    let shown: BTreeSet<_> = events.iter().flat_map(|event| cells(event)).collect();
    for &cell in &shown {
        out.push(name("thread_name", ACTORS, cell.0, &story.name(cell)));
        let order = json!({ "sort_index": cell.0 });
        out.push(json!({
            "ph": "M", "name": "thread_sort_index", "pid": ACTORS, "tid": cell.0, "args": order,
        }));
    }
    events.iter().for_each(|event| export.event(event, &mut out));
    let open = story.open_waits().filter(|wait| wait.who.is_none_or(|who| shown.contains(&who)));
    out.extend(open.map(|wait| export.wait("b", wait, wait.since, json!({ "why": wait.why }))));
    json!({ "displayTimeUnit": "ns", "traceEvents": out })
}

/// The earliest moment: times are counted from it.
fn start(events: &[&Event]) -> Time {
    let begin = |event: &&Event| match &event.what {
        What::Message { enqueued, .. } => *enqueued,
        What::Kernel { submitted, .. } => *submitted,
        What::Phase { started, .. } => *started,
        What::Waited { wait, .. } => wait.since,
        what => what.at(),
    };
    events.iter().map(begin).min().unwrap_or_default()
}

fn cells(event: &Event) -> Vec<CellId> {
    match &event.what {
        What::Message { from, to, .. } => from.iter().copied().chain([*to]).collect(),
        What::Spawned { cell, .. }
        | What::Crash { cell, .. }
        | What::State { cell, .. }
        | What::Stopped { cell, .. } => vec![*cell],
        What::Kernel { cell, .. } => cell.iter().copied().collect(),
        What::WaitBegan(wait) | What::Waited { wait, .. } => wait.who.iter().copied().collect(),
        _ => Vec::new(),
    }
}

fn name(kind: &str, pid: u32, tid: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": kind, "pid": pid, "tid": tid, "args": { "name": name } })
}

struct Export<'a> {
    story: &'a Story<'a>,
    start: Time,
}

impl Export<'_> {
    /// A moment in microseconds, as the format has it.
    fn at(&self, at: Time) -> f64 {
        at.since(self.start).as_nanos() as f64 / 1e3
    }

    fn event(&self, event: &Event, out: &mut Vec<Value>) {
        let instant = |cell: CellId, name: String, at: &Time, args: Value| {
            json!({
                "ph": "i", "s": "t", "name": name, "cat": "state", "pid": ACTORS, "tid": cell.0,
                "ts": self.at(*at), "args": args,
            })
        };
        match &event.what {
            What::Root { root, what, at } => out.push(json!({
                "ph": "i", "s": "p", "name": what, "cat": "root", "pid": ACTORS, "tid": 0,
                "ts": self.at(*at), "args": { "root": root },
            })),
            What::Message { .. } => self.message(event, out),
            What::Spawned { cell, at, .. } => {
                out.push(instant(*cell, "begins".to_owned(), at, json!({})));
            }
            What::Stopped { cell, at } => {
                out.push(instant(*cell, "ends".to_owned(), at, json!({})));
            }
            What::Crash { cell, kind, cause, at } => {
                let args = json!({ "message": kind, "cause": cause });
                out.push(instant(*cell, "crash".to_owned(), at, args));
            }
            What::State { cell, from, to, why, at } => {
                let args = json!({ "from": from, "why": why });
                out.push(instant(*cell, to.to_string(), at, args));
            }
            // Told of whole when it is over, or else at the end.
            What::WaitBegan(_) => {}
            What::Waited { wait, ended, answered } => {
                out.push(self.wait("b", wait, wait.since, json!({ "why": wait.why })));
                out.push(self.wait("e", wait, *ended, json!({ "answered": answered })));
            }
            What::Kernel { cell, op, about, submitted, started, ended, failed, .. } => {
                let tid = cell.map_or(0, |cell| cell.0);
                let mut span = |ph: &str, at: &Time, args: Value| {
                    out.push(json!({
                        "ph": ph, "cat": "kernel", "id": event.seq, "name": op, "pid": ACTORS,
                        "tid": tid, "ts": self.at(*at), "args": args,
                    }));
                };
                let waited = started.since(*submitted).as_nanos() as f64 / 1e3;
                span("b", started, json!({ "about": about, "waited_us": waited }));
                span("e", ended, json!({ "failed": failed }));
            }
            What::Phase { name, started, ended } => out.push(json!({
                "ph": "X", "name": name, "cat": "start", "pid": BOOT, "tid": 0,
                "ts": self.at(*started), "dur": ended.since(*started).as_nanos() as f64 / 1e3,
            })),
        }
    }

    /// One end of a wait, for which both bear the same name.
    fn wait(&self, ph: &str, wait: &RecordedWait, at: Time, args: Value) -> Value {
        json!({
            "ph": ph, "cat": "wait", "id": wait.wait, "name": format!("waits for {}", wait.whom),
            "pid": ACTORS, "tid": wait.who.map_or(0, |cell| cell.0), "ts": self.at(at),
            "args": args,
        })
    }

    fn message(&self, event: &Event, out: &mut Vec<Value>) {
        let What::Message { id, kind, from, to, cause, enqueued, started, ended, outcome, .. } =
            &event.what
        else {
            return;
        };
        let sender = from.map_or("outside".into(), |cell| self.story.name(cell));
        let waited = started.since(*enqueued).as_nanos() as f64 / 1e3;
        out.push(json!({
            "ph": "X", "name": kind, "cat": "message", "pid": ACTORS, "tid": to.0,
            "ts": self.at(*started), "dur": ended.since(*started).as_nanos() as f64 / 1e3,
            "args": {
                "id": id, "from": sender, "cause": cause, "root": root_of(event),
                "waited_us": waited, "outcome": outcome,
            },
        }));
        // An arrow needs both its ends.
        if let Some(What::Message { to: at, .. }) = self.story.message(*cause).map(|it| &it.what) {
            let arrow = |ph: &str, tid: u32, ts: f64| {
                json!({
                    "ph": ph, "bp": "e", "cat": "cause", "name": "cause", "id": id,
                    "pid": ACTORS, "tid": tid, "ts": ts,
                })
            };
            out.push(arrow("s", at.0, self.at(*enqueued)));
            out.push(arrow("f", to.0, self.at(*started)));
        }
    }
}
