//! Errors of the plugin, with the codes of the CNI specification and those of our own.

use std::fmt;

use serde_json::{Value, json};
use volvox_rest::{RestError, delete_queue::DeleteQueueError};
use volvox_system::{netlink::NetlinkError, netns::NetnsError, sysctl::SysctlError};

use super::CniVersion;

/// Why a CNI call failed (CNI specification, "Error"; from 100 on our own).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The configuration's version is not supported, or lacks the command.
    IncompatibleVersion = 1,
    /// The configuration has a key that is not supported.
    UnsupportedField = 2,
    /// The container is not known; nothing is to be cleaned up.
    UnknownContainer = 3,
    /// A parameter in the environment is missing or wrong.
    InvalidEnvironment = 4,
    /// Input or output failed.
    Io = 5,
    /// The configuration is not JSON, or a key has another type than desired.
    Decode = 6,
    /// The configuration cannot be carried out.
    InvalidConfig = 7,
    /// A passing fault: the same call later may succeed.
    TryLater = 11,
    /// The plugin cannot serve new pods now.
    NotAvailable = 50,
    /// The same, and pods that run may have lost connections.
    LimitedConnectivity = 51,
    /// The agent failed.
    Agent = 100,
    /// Interface, address or route could not be made.
    Interface = 101,
    /// The interface is not as it was made.
    Mismatch = 102,
    /// The agent will never do what it was asked.
    Rejected = 103,
}

/// An error as the runtime gets it, on standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniError {
    /// Its kind.
    pub code: ErrorCode,
    /// What failed, in one line.
    pub msg: String,
    /// Cause and remedy.
    pub details: String,
    /// Whether the agent went away while it was at it.
    pub(super) agent_lost: bool,
}

impl CniError {
    /// An error of some kind.
    pub fn new(code: ErrorCode, msg: impl Into<String>, details: impl ToString) -> Self {
        Self { code, msg: msg.into(), details: details.to_string(), agent_lost: false }
    }

    /// As JSON, told in the configuration's version.
    pub fn to_json(&self, version: CniVersion) -> Value {
        json!({
            "cniVersion": version.as_str(),
            "code": self.code as u32,
            "msg": self.msg,
            "details": self.details,
        })
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.msg, self.details)
    }
}

impl std::error::Error for CniError {}

impl From<RestError> for CniError {
    fn from(error: RestError) -> Self {
        let code = match &error {
            RestError::Unreachable { .. }
            | RestError::TimedOut { .. }
            | RestError::Broken { .. }
            | RestError::Refused { status: 429 | 503, .. } => ErrorCode::TryLater,
            RestError::Refused { status: 400..500, .. } => ErrorCode::Rejected,
            RestError::Refused { .. } | RestError::Garbled { .. } => ErrorCode::Agent,
        };
        let agent_lost = matches!(error, RestError::Broken { .. });
        Self { agent_lost, ..Self::new(code, "the agent did not do it", error) }
    }
}

impl From<NetlinkError> for CniError {
    fn from(error: NetlinkError) -> Self {
        Self::new(ErrorCode::Interface, "the interface could not be made", error)
    }
}

impl From<SysctlError> for CniError {
    fn from(error: SysctlError) -> Self {
        Self::new(ErrorCode::Interface, "the interface could not be prepared", error)
    }
}

impl From<NetnsError> for CniError {
    fn from(error: NetnsError) -> Self {
        Self::new(ErrorCode::Interface, "the container's network namespace cannot be used", error)
    }
}

impl From<DeleteQueueError> for CniError {
    fn from(error: DeleteQueueError) -> Self {
        Self::new(
            ErrorCode::TryLater,
            "the agent is away and its delete queue cannot be used",
            error,
        )
    }
}
