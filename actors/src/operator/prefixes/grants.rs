//! Prefixes that are given and may not be in the CiliumNodes yet, as the Lease says them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What one node is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The UID of its CiliumNode: another one of the name is another node.
    pub(super) uid: String,
    pub(super) cidrs: Vec<IpNet>,
}

/// All of them, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Grants(pub(super) BTreeMap<String, Grant>);

impl Grants {
    /// Reads what a Lease says.
    pub(super) fn read(text: Option<&str>) -> Result<Self, String> {
        let text = text.unwrap_or_default();
        match text.is_empty() {
            true => Ok(Self::default()),
            false => serde_json::from_str(text).map_err(|error| error.to_string()),
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
