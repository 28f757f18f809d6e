//! What a gauntlet has done, in a file: a run that was interrupted goes on there.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::calls::Moment;

/// Somebody noticed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Violation {
    pub(super) moment: Moment,
    pub(super) what: String,
}

/// As it is in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    endpoints: u16,
    /// A sum over the agent's program: another one makes other calls.
    agent: String,
    moments: Vec<Moment>,
    died: BTreeSet<Moment>,
    /// No start came to them.
    not_reached: BTreeSet<Moment>,
    violations: Vec<Violation>,
}

/// A gauntlet that is walked through.
pub(super) struct State {
    path: PathBuf,
    kept: Kept,
    /// Held while it lives: nobody else walks.
    _lock: File,
}

impl State {
    /// Opens the file, or begins one.
    pub(super) fn open(path: &Path, endpoints: u16, agent: &Path) -> Result<Self> {
        let place = super::lock_of(path);
        let lock =
            File::create(&place).with_context(|| format!("cannot write {}", place.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another gauntlet writes {}: wait for it, or take another --state",
                path.display()
            );
        }
        let sum: String =
            Sha256::digest(fs::read(agent)?).iter().map(|byte| format!("{byte:02x}")).collect();
        let kept = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Kept { endpoints, agent: sum, ..Kept::default() }
            }
            Err(error) => bail!("cannot read {}: {error}", path.display()),
            Ok(text) => {
                let kept: Kept = serde_json::from_str(&text).with_context(|| {
                    format!("{} is no state of a gauntlet: take another --state", path.display())
                })?;
                ensure!(
                    kept.agent == sum && kept.endpoints == endpoints,
                    "{} is of a gauntlet of another agent, or of {} endpoints: remove it to begin \
                     anew, or take another --state",
                    path.display(),
                    kept.endpoints
                );
                kept
            }
        };
        Ok(Self { path: path.to_owned(), kept, _lock: lock })
    }

    pub(super) fn is_new(&self) -> bool {
        self.kept.moments.is_empty()
    }

    pub(super) fn begin(&mut self, moments: Vec<Moment>) -> Result<()> {
        self.kept.moments = moments;
        self.save()
    }

    /// Moments that were not tried yet.
    pub(super) fn left(&self) -> Vec<Moment> {
        let is_left =
            |it: &&Moment| !self.kept.died.contains(it) && !self.kept.not_reached.contains(it);
        self.kept.moments.iter().filter(is_left).cloned().collect()
    }

    pub(super) fn tried(&mut self, moment: &Moment, died: bool) {
        let list = if died { &mut self.kept.died } else { &mut self.kept.not_reached };
        list.insert(moment.clone());
    }

    pub(super) fn broke(&mut self, violation: Violation) {
        self.kept.died.insert(violation.moment.clone());
        self.kept.violations.push(violation);
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.kept.violations
    }

    /// Written beside and renamed: whoever interrupts it loses nothing.
    pub(super) fn save(&self) -> Result<()> {
        let draft = self.path.with_extension("draft");
        fs::write(&draft, serde_json::to_string(&self.kept)?)
            .and_then(|()| fs::rename(&draft, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// How far it is.
    pub(super) fn line(&self) -> String {
        let Kept { moments, died, not_reached, violations, endpoints, .. } = &self.kept;
        format!(
            "died at {} of {} calls of a restart of {endpoints} endpoints, {} not reached, {} left, {} violations",
            died.len(),
            moments.len(),
            not_reached.len(),
            self.left().len(),
            violations.len()
        )
    }

    /// What it came to.
    pub(super) fn report(&self) -> String {
        let mut text = self.line();
        for Violation { moment, what } in &self.kept.violations {
            let _ = write!(text, "\n  {moment}: {what}");
            let Moment { call, nth } = moment;
            let _ =
                write!(text, "\n    again: - restart: {{killed: {{before: {call}, nth: {nth}}}}}");
        }
        if !self.left().is_empty() {
            let _ = write!(
                text,
                "\nRun it again, and it goes on. {} knows how far it is.",
                self.path.display()
            );
        }
        text
    }
}
