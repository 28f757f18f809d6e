//! The size of the agent's image, as a registry stores it and a node fetches it.

use std::fs;

use anyhow::{Context, Result};

use super::{Figure, Unit};
use crate::lab::{Binaries, image};

pub(super) fn run() -> Result<Vec<Figure>> {
    let binaries = Binaries::find()?;
    let programs = binaries.agent.parent().context("programs without a directory")?;
    let file = programs.join("volvox-agent-image.tar");
    image::packaged(programs, &[], &file)?;
    let mut size = Figure::new("image.size", Unit::Megabytes).below(20.0);
    size.push(fs::metadata(&file)?.len() as f64 / 1e6);
    Ok(vec![size])
}
