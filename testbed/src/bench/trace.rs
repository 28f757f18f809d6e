//! What the flight recorder costs: one record, and its share of the agent's processor time while a
//! policy that touches every endpoint changes ten times a second.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use volvox_actors::host::{CellId, Clock, EnvelopeId, Header, Outcome, Record, RootId, Time};
use volvox_inspect::flight::Recording;
use volvox_system::SystemClock;

use super::{Figure, Options, Unit, regenerate};
use crate::{
    fleet::Fleet,
    lab::{Metrics, Node, Pod, Through},
    progress::Progress,
};

/// Batches of records; the mean of each is one value.
const BATCHES: u64 = 2_000;
/// Records in a batch.
const BATCH: u64 = 500;
/// As the agent's default.
const RING_BYTES: u32 = 8 << 20;

/// Changes of the policy in one measurement, there and back in turn, and the time from one to the
/// next.
const CHANGES: u32 = 40;
const EVERY: Duration = Duration::from_millis(100);
/// Changes before it, until memory and caches are as they stay.
const WARM_UP: u32 = 4;
/// Measurements with the recorder, and as many without it, in a round.
const PAIRS: usize = 2;

/// Series that counts the recorder's records.
const RECORDS: &str = "volvox_flight_records_total";

pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut fleet = options.launch(&progress)?;
    // The one whom the policy lets in, or not.
    let _prober = Pod::create(&fleet.node, "probe/prober", &[("app", "prober")], Through::Rest)?;
    let record = one_record(&fleet)?;
    let mut share = Figure::new("trace.cpu_share", Unit::Percent).below(2.0);
    let mut on = Figure::new("trace.cpu_on", Unit::Seconds);
    let mut off = Figure::new("trace.cpu_off", Unit::Seconds);
    let mut records = Figure::new("trace.records_per_change", Unit::Count);
    let bar = progress.bar("changing the policy", options.rounds.into());
    for _ in 0..options.rounds {
        let mut seconds = [Vec::new(), Vec::new()];
        for pair in 0..PAIRS {
            // On, off, off, on: what grows or fades meanwhile hits both.
            for recorder in [pair % 2 == 0, pair % 2 == 1] {
                let work = changes(&mut fleet, recorder)?;
                seconds[usize::from(recorder)].extend(work.cpu);
                if recorder {
                    records.push(work.records / f64::from(CHANGES));
                }
            }
        }
        // The middle ones: what else the machine does takes time from a few.
        let [without, with] = seconds.map(median);
        on.push(with);
        off.push(without);
        share.push((with - without) / without * 100.0);
        bar.inc(1);
    }
    bar.finish();
    Ok(vec![record, share, on, off, records])
}

/// What an agent did while the policy changed.
struct Work {
    /// Processor time of each change there and back, its own and the kernel's for it, seconds.
    cpu: Vec<f64>,
    records: f64,
}

/// Has an agent, with or without its recorder, follow changes of the policy.
fn changes(fleet: &mut Fleet, recorder: bool) -> Result<Work> {
    let endpoints = fleet.pods.len() + 1;
    let node = &mut fleet.node;
    node.kill_agent()?;
    node.set_flag("flight-recorder", Some(if recorder { "true" } else { "false" }));
    node.start_agent()?;
    node.wait_for_ready(endpoints)?;
    change(node, WARM_UP)?;
    node.wait_for_ready(endpoints)?;
    let recorded = records(node)?;
    let cpu = change(node, CHANGES)?;
    node.wait_for_ready(endpoints)?;
    Ok(Work { cpu, records: records(node)? - recorded })
}

/// Changes the policy so often, ten times a second; the processor time from each change to the
/// one after next, seconds.
fn change(node: &mut Node, times: u32) -> Result<Vec<f64>> {
    let begun = Instant::now();
    let mut cpu = Vec::new();
    let mut before = node.agent()?.usage()?.cpu;
    for time in 1..=times {
        match time % 2 {
            1 => regenerate::put(node)?,
            _ => regenerate::take_back(node)?,
        }
        thread::sleep((EVERY * time).saturating_sub(begun.elapsed()));
        if time % 2 == 0 {
            let now = node.agent()?.usage()?.cpu;
            cpu.push((now - before).as_secs_f64());
            before = now;
        }
    }
    Ok(cpu)
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Records that the agent's recorder began; none while it is off.
fn records(node: &Node) -> Result<f64> {
    Ok(Metrics::scrape(node.rest())?.family(RECORDS).map(|(_, value)| value).sum())
}

/// Writes messages into a ring such as the agent's, in a directory of the same file system.
fn one_record(fleet: &Fleet) -> Result<Figure> {
    let dir = fleet.node.path("recorder");
    std::fs::create_dir_all(&dir)?;
    let recording = Recording::begin(&dir, RING_BYTES, SystemClock.now());
    anyhow::ensure!(recording.view().path().is_some(), "{:?}", recording.view().troubles());
    let mut recorder = recording.recorder();
    let mut figure = Figure::new("trace.record", Unit::Nanoseconds).below(150.0);
    for batch in 0..BATCHES {
        let begun = Instant::now();
        for n in batch * BATCH + 1..=(batch + 1) * BATCH {
            recorder.record(message(n));
        }
        figure.push(begun.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    drop(recorder);
    std::fs::remove_dir_all(&dir)?;
    Ok(figure)
}

/// A message between actors as there are many.
fn message(n: u64) -> Record<'static> {
    let enqueued = Time(1_000_000_000 + n * 2_500);
    let header = Header {
        id: EnvelopeId(n),
        kind: if n.is_multiple_of(2) { "Regenerate" } else { "Resolved" },
        from: Some(CellId(7)),
        to: CellId(20 + (n % 1000) as u32),
        cause: EnvelopeId(n.saturating_sub(n % 40)),
        root: RootId(n / 5_000 + 1),
        enqueued,
    };
    let started = enqueued + Duration::from_nanos(40_000 + n % 977);
    let ended = started + Duration::from_nanos(3_000 + n % 331);
    Record::Message { header, started, ended, outcome: Outcome::Handled }
}
