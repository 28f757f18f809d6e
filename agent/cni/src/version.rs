//! Versions of the CNI specification that the plugin speaks, and the commands that each has.

use super::{CniError, Command, ErrorCode};

/// A version of the CNI specification, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CniVersion {
    /// 0.3.0: several interfaces and addresses in a result.
    V0_3_0,
    /// 0.3.1: the same, corrected.
    V0_3_1,
    /// 0.4.0: CHECK, and DEL with the previous result.
    V0_4_0,
    /// 1.0.0: addresses without a version.
    V1_0_0,
    /// 1.1.0: STATUS and GC, MTU and route attributes in a result.
    V1_1_0,
}

impl CniVersion {
    /// All that are supported.
    pub const ALL: [Self; 5] =
        [Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    /// The newest.
    pub const LATEST: Self = Self::V1_1_0;

    /// As it is written in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Reads a configuration's `cniVersion`; one without is of version 0.1.0.
    pub fn parse(text: Option<&str>) -> Result<Self, CniError> {
        let text = text.unwrap_or("0.1.0");
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let supported = Self::ALL.map(Self::as_str).join(", ");
            CniError::new(
                ErrorCode::IncompatibleVersion,
                "incompatible CNI version",
                format!("the configuration's cniVersion is {text:?}; supported are {supported}"),
            )
        })
    }

    /// Refuses a command that this version does not have.
    pub fn require(self, command: Command) -> Result<(), CniError> {
        let since = match command {
            Command::Add | Command::Del | Command::Version => Self::V0_3_0,
            Command::Check => Self::V0_4_0,
            Command::Status | Command::Gc => Self::V1_1_0,
        };
        if self >= since {
            return Ok(());
        }
        Err(CniError::new(
            ErrorCode::IncompatibleVersion,
            format!("{} needs a newer cniVersion", command.as_str()),
            format!("it came with {}, the configuration has {}", since.as_str(), self.as_str()),
        ))
    }
}
