//! The world of the simulator: a history as its actions, and what the model says of the traffic.

mod faults;
mod policies;
mod translate;

use std::{ops::RangeInclusive, time::Instant};

use anyhow::{Result, bail};
use volvox_actors_simulated::mutants;
use volvox_sim::{record::trace::Trace, world::node::Node};

use super::{
    expected::expected,
    history::History,
    mutant,
    outcome::{Done, Outcome, Place},
};
use crate::judge::{Finding, Measure};

pub(super) use translate::Translation;

/// Lives of one history, each by a seed of its own.
pub(super) const SEEDS: u64 = 20;

/// What of a history the simulator cannot do, each in words.
pub(super) fn refused(history: &History) -> Vec<String> {
    Translation::make(history, 1).refused
}

/// Lives through a history in memory, under some seeds from that one on.
pub(super) fn live(history: &History, seed: u64) -> Result<Outcome> {
    live_under(history, seed..=seed + SEEDS - 1)
}

/// The same under these.
pub(super) fn live_under(history: &History, seeds: RangeInclusive<u64>) -> Result<Outcome> {
    let (seed, count) = (*seeds.start(), seeds.end() + 1 - seeds.start());
    // On this thread the node lives.
    mutants::switch(mutant::asked_for()?);
    let begun = Instant::now();
    let mut outcome = Outcome::new(&history.name, Place::Sim, seed);
    let mut wrong = None;
    for seed in seeds {
        let translation = Translation::make(history, seed);
        if let [first, ..] = translation.refused.as_slice() {
            bail!("the simulator cannot do this: {first}");
        }
        if let Err(failure) = Node::new(Trace::default()).run(&translation.actions) {
            let at = translation.actions.get(failure.at);
            let at = at.map_or_else(|| "the end".to_owned(), ToString::to_string);
            wrong = Some(format!("seed {seed}, behind \"{at}\": {}", failure.what));
            break;
        }
    }
    let translation = Translation::make(history, seed);
    outcome.steps = translation
        .steps
        .iter()
        .map(|what| Done { what: what.clone(), at: 0.0, took: 0.0 })
        .collect();
    outcome.reach = translation.reach;
    let limits = expected(&history.expect);
    for (measure, found) in
        [(Measure::Lost, &translation.denied), (Measure::LetThrough, &translation.let_through)]
    {
        let count = found.len() as f64;
        outcome.findings.extend(limits.finding(measure, Some(count), found.join("; ")));
    }
    let detail = wrong.clone().unwrap_or_else(|| format!("under {count} seeds"));
    let found = f64::from(u8::from(wrong.is_some()));
    outcome.findings.push(Finding::new(Measure::Oracle, Some(found), 0.0, detail));
    outcome.took = begun.elapsed().as_secs_f64();
    outcome.judge();
    Ok(outcome)
}
