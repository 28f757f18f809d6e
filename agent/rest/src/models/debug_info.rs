//! Shape of a bug report's data; its parts have shapes of their own.

use serde::{Deserialize, Serialize};

use super::{Endpoint, Policy, StatusAnswer};

/// Answer to `GET /debuginfo`: what a bug report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct DebugInfo {
    pub cilium_status: StatusAnswer,
    pub cilium_version: String,
    pub endpoint_list: Vec<Endpoint>,
    /// `NAME:VALUE` of each setting.
    pub environment_variables: Vec<String>,
    pub kernel_version: String,
    pub policy: Policy,
}
