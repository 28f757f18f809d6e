//! Numbers of cells, of envelopes and of outside events, counted for each life of a host.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a cell, counted from 1 for each life of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellId(pub u32);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cell {}", self.0)
    }
}

/// Number of an envelope, counted from 1 for each life of a host. 0 is none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EnvelopeId(pub u64);

/// Number of an outside event: a REST call, a file that changed, a timer, the start itself.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RootId(pub u64);
