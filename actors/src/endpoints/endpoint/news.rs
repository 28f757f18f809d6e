//! News of an endpoint, for its supervisor.

use std::sync::Arc;

use super::EndpointView;
use crate::model::EndpointId;

/// What an endpoint says to its supervisor.
pub enum EndpointNews {
    /// This is how it looks now.
    Changed(Arc<EndpointView>),
    /// It is gone.
    Gone(EndpointId),
    /// Its interface is to be looked at.
    LookAgain(EndpointId),
}

impl EndpointNews {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Changed(_) => "Changed",
            Self::Gone(_) => "Gone",
            Self::LookAgain(_) => "Verify",
        }
    }
}
