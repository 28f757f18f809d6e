//! What came of a run.

use std::time::Duration;

use serde::Serialize;

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All probes were as they should be.
    Passed,
    /// At least one was not.
    Failed,
    /// There was nothing to try, or it was not wanted.
    NotTried,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotTried => "not tried",
        }
    }
}

/// A probe that was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What was done meanwhile, if a test has several stages.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    /// The pod that asked.
    pub from: String,
    /// Whom.
    pub to: String,
    /// How.
    pub target: String,
    /// What came instead.
    pub reason: String,
    /// Which command says more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Failure {
    /// In a line.
    pub fn line(&self) -> String {
        let stage = if self.stage.is_empty() { String::new() } else { format!("{}: ", self.stage) };
        let target =
            if self.target.is_empty() { String::new() } else { format!(" ({})", self.target) };
        format!("{stage}{} to {}{target}: {}", self.from, self.to, self.reason)
    }
}

/// A test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// What it is called by.
    pub name: String,
    /// What must hold.
    pub about: String,
    /// What came of it.
    pub outcome: Outcome,
    /// How many probes were asked.
    pub probes: u64,
    /// How many of them were not as they should be.
    pub failed: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why it was not tried.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What was not as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What else is worth to be known: probes that were not tried, and what took its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl TestReport {
    pub(crate) fn new(name: &str, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            outcome: Outcome::Passed,
            probes: 0,
            failed: 0,
            seconds: 0.0,
            reason: String::new(),
            failures: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn not_tried(mut self, reason: impl Into<String>) -> Self {
        self.outcome = Outcome::NotTried;
        self.reason = reason.into();
        self
    }

    /// Notes a thing once.
    pub(crate) fn note(&mut self, words: String) {
        if !self.notes.contains(&words) {
            self.notes.push(words);
        }
    }

    pub(crate) fn ended(mut self, took: Duration) -> Self {
        self.seconds = took.as_secs_f64();
        if !self.failures.is_empty() {
            self.outcome = Outcome::Failed;
        }
        self
    }

    /// In a line.
    pub fn line(&self) -> String {
        let name = &self.name;
        match self.outcome {
            Outcome::Passed => {
                format!("{name}: passed, {} probes, {:.1} s", self.probes, self.seconds)
            }
            Outcome::Failed => format!(
                "{name}: FAILED, {} of {} probes, {:.1} s",
                self.failed, self.probes, self.seconds
            ),
            Outcome::NotTried => format!("{name}: not tried: {}", self.reason),
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Where it happened.
    pub namespace: String,
    /// The nodes that took part.
    pub nodes: Vec<String>,
    /// What the pods ran.
    pub image: String,
    /// The tests, in their order.
    pub tests: Vec<TestReport>,
    /// How long all of it took.
    pub seconds: f64,
    /// What else is worth to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it ended before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Report {
    /// How many tests came to that.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|it| it.outcome == outcome).count()
    }
}
