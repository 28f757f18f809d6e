//! What the actors did, from the flight recorder: of the agent that runs, of the run before, or of
//! any file. Works without the agent.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use volvox_actors::host::{
    Clock, Time,
    flight::{Flight, Life, Unfinished},
};
use volvox_inspect::{
    evidence::Evidence,
    flight::{self, CURRENT, PREVIOUS},
    trace::{Selection, Story, lines, otlp, perfetto},
};
use volvox_system::SystemClock;

use super::{
    args::{Export, Lifetime, TraceArguments, TraceFormat},
    error::ClientError,
    named::endpoint_number,
    output::Output,
};

pub(super) fn run(
    out: &mut Output<'_>,
    (bpf_root, state_dir): (&Path, &Path),
    arguments: &TraceArguments,
) -> Result<(), ClientError> {
    let filter = match &arguments.export {
        Some(TraceFormat::Export(export)) => &export.filter,
        None => &arguments.filter,
    };
    let flight = read(state_dir, &filter.life)?;
    let story = Story::new(&flight);
    let number = |text: &String| endpoint_number(bpf_root, text);
    let endpoint = filter.endpoint.as_ref().map(number).transpose()?;
    let selection = Selection { endpoint, root: filter.root, since: filter.since };
    let mut events = selection.of(&story, end(&story));
    if let Some(TraceFormat::Export(to)) = &arguments.export {
        let value = match (to.perfetto, to.otlp) {
            (true, _) => perfetto(&story, &events),
            (_, true) => otlp(&story, &events),
            _ => json!({ "life": flight.life, "events": events }),
        };
        return export(out, to, &value);
    }
    if out.is_json() {
        return out.json(&json!({ "life": flight.life, "events": events }));
    }
    out.line(headline(&story))?;
    let left_out = match arguments.last {
        0 => 0,
        last => events.len().saturating_sub(last),
    };
    if left_out > 0 {
        out.line(format!("{left_out} earlier records are not shown; `--last 0` shows all."))?;
    }
    events.drain(..left_out);
    let rows = lines(&story, &events).into_iter();
    out.table(
        ["TIME", "ROOT", "ACTOR", "WHAT"],
        rows.map(|it| [it.time, it.root, it.actor, it.what]),
    )
}

/// Reads the ring of a life.
pub(super) fn read(state_dir: &Path, life: &Lifetime) -> Result<Flight, ClientError> {
    let path: PathBuf = match life {
        Lifetime::Current => state_dir.join(CURRENT),
        Lifetime::Previous => state_dir.join(PREVIOUS),
        Lifetime::Number(number) => of_number(state_dir, *number)?,
        Lifetime::File(path) => path.clone(),
    };
    let mut flight = flight::open(&path).map_err(|error| ClientError::Failed(error.to_string()))?;
    flight.life.previous |= !is_running(&flight.life);
    Ok(flight)
}

/// The ring of the life with that number.
fn of_number(state_dir: &Path, number: u64) -> Result<PathBuf, ClientError> {
    let is_it = |path: &PathBuf| flight::open(path).is_ok_and(|it| it.life.number == number);
    let named = [CURRENT, PREVIOUS].map(|name| state_dir.join(name));
    let all = named.into_iter().chain([Evidence::at(state_dir).ring(number)]);
    all.into_iter().find(is_it).ok_or_else(|| {
        ClientError::NotFound(format!(
            "nothing is recorded of life {number}: `volvox restore lives` lists those that are kept"
        ))
    })
}

/// Whether the process that wrote it still lives.
pub(super) fn is_running(life: &Life) -> bool {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = fs::read_to_string(format!("/proc/{}/comm", life.pid)).unwrap_or_default();
    boot.trim() == life.boot_id && name.trim() == "volvox-agent"
}

/// Now, for a life that goes on; the last moment of one that is over.
pub(super) fn end(story: &Story<'_>) -> Time {
    if story.flight.life.previous { story.end() } else { SystemClock.now() }
}

fn headline(story: &Story<'_>) -> String {
    let Life { number, pid, version, previous, torn, overwritten, unfinished, .. } =
        &story.flight.life;
    let state = if *previous { "is over" } else { "goes on" };
    let mut text = format!("Life {number} of the agent (pid {pid}, version {version}) {state}.");
    if *overwritten > 0 {
        text += &format!(" Its first {overwritten} records are overwritten.");
    }
    if *torn > 0 {
        text += &format!(" {torn} records are torn.");
    }
    if let Some(Unfinished { kind, to, .. }) = unfinished
        && *previous
    {
        text += &format!(" It ended while {} was handling {kind}.", story.name(*to));
    }
    text
}

fn export(out: &mut Output<'_>, to: &Export, value: &Value) -> Result<(), ClientError> {
    let Some(path) = &to.file else { return out.json(value) };
    let failed = |cause| ClientError::Failed(format!("write {}: {cause}", path.display()));
    let mut file = fs::File::create(path).map_err(failed)?;
    let text = serde_json::to_vec(value).map_err(|error| ClientError::Failed(error.to_string()))?;
    file.write_all(&text).map_err(failed)?;
    let about = if to.perfetto { "; open it at https://ui.perfetto.dev" } else { "" };
    out.line(format!("{} written{about}", path.display()))
}
