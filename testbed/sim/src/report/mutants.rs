//! Known bugs, switched in one after the other: each has to be found.

use anyhow::{Result, bail};
use serde_json::json;
use volvox_actors_simulated::mutants::{Mutant, switch};

use super::parallel::all;
use crate::{
    history::{draw::draw, scenarios},
    operators,
    record::trace::Trace,
    runner::{Failure, Tally},
    world::node::Node,
};

/// How many seeds a mutant may take at most.
const MUTANT_SEEDS: u64 = 3_000;

/// The first seed, of random histories and of scenarios, at which a bug shows.
pub fn seeds_until_caught(mutant: Mutant, most: u64) -> Option<(u64, Failure)> {
    switch(Some(mutant));
    let caught = (1..=most).find_map(|seed| {
        let scenario = scenarios::ALL.get(seed as usize - 1).map(|it| it.actions(seed));
        let mut histories = scenario.into_iter().chain(std::iter::once_with(|| draw(seed)));
        let failure = match mutant.is_of_operator() {
            true => operators::live(seed, |_| ()).err().map(Failure::from),
            false => histories.find_map(|it| Node::new(Trace::default()).run(&it).err()),
        };
        failure.map(|failure| (seed, failure))
    });
    switch(None);
    caught
}

/// Every mutant, or that one, one after the other on each processor.
pub(super) fn run(name: Option<&str>, json: bool) -> Result<i32> {
    let is_meant = |mutant: &&Mutant| name.is_none_or(|name| mutant.name() == name);
    let chosen: Vec<&Mutant> = Mutant::ALL.iter().filter(is_meant).collect();
    if chosen.is_empty() {
        bail!("no mutant {}: --mutants names them all", name.unwrap_or_default());
    }
    let (_, caught) = all(1..=chosen.len() as u64, |number| {
        let mutant = *chosen[number as usize - 1];
        match seeds_until_caught(mutant, MUTANT_SEEDS) {
            Some((seed, failure)) => Err(Failure { at: seed as usize, what: failure.what }),
            None => Ok(Tally::default()),
        }
    });
    let mut survivors = 0;
    for (number, mutant) in (1..).zip(&chosen) {
        let name = mutant.name();
        match caught.iter().find(|(other, _)| *other == number) {
            Some((_, failure)) if json => {
                volvox_system::say!(
                    "{}",
                    json!({ "name": format!("sim.mutant.{name}"), "value": failure.at })
                );
            }
            Some((_, failure)) => {
                let what: String = failure.what.chars().take(100).collect();
                volvox_system::say!("{name:28} caught by seed {:4}: {what}", failure.at);
            }
            None => {
                survivors += 1;
                volvox_system::say!("{name:28} SURVIVES {MUTANT_SEEDS} seeds");
            }
        }
    }
    if survivors > 0 {
        bail!("{survivors} of {} known bugs are not found", chosen.len());
    }
    Ok(0)
}
