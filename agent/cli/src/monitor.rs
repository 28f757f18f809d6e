//! What the datapath does with packets, as it happens.

mod args;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod line;
mod origins;
mod packet;
mod source;
mod stand_in;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use serde::Serialize;
use volvox_bpf_progs::layouts::Record;
use volvox_inspect::monitor::notice;
use volvox_maps::Event;
use volvox_rest::RestClient;

pub(super) use self::{args::MonitorFilter, source::Source};
use self::{
    args::RecordKind,
    line::{Line, Verdicts},
    origins::Origins,
    text::text,
};
use super::{error::ClientError, output::Output};

/// How long one wait for records may take, so that a signal is noticed.
const WAIT: Duration = Duration::from_secs(1);

/// Records that did not fit into the ring.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "lost", rename_all = "kebab-case")]
struct Lost {
    cpu: u32,
    count: u64,
}

/// What the agent itself says.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "agent", rename_all = "kebab-case")]
struct Reported<'a> {
    text: &'a str,
}

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    mut source: Source,
    (filter, endpoints): (&MonitorFilter, &[u16]),
) -> Result<(), ClientError> {
    let mut origins = Origins::default();
    let mut verdicts = Verdicts::default();
    let mut left = filter.count.unwrap_or(u64::MAX);
    if !out.is_for_programs() {
        out.line("Listening; Ctrl-C ends it.")?;
    }
    while left > 0 {
        for event in source.next(WAIT)? {
            match event {
                Event::Lost { cpu, count } => lost(out, cpu, count)?,
                Event::Sample { cpu, bytes } => {
                    if let Some(text) = notice(&bytes).filter(|_| hears_notices(filter)) {
                        reported(out, &text)?;
                        left -= 1;
                        continue;
                    }
                    let Some(record) = Record::parse(&bytes) else { continue };
                    let mut line = verdicts.line(cpu, &record);
                    if left > 0 && expected((filter, endpoints), &line) {
                        line.origins = origins.of(client, line.cookie()).await;
                        write(out, &line)?;
                        left -= 1;
                    }
                }
            }
        }
    }
    Ok(())
}

fn write(out: &mut Output<'_>, line: &Line) -> Result<(), ClientError> {
    if out.is_for_programs() { out.record(line) } else { out.line(text(line)) }
}

fn lost(out: &mut Output<'_>, cpu: u32, count: u64) -> Result<(), ClientError> {
    if out.is_for_programs() {
        return out.record(&Lost { cpu, count });
    }
    out.line(format!(
        "-- {count} records of CPU {cpu} are lost: they came faster than they are read"
    ))
}

/// Who asks for records of some kind, or of some endpoint, asks for no notices of the agent.
fn hears_notices(filter: &MonitorFilter) -> bool {
    filter.kinds.is_empty() && filter.endpoints.is_empty()
}

fn reported(out: &mut Output<'_>, text: &str) -> Result<(), ClientError> {
    match out.is_for_programs() {
        true => out.record(&Reported { text }),
        false => out.line(format!(">> agent: {text}")),
    }
}

fn expected((filter, endpoints): (&MonitorFilter, &[u16]), line: &Line) -> bool {
    let kind = match line.record {
        line::Kind::Drop { .. } => RecordKind::Drop,
        line::Kind::Trace { .. } => RecordKind::Trace,
        line::Kind::PolicyVerdict { .. } => RecordKind::PolicyVerdict,
    };
    (filter.kinds.is_empty() || filter.kinds.contains(&kind))
        && (endpoints.is_empty() || endpoints.iter().any(|id| line.concerns(*id)))
}
