//! What gauntlets have done, in a file: a run that was interrupted goes on there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use volvox_sim::random::Random;

use super::{calls::Moment, walks::Walk};

/// Somebody noticed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Violation {
    pub(super) moment: Moment,
    pub(super) what: String,
    /// A history of that death, where the language can tell it.
    pub(super) history: Option<String>,
}

/// As it is in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    endpoints: u16,
    /// A sum over the agent's program: another one makes other calls.
    agent: String,
    /// By the names of the operations.
    walks: BTreeMap<String, Walked>,
}

/// How far one gauntlet is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Walked {
    moments: Vec<Moment>,
    died: BTreeSet<Moment>,
    /// No try came to them.
    not_reached: BTreeSet<Moment>,
    violations: Vec<Violation>,
}

/// A gauntlet that is walked through.
pub(super) struct State {
    path: PathBuf,
    walk: Walk,
    kept: Kept,
    /// Held while it lives: nobody else walks.
    _lock: File,
}

/// The histories of violations of a walk that are kept beside its state.
pub(super) fn histories_beside(state: &Path, walk: Walk) -> Result<Vec<PathBuf>> {
    let text =
        fs::read_to_string(state).with_context(|| format!("cannot read {}", state.display()))?;
    let kept: Kept = serde_json::from_str(&text)?;
    let walked = kept.walks.get(walk.name());
    let violations = walked.map(|walked| walked.violations.as_slice()).unwrap_or_default();
    let with_history = violations.iter().filter(|violation| violation.history.is_some());
    Ok(with_history.map(|violation| violation.place(state, walk)).collect())
}

impl Violation {
    /// The file of its history.
    fn place(&self, state: &Path, walk: Walk) -> PathBuf {
        let stem = state.file_stem().unwrap_or_default().to_string_lossy();
        let Moment { call, nth } = &self.moment;
        state.with_file_name(format!("{stem}-{}-{call}-{nth}.yaml", walk.name()))
    }
}

impl State {
    /// Opens the file, or begins one.
    pub(super) fn open(path: &Path, walk: Walk, endpoints: u16, agent: &Path) -> Result<Self> {
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
        let mut kept = match fs::read_to_string(path) {
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
        kept.walks.entry(walk.name().to_owned()).or_default();
        Ok(Self { path: path.to_owned(), walk, kept, _lock: lock })
    }

    fn walked(&self) -> &Walked {
        &self.kept.walks[self.walk.name()]
    }

    fn walked_mut(&mut self) -> &mut Walked {
        self.kept.walks.entry(self.walk.name().to_owned()).or_default()
    }

    pub(super) fn is_new(&self) -> bool {
        self.walked().moments.is_empty()
    }

    /// In an order by chance, always the same: a part of them is of all kinds.
    pub(super) fn begin(&mut self, mut moments: Vec<Moment>) -> Result<()> {
        let mut random = Random::new(1);
        for place in (1..moments.len()).rev() {
            moments.swap(place, random.roll(place + 1));
        }
        self.walked_mut().moments = moments;
        self.save()
    }

    /// Moments that were not tried yet.
    pub(super) fn left(&self) -> Vec<Moment> {
        let walked = self.walked();
        let is_left = |it: &&Moment| !walked.died.contains(it) && !walked.not_reached.contains(it);
        walked.moments.iter().filter(is_left).cloned().collect()
    }

    pub(super) fn tried(&mut self, moment: &Moment, died: bool) {
        let walked = self.walked_mut();
        if died {
            walked.not_reached.remove(moment);
            walked.died.insert(moment.clone());
        } else if !walked.died.contains(moment) {
            walked.not_reached.insert(moment.clone());
        }
    }

    pub(super) fn broke(&mut self, violation: Violation) {
        let walked = self.walked_mut();
        walked.not_reached.remove(&violation.moment);
        walked.died.insert(violation.moment.clone());
        walked.violations.push(violation);
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.walked().violations
    }

    /// Files with histories of the violations.
    pub(super) fn histories(&self) -> Vec<(PathBuf, &str)> {
        let each = self.violations().iter().filter_map(|violation| {
            let place = violation.place(&self.path, self.walk);
            Some((place, violation.history.as_deref()?))
        });
        each.collect()
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
        let Walked { moments, died, not_reached, violations } = self.walked();
        format!(
            "died at {} of {} calls of {} with {} endpoints, {} not reached, {} left, {} violations",
            died.len(),
            moments.len(),
            self.walk.about(),
            self.kept.endpoints,
            not_reached.len(),
            self.left().len(),
            violations.len()
        )
    }

    /// What it came to.
    pub(super) fn report(&self) -> String {
        let mut text = self.line();
        for Violation { moment, what, .. } in self.violations() {
            let _ = write!(text, "\n  {moment}: {what}");
        }
        for (place, _) in self.histories() {
            let _ = write!(text, "\n  again: testbed chaos run {}", place.display());
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
