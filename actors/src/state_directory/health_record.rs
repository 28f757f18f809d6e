//! Which addresses the node's health endpoint has, on disk: in the library directory, for they stay also where
//! its place is lost, as after a reboot.

use serde::{Deserialize, Serialize};

use super::Slots;
use crate::model::Addresses;

/// What a later life has to know of the health endpoint. The fields are in the order of their names: so they are
/// written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthRecord {
    /// Its addresses.
    pub addresses: Addresses,
    /// Name of the node that it is of: a library directory may be another node's.
    pub node: String,
}

impl HealthRecord {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("lib/health");
}
