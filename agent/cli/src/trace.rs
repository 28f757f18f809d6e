//! What the actors did, from the flight recorder: of the agent that runs, of the run before, or of
//! any file. Works without the agent.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use volvox_actors::host::{
    Clock, Time,
    flight::{Event, Flight, Life, Unfinished},
};
use volvox_inspect::{
    dashboard::Opened,
    evidence::Evidence,
    flight::{self, CURRENT, PREVIOUS},
    trace::{Line, Selection, Story, lines, otlp, perfetto},
};
use volvox_system::SystemClock;

use super::{
    args::{Export, Lifetime, TraceArguments, TraceFormat},
    error::ClientError,
    named::endpoint_number,
    output::Output,
};

pub(super) async fn run(
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
    let named = |text: &String| endpoint_in(&story, bpf_root, text);
    let endpoint = filter.endpoint.as_ref().map(named).transpose()?;
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
    if arguments.follow {
        if filter.life != Lifetime::Current {
            return Err(ClientError::Usage("--follow is of the life that goes on".to_owned()));
        }
        return follow(out, state_dir, &flight, arguments, &selection).await;
    }
    if out.is_for_programs() {
        return out.value(&json!({ "life": flight.life, "events": events }));
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

/// The number of an endpoint that a recording, or else the kernel, knows by that name.
pub(super) fn endpoint_in(
    story: &Story<'_>,
    bpf_root: &Path,
    text: &str,
) -> Result<u16, ClientError> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let recorded = story.endpoints_of(text.strip_prefix("pod-name:").unwrap_or(text));
    match Vec::from_iter(recorded).as_slice() {
        [] => endpoint_number(bpf_root, text),
        [one] => Ok(*one),
        several => {
            let numbers: Vec<_> = several.iter().map(u16::to_string).collect();
            Err(ClientError::Usage(format!(
                "{text:?} was several endpoints in this recording: {}; say which, by its number",
                numbers.join(", ")
            )))
        }
    }
}

/// Shows the latest records, and goes on with those that come.
async fn follow(
    out: &mut Output<'_>,
    state_dir: &Path,
    flight: &Flight,
    arguments: &TraceArguments,
    selection: &Selection,
) -> Result<(), ClientError> {
    let story = Story::new(flight);
    let mut events = selection.of(&story, end(&story));
    if arguments.last > 0 {
        events.drain(..events.len().saturating_sub(arguments.last));
    }
    if !out.is_for_programs() {
        out.line(headline(&story))?;
    }
    show(out, &story, &events)?;
    let mut followed = Followed::after(flight);
    let selection = Selection { since: None, ..selection.clone() };
    loop {
        let life = followed.life;
        let (flight, fresh) = followed.next(state_dir).await?;
        let story = Story::new(&flight);
        if followed.life != life && !out.is_for_programs() {
            out.line(headline(&story))?;
        }
        let mut events = selection.of(&story, end(&story));
        events.retain(|event| fresh.contains(&event.seq));
        show(out, &story, &events)?;
    }
}

fn show(out: &mut Output<'_>, story: &Story<'_>, events: &[&Event]) -> Result<(), ClientError> {
    if out.is_for_programs() {
        return events.iter().try_for_each(|event| out.record(event));
    }
    for Line { time, root, actor, what } in lines(story, events) {
        out.line(format!("{time}  {root:>6}  {actor}  {what}"))?;
    }
    out.flush()
}

/// How often the ring is looked at for what is new.
const PAUSE: Duration = Duration::from_millis(500);

/// How far the ring of the life that goes on was shown.
pub(super) struct Followed {
    life: u64,
    shown: BTreeSet<u64>,
}

impl Followed {
    /// All that is there is shown.
    pub(super) fn after(flight: &Flight) -> Self {
        Self { life: flight.life.number, shown: numbers(flight) }
    }

    /// The ring once there is something new in it, and the numbers of that. The agent's next life is one,
    /// too.
    pub(super) async fn next(
        &mut self,
        state_dir: &Path,
    ) -> Result<(Flight, BTreeSet<u64>), ClientError> {
        loop {
            tokio::time::sleep(PAUSE).await;
            let Ok(flight) = read(state_dir, &Lifetime::Current) else { continue };
            let now = numbers(&flight);
            let fresh = match flight.life.number == self.life {
                true => now.difference(&self.shown).copied().collect(),
                false => now.clone(),
            };
            (self.life, self.shown) = (flight.life.number, now);
            if !fresh.is_empty() {
                return Ok((flight, fresh));
            }
        }
    }
}

fn numbers(flight: &Flight) -> BTreeSet<u64> {
    flight.events.iter().map(|event| event.seq).collect()
}

/// Reads the ring of a life.
pub(super) fn read(state_dir: &Path, life: &Lifetime) -> Result<Flight, ClientError> {
    let failed = |error: flight::FlightFileError| ClientError::Failed(error.to_string());
    let mut flight = match life {
        Lifetime::Current => flight::open(&state_dir.join(CURRENT)).map_err(failed)?,
        Lifetime::Previous => flight::open(&state_dir.join(PREVIOUS)).map_err(failed)?,
        Lifetime::Number(number) => {
            flight::open(&of_number(state_dir, *number)?).map_err(failed)?
        }
        Lifetime::File(path) => Flight::clone(Opened::read(path)?.flight()),
    };
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
    let Some(path) = &to.file else { return out.value(value) };
    let failed = |cause| ClientError::Failed(format!("write {}: {cause}", path.display()));
    let mut file = fs::File::create(path).map_err(failed)?;
    let text = serde_json::to_vec(value).map_err(|error| ClientError::Failed(error.to_string()))?;
    file.write_all(&text).map_err(failed)?;
    let about = if to.perfetto { "; open it at https://ui.perfetto.dev" } else { "" };
    out.line(format!("{} written{about}", path.display()))
}
