//! The size of the agent's image, as a registry stores it and a node fetches it.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

use super::{Figure, Unit};
use crate::lab::Binaries;

/// What makes the image.
const IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/packaging/image");

pub(super) fn run() -> Result<Vec<Figure>> {
    let binaries = Binaries::find()?;
    let programs = binaries.agent.parent().context("programs without a directory")?;
    let file = programs.join("volvox-agent-image.tar");
    let made = Command::new(IMAGE).arg("--programs").arg(programs).arg(&file).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut size = Figure::new("image.size", Unit::Megabytes).below(20.0);
    size.push(fs::metadata(&file)?.len() as f64 / 1e6);
    Ok(vec![size])
}
