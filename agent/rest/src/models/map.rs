//! Shape of BPF maps and their rows; all rows are texts.

use serde::{Deserialize, Serialize};

/// Answer to `GET /map`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BpfMapList {
    /// The maps.
    pub maps: Vec<BpfMap>,
}

/// A map of the datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BpfMap {
    /// Its rows; absent in a list of maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Vec<BpfMapEntry>>,
    /// Where it is pinned.
    pub path: String,
}

/// A row of a map, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BpfMapEntry {
    /// What the agent wants of it: always `sync`, as rows are read from the kernel.
    pub desired_action: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

impl BpfMapEntry {
    /// A row that is as it should be.
    pub fn new(key: impl ToString, value: impl ToString) -> Self {
        Self { desired_action: "sync".to_owned(), key: key.to_string(), value: value.to_string() }
    }
}
