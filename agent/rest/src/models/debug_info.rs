//! Shape of a bug report's data; its parts have shapes of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Endpoint, Policy, Service, StatusAnswer};

/// Answer to `GET /debuginfo`: what a bug report needs. A part that cannot be had is empty, and
/// `subsystem` says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct DebugInfo {
    /// The agent's mappings, as the kernel lists them.
    pub cilium_memory_map: String,
    pub cilium_status: StatusAnswer,
    pub cilium_version: String,
    /// How packets between nodes are encrypted: no member if they are not.
    pub encryption: BTreeMap<String, Value>,
    pub endpoint_list: Vec<Endpoint>,
    /// `NAME:VALUE` of each setting.
    pub environment_variables: Vec<String>,
    pub kernel_version: String,
    pub policy: Policy,
    pub service_list: Vec<Service>,
    /// What else there is to say, each part a text.
    pub subsystem: BTreeMap<String, String>,
}
