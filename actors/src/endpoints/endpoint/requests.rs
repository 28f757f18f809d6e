//! What an endpoint is asked to do: to be built to some level, to be changed; and why it was not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::EndpointSpec;
use crate::model::{Labels, NamedPorts};

/// How much of an endpoint is built again. A higher level includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Check and attach the programs again.
    Load,
    /// Also build policy and configuration anew, aside, and flip.
    Rewrite,
    /// Also load a fresh generation of the programs.
    Rebuild,
}

/// Why an endpoint was not made or not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// What was asked cannot be: HTTP 400.
    #[error("{0}")]
    Invalid(String),
    /// A number, address or attachment is taken: HTTP 400, as Cilium answers.
    #[error("{0}")]
    InUse(String),
    /// Too many at once: HTTP 429.
    #[error("{0}")]
    TooMany(String),
    /// It was made, but could not be programmed, and was taken down again: HTTP 500.
    #[error("{0}")]
    Failed(String),
    /// The agent is not ready to make endpoints yet: HTTP 503.
    #[error("{0}")]
    NotReady(String),
}

/// A change of a living endpoint; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// New labels from the orchestrator.
    pub labels: Option<Labels>,
    /// Labels that its user wants added.
    pub custom: Option<Labels>,
    /// Labels that its user wants ignored.
    pub disabled: Option<Labels>,
    /// Options by Cilium's names, for this endpoint alone: they outlive the agent.
    pub options: Option<BTreeMap<String, i64>>,
    /// Options that every endpoint is given; they are those of the flags again once the agent is
    /// started anew.
    pub shared_options: Option<BTreeMap<String, i64>>,
    /// Names of its ports.
    pub named_ports: Option<NamedPorts>,
    /// New facts of the interface: name, number, addresses of it.
    pub interface: Option<EndpointSpec>,
}

/// Why an endpoint was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// There is none: HTTP 404.
    #[error("endpoint not found")]
    NotFound,
    /// What was asked cannot be: HTTP 400.
    #[error("{0}")]
    Invalid(String),
    /// It could not be built: HTTP 500.
    #[error("{0}")]
    Failed(String),
}
