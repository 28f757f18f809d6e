//! From a flight recording to a history, and from that to many: the same with deaths, delays, repetitions and
//! another order.
//!
//! A recording says what came from outside, when, and how much followed from it; it does not hold the contents.
//! So labels and policies of a learned history are made up: pods of one workload share a label, and a policy
//! that changed is one that changes.

mod perturb;
mod recording;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use super::{
    history::History,
    library::Source,
    outcome::Place,
    run::{self, Asked},
};
use perturb::Variation;
use recording::Recorded;

/// How a recording is learned from.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rings of a flight recorder, the earliest life first: such as flight.previous.ring flight.ring
    #[arg(required = true, value_name = "RING")]
    rings: Vec<PathBuf>,
    /// Write the history to this file
    #[arg(long, value_name = "FILE", default_value = "learned.yaml")]
    keep: PathBuf,
    /// Only write it, and perturb nothing
    #[arg(long)]
    only: bool,
    /// Orders of steps that each perturbed history is tried in
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Stop after so many perturbed histories, which are of all kinds
    #[arg(long, value_name = "COUNT")]
    most: Option<usize>,
    /// Shrink what fails
    #[arg(long)]
    shrink: bool,
    /// One JSON line
    #[arg(long)]
    json: bool,
}

/// Learns, perturbs, and says what came of it; the exit status.
pub(super) fn run(options: &Options) -> Result<i32> {
    let recorded = options.rings.iter().map(|ring| Recorded::read(ring));
    let recorded = recorded.collect::<Result<Vec<_>>>()?;
    let learned = recording::learn(&recorded)?;
    let text = learned.tree.write();
    let name = options.keep.display().to_string();
    let history = History::read(&name, &text);
    let complaints = history.err().unwrap_or_default();
    ensure!(complaints.is_empty(), "what was learned contradicts itself: {}", complaints[0]);
    let head: String = learned.notes.iter().map(|note| format!("# {note}\n")).collect();
    fs::write(&options.keep, format!("{head}{text}"))
        .with_context(|| format!("cannot write {name}"))?;
    if !options.json {
        learned.notes.iter().for_each(|note| volvox_system::say!("{note}"));
        volvox_system::say!("The history is {name}.");
    }
    if options.only {
        return Ok(0);
    }
    let variations = perturb::variations(&learned);
    // As many as are asked for, of all kinds and from all over it.
    let most = options.most.unwrap_or(variations.len()).max(1);
    let all: Vec<_> = variations.iter().step_by(variations.len().div_ceil(most).max(1)).collect();
    let begun = Instant::now();
    let failed = perturb::live(&all, options.seeds)?;
    let took = begun.elapsed().as_secs_f64();
    tell(options, &all, &failed, took);
    for (number, (variation, what)) in failed.iter().enumerate() {
        keep(options, number + 1, variation, what)?;
    }
    Ok(i32::from(!failed.is_empty()))
}

fn tell(options: &Options, all: &[&Variation], failed: &[(&Variation, String)], took: f64) {
    let lives = all.len() as u64 * options.seeds;
    let rate = lives as f64 / took.max(0.001);
    let counts = perturb::Kind::ALL.map(|kind| {
        let of =
            |list: &mut dyn Iterator<Item = perturb::Kind>| list.filter(|it| *it == kind).count();
        let tried = of(&mut all.iter().map(|it| it.kind));
        let broken = of(&mut failed.iter().map(|(it, _)| it.kind));
        (kind, tried, broken)
    });
    if options.json {
        let each = counts.map(|(kind, tried, broken)| {
            json!({ "kind": kind.name(), "tried": tried, "violations": broken })
        });
        let line =
            json!({ "histories": all.len(), "lives": lives, "seconds": took, "kinds": each });
        volvox_system::say!("{line}");
        return;
    }
    for (kind, tried, broken) in counts {
        volvox_system::say!("{tried:6} {}: {broken} violations", kind.about());
    }
    volvox_system::say!("{lives} lives in {took:.1} s, {rate:.0} a second");
}

/// Keeps a history that fails beside what was learned.
fn keep(options: &Options, number: usize, variation: &Variation, what: &str) -> Result<()> {
    let place = options.keep.with_extension(format!("violation-{number}.yaml"));
    let text = variation.tree.write();
    fs::write(&place, &text).with_context(|| format!("cannot write {}", place.display()))?;
    let shown = place.display();
    volvox_system::complain!(
        "{}: {what}\n  again: testbed chaos run {shown} --in sim",
        variation.what
    );
    if options.shrink {
        let asked = Asked { place: Place::Sim, seed: 1 };
        let source = Source { name: shown.to_string(), text };
        run::shrink_to(&source, asked, &shrunk(&place))?;
    }
    Ok(())
}

fn shrunk(place: &Path) -> PathBuf {
    place.with_extension("shrunk.yaml")
}
