//! What was measured, beside what is expected.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Packets and connections that were lost of what should flow.
    Lost,
    /// Hooks that were seen without a program that they had.
    Dips,
    /// Packets that got through where they should be denied.
    LetThrough,
    /// Endpoints whose number, identity or address moved.
    Moved,
    /// Pods that are not ready in the end.
    NotReady,
    /// The longest from a start until the API answered, seconds.
    Api,
    /// The longest from a start until all pods were ready, seconds.
    Ready,
    /// Rows and links that a restart wrote although nothing had changed.
    Writes,
    /// Things that are left when all pods are deleted.
    Leaks,
    /// Things that `volvox verify` names in the end, of each guarantee.
    Differences,
    /// All that the simulator's oracle knows: each verdict after each step, and the whole node at rest.
    Oracle,
}

/// Guarantees of which something is measured.
pub const MEASURED: [u8; 8] = [1, 2, 3, 5, 7, 8, 9, 10];

impl Measure {
    /// The guarantee that it is about: of the design, by its number. The oracle and `volvox verify` know of
    /// many.
    pub fn guarantee(self) -> Option<u8> {
        Some(match self {
            Self::Lost | Self::Dips => 1,
            Self::LetThrough => 2,
            Self::Moved => 3,
            Self::NotReady | Self::Api => 7,
            Self::Ready | Self::Writes => 9,
            Self::Leaks => 10,
            Self::Differences | Self::Oracle => return None,
        })
    }

    /// Whether it is a time.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Api | Self::Ready)
    }

    /// What it is, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Lost => "packets and connections lost",
            Self::Dips => "hooks seen without a program",
            Self::LetThrough => "packets let through that are denied",
            Self::Moved => "pods whose numbers moved",
            Self::NotReady => "pods not ready in the end",
            Self::Api => "API answers after a start",
            Self::Ready => "all pods ready after a start",
            Self::Writes => "writes of an unchanged restart",
            Self::Leaks => "things left when all pods are deleted",
            Self::Differences => "things that volvox verify names in the end",
            Self::Oracle => "what the simulator's oracle finds wrong",
        }
    }
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Not as it should be.
    Broken,
    /// Nobody could look.
    NotJudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Well => "well",
            Self::Broken => "BROKEN",
            Self::NotJudged => "not judged",
        })
    }
}

/// A measure with its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was measured.
    pub measure: Measure,
    /// The guarantee that it is about.
    pub guarantee: Option<u8>,
    /// How many, or how many seconds; none if nobody could look.
    pub found: Option<f64>,
    /// The most that is well.
    pub limit: f64,
    /// How it stands.
    pub verdict: Verdict,
    /// More of what was found.
    pub detail: String,
}

impl Finding {
    /// What was found, held against the most that is well.
    pub fn new(
        measure: Measure,
        found: Option<f64>,
        limit: f64,
        detail: impl Into<String>,
    ) -> Self {
        let verdict = match found {
            None => Verdict::NotJudged,
            Some(found) if found > limit => Verdict::Broken,
            Some(_) => Verdict::Well,
        };
        let (guarantee, detail) = (measure.guarantee(), detail.into());
        Self { measure, guarantee, found, limit, verdict, detail }
    }

    /// The same of a guarantee that the measure alone does not say.
    pub(super) fn of_guarantee(mut self, number: u8) -> Self {
        self.guarantee = Some(number);
        self
    }

    /// A number of it, as people read it.
    pub fn show(&self, number: f64) -> String {
        if self.measure.is_time() {
            return significant_time(Duration::from_secs_f64(number));
        }
        format!("{number:.0}")
    }
}

/// Milliseconds or seconds, as many digits as one reads.
pub fn significant_time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}
