//! Messages to the auditor, and the view of what it found: broken invariants and drifted rows.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    endpoints::supervisor::KernelLook,
    host::{Message, Reply, Time},
    model::drift::{Drift, DriftKind},
};

/// What looking found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AuditView {
    /// Looks that came to an end.
    pub looks: u64,
    /// How long the last comparison took.
    pub took: Duration,
    /// What did not hold at the last look, by the invariant's name.
    pub broken: BTreeMap<String, Vec<String>>,
    /// How many things did not hold so far, by the invariant's name.
    pub found: BTreeMap<String, u64>,
    /// Rows that somebody else changed so far, by map. They were put right.
    pub drift: BTreeMap<String, Drifted>,
}

/// Rows of one map that somebody else changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Drifted {
    /// How many were missing.
    pub missing: u64,
    /// How many had another value.
    pub changed: u64,
    /// How many nobody had written.
    pub foreign: u64,
    /// When some were found last, and how many.
    pub last: Time,
    /// The same by the wall clock, in nanoseconds since 1970.
    pub last_wall: u64,
    /// What was found then, in words.
    pub text: String,
}

impl Drifted {
    /// How many drifted in this way.
    pub fn count(&self, kind: DriftKind) -> u64 {
        match kind {
            DriftKind::Missing => self.missing,
            DriftKind::Changed => self.changed,
            DriftKind::Foreign => self.foreign,
        }
    }
}

/// What the auditor can be told.
pub enum AuditorMsg {
    /// From the supervisor of endpoints: it looked at the kernel.
    Look(KernelLook),
    /// From the restore supervisor: nothing is left of earlier runs that nobody claims.
    Restored,
    /// From whoever owns rows: these were not as they were written, and are written again.
    Drifted(Vec<Drift>),
    /// Show what was found.
    Show(Reply<Arc<AuditView>>),
}

impl Message for AuditorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Look(_) => "Look",
            Self::Restored => "Restored",
            Self::Drifted(_) => "Drifted",
            Self::Show(_) => "Show",
        }
    }
}
