//! The number of an endpoint, and the policy map slots that belong to it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Highest number handed out to a new endpoint; a restored one may be larger.
pub const POOL_MAX: u16 = 4095;

/// An endpoint's number on this node, 1 to 65535; the default, 0, is no endpoint.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EndpointId(pub u16);

impl EndpointId {
    /// The slot of the policy outer map in which this endpoint's policy of that parity lives.
    ///
    /// Each endpoint owns two slots: a change is built in the one that is not in use, then the
    /// endpoint's configuration row names it.
    pub fn slot(self, parity: u32) -> u32 {
        u32::from(self.0) * 2 + (parity & 1)
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
