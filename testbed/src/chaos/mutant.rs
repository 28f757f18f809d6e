//! A known bug of the agent, switched in by the environment variable `VOLVOX_MUTANT`: whether chaos finds it.
//!
//! In the lab the other build of the agent is told; one that is released has no switches.

use std::env;

use anyhow::{Result, bail};
use volvox_actors_simulated::mutants::Mutant;

use super::suggest::remedy;
use crate::lab::{Binaries, build};

/// Names the bug.
const VARIABLE: &str = "VOLVOX_MUTANT";

/// The one that is asked for.
pub(super) fn asked_for() -> Result<Option<Mutant>> {
    let Some(name) = env::var_os(VARIABLE) else { return Ok(None) };
    let name = name.to_string_lossy();
    match Mutant::ALL.iter().find(|mutant| mutant.name() == name) {
        Some(mutant) => Ok(Some(*mutant)),
        None => {
            let remedy = remedy(&name, Mutant::ALL.iter().map(|mutant| mutant.name()));
            bail!("{VARIABLE}={name}: there is no such mutant: {remedy}")
        }
    }
}

/// The programs under test: an agent in which the bug is switched in, if one is asked for.
pub(super) fn binaries() -> Result<Binaries> {
    let usual = Binaries::find()?;
    Ok(match asked_for()? {
        Some(_) => usual.with_agent(&build::other_agent()?),
        None => usual,
    })
}
