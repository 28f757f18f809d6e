//! A browser that shows a dashboard, and where its pictures go.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use volvox_testbed::lab::{Binaries, Page};
pub(crate) use volvox_testbed::picture::{VIEWS, browser, loopback};

/// What the page says once everything that it shows was read.
pub(crate) const READY: &str = "document.body.dataset.ready !== undefined";

/// A running `volvox dashboard`. Dropped, it ends.
pub(crate) struct Served {
    child: Child,
    /// Where it is.
    pub(crate) address: String,
}

impl Served {
    /// Serves these records.
    pub(crate) fn start(files: &[&Path]) -> Result<Self> {
        loopback()?;
        let mut command = Command::new(Binaries::find()?.client);
        command.arg("dashboard").args(files).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start volvox dashboard")?;
        let stdout = child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.split_whitespace().next().context("it names no address")?.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a picture of that name goes.
pub(crate) fn picture(name: &str) -> Result<PathBuf> {
    let agent = Binaries::find()?.agent;
    let folder = agent.parent().context("the agent is in no directory")?;
    Ok(folder.join("dashboard").join(format!("{name}.png")))
}

/// Opens a page and waits until it has read its record.
pub(crate) fn open(page: &mut Page<'_>, address: &str) -> Result<()> {
    page.open(address)?;
    page.wait(READY)
}

/// Goes to a view and waits until it stands there.
pub(crate) fn go(page: &mut Page<'_>, view: &str) -> Result<()> {
    page.eval(&format!("void (location.hash = '#/{view}')"))?;
    let name = view.split(['/', '?']).next().unwrap_or(view);
    page.wait(&format!(
        "document.querySelector('nav [aria-current=page]')?.dataset.view === '{name}' \
         && document.querySelector('main h1')?.id === '{name}-title'"
    ))
}

/// Has a view list only what has that text.
pub(crate) fn filter(page: &mut Page<'_>, text: &str) -> Result<()> {
    page.eval(&format!(
        "(() => {{ const input = document.querySelector('main input[type=search]'); \
           input.value = '{text}'; input.dispatchEvent(new Event('input')); }})()"
    ))
    .map(drop)
}

/// Fails if the page or the browser complained of anything.
pub(crate) fn no_complaints(page: &mut Page<'_>) -> Result<()> {
    let complaints = page.complaints();
    ensure!(complaints.is_empty(), "the page complains: {complaints:#?}");
    Ok(())
}
