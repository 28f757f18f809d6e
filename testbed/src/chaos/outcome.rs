//! What a history came to, in either world.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judge::{Finding, Verdict};

/// Where a history happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Real processes, a real kernel, in namespaces of their own.
    Lab,
    /// The simulator, in memory.
    Sim,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Lab => "lab",
            Self::Sim => "sim",
        })
    }
}

/// A step that was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// In plain words.
    pub what: String,
    /// Seconds since the first step.
    pub at: f64,
    /// Seconds that it took.
    pub took: f64,
}

/// What became of traffic that should flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Kind, from, to.
    pub what: String,
    /// Packets, records or connections.
    pub sent: u64,
    /// Of them lost, or failed.
    pub lost: u64,
    /// Seconds of the longest silence.
    pub longest_gap: f64,
    /// When that began, seconds since the first step; before it the number is negative.
    pub gap_at: Option<f64>,
}

/// What a history came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub history: String,
    /// Where it happened.
    pub place: Place,
    /// Where its random moments came from.
    pub seed: u64,
    /// What it all comes to.
    pub verdict: Verdict,
    /// What was measured.
    pub findings: Vec<Finding>,
    /// What was done.
    pub steps: Vec<Done>,
    /// When agents died, seconds since the first step.
    pub deaths: Vec<f64>,
    /// Files of flight recorders that were kept of its agents.
    pub recordings: Vec<String>,
    /// What became of the traffic.
    pub streams: Vec<Stream>,
    /// Which pod reaches which one at TCP port 80 in the end, as `from -> to`.
    pub reach: BTreeMap<String, bool>,
    /// Why it could not be judged.
    pub error: Option<String>,
    /// Seconds that it took.
    pub took: f64,
}

impl Outcome {
    /// One that nothing is known of yet.
    pub(super) fn new(history: &str, place: Place, seed: u64) -> Self {
        Self {
            history: history.to_owned(),
            place,
            seed,
            verdict: Verdict::NotJudged,
            findings: Vec::new(),
            steps: Vec::new(),
            deaths: Vec::new(),
            recordings: Vec::new(),
            streams: Vec::new(),
            reach: BTreeMap::new(),
            error: None,
            took: 0.0,
        }
    }

    /// What the findings come to.
    pub(super) fn judge(&mut self) {
        let verdicts = || self.findings.iter().map(|finding| finding.verdict);
        self.verdict = match (self.error.is_some(), verdicts().any(|it| it == Verdict::Broken)) {
            (_, true) => Verdict::Broken,
            (true, false) => Verdict::NotJudged,
            (false, false) if verdicts().any(|it| it == Verdict::NotJudged) => Verdict::NotJudged,
            _ => Verdict::Well,
        };
    }
}
