//! Records as traces of OpenTelemetry, in OTLP/JSON.

use std::{collections::BTreeMap, hash::Hasher};

use serde_json::{Value, json};
use volvox_actors::host::{
    Outcome, RootId, Time,
    flight::{Event, What},
};

use super::{Story, story::root_of};

/// Kinds of numbers among spans, in their highest bits.
const ROOT_SPAN: u64 = 1 << 62;
const KERNEL_SPAN: u64 = 1 << 63;

/// Events as OTLP/JSON: a trace for each outside event, a span for each message that it led to and
/// for each step in the kernel.
pub fn otlp(story: &Story<'_>, events: &[&Event]) -> Value {
    let life = &story.flight.life;
    let export = Export { story, life: key(&life.boot_id, life.number) };
    let mut spans = export.roots(events);
    spans.extend(events.iter().filter_map(|event| export.span(event)));
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", "volvox-agent"),
                text("service.version", &life.version),
                text("service.instance.id", &format!("{}-{}", life.boot_id, life.number)),
                number("process.pid", life.pid.into()),
            ] },
            "scopeSpans": [{
                "scope": { "name": "volvox.flight", "version": life.version },
                "spans": spans,
            }],
        }],
    })
}

/// Names a life among all.
fn key(boot: &str, life: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.write(boot.as_bytes());
    u64::from(hasher.finalize()) << 32 | life & 0xffff_ffff
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    // OTLP/JSON has 64-bit numbers as texts.
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

struct Export<'a> {
    story: &'a Story<'a>,
    life: u64,
}

impl Export<'_> {
    fn trace(&self, root: RootId) -> String {
        format!("{:016x}{:016x}", self.life.max(1), root.0)
    }

    fn nanos(&self, at: Time) -> String {
        self.story.wall(at).to_string()
    }

    /// A span for each outside event, as long as what it led to.
    fn roots(&self, events: &[&Event]) -> Vec<Value> {
        let mut ends = BTreeMap::<RootId, (Time, Time)>::new();
        for event in events {
            if let Some(root) = root_of(event) {
                let at = event.what.at();
                let end = ends.entry(root).or_insert((at, at));
                *end = (end.0.min(at), end.1.max(at));
            }
        }
        let span = |(root, (first, last)): (RootId, (Time, Time))| {
            let name = self.story.root(root)?;
            let at = events.iter().find_map(|event| match event.what {
                What::Root { root: found, at, .. } if found == root => Some(at),
                _ => None,
            });
            Some(json!({
                "traceId": self.trace(root),
                "spanId": format!("{:016x}", ROOT_SPAN | root.0),
                "name": name,
                "kind": 1,
                "startTimeUnixNano": self.nanos(at.unwrap_or(first)),
                "endTimeUnixNano": self.nanos(last),
                "attributes": [number("volvox.root", root.0)],
                "status": {},
            }))
        };
        ends.into_iter().filter_map(span).collect()
    }

    fn span(&self, event: &Event) -> Option<Value> {
        let parent = |cause: u64, root: RootId| match cause {
            0 => format!("{:016x}", ROOT_SPAN | root.0),
            cause => format!("{cause:016x}"),
        };
        match &event.what {
            What::Message {
                id,
                kind,
                from,
                to,
                cause,
                root,
                enqueued,
                started,
                ended,
                outcome,
            } => {
                let sender = from.map_or("outside".into(), |cell| self.story.name(cell));
                let actor = self.story.name(*to);
                let bad = matches!(outcome, Outcome::Crashed | Outcome::Refused);
                Some(json!({
                    "traceId": self.trace(*root),
                    "spanId": format!("{:016x}", id.0),
                    "parentSpanId": parent(cause.0, *root),
                    "name": format!("{actor} {kind}"),
                    "kind": 5,
                    "startTimeUnixNano": self.nanos(*enqueued),
                    "endTimeUnixNano": self.nanos(*ended),
                    "attributes": [
                        text("volvox.actor", &actor),
                        text("volvox.from", &sender),
                        number("volvox.handling_ns", ended.since(*started).as_nanos() as u64),
                    ],
                    "status": status(bad.then(|| format!("{outcome:?}"))),
                }))
            }
            What::Kernel {
                cause,
                root,
                op,
                about,
                write,
                submitted,
                started,
                ended,
                failed,
                ..
            } => Some(json!({
                "traceId": self.trace(*root),
                "spanId": format!("{:016x}", KERNEL_SPAN | event.seq),
                "parentSpanId": parent(cause.0, *root),
                "name": format!("kernel {op}"),
                "kind": 3,
                "startTimeUnixNano": self.nanos(*submitted),
                "endTimeUnixNano": self.nanos(*ended),
                "attributes": [
                    text("volvox.about", about),
                    text("volvox.write", if *write { "true" } else { "false" }),
                    number("volvox.working_ns", ended.since(*started).as_nanos() as u64),
                ],
                "status": status(failed.as_ref().map(ToString::to_string)),
            })),
            _ => None,
        }
    }
}

fn status(error: Option<String>) -> Value {
    match error {
        None => json!({}),
        Some(message) => json!({ "code": 2, "message": message }),
    }
}
