//! What goes with the identity of an endpoint, and an identity on its way to it.

use std::sync::Arc;

use super::{reference::IdentityReference, trigger::Trigger};
use crate::model::{Labels, NamedPorts};

/// What goes with the identity of an endpoint, and what each life looks up anew.
pub(super) struct Naming {
    /// Its labels that do not count for its identity.
    pub(super) info_labels: Arc<Labels>,
    /// Its labels changed, or were never looked up: its identity is that of others.
    pub(super) stale: bool,
    /// Names of its ports as everyone's policy knows them.
    pub(super) ports_known: Option<NamedPorts>,
    /// The identity that goes with its labels, on its way.
    pub(super) identification: Option<Identification>,
}

/// An identity on its way to an endpoint.
pub(super) struct Identification {
    /// What is to be built with it.
    pub(super) trigger: Trigger,
    /// How far it is.
    pub(super) progress: Progress,
    /// The edition of the endpoint whose labels it is for.
    pub(super) edition: u64,
}

/// How far an identity is.
pub(super) enum Progress {
    /// It is asked for.
    Asked,
    /// Everyone's policy is to know it.
    Learning(IdentityReference),
    /// It may be taken.
    Known(IdentityReference),
}

impl Identification {
    /// What it is at, for people.
    pub(super) fn step(&self) -> &'static str {
        match self.progress {
            Progress::Asked => "identity",
            Progress::Learning(_) | Progress::Known(_) => "learn",
        }
    }
}
