//! Messages to the owner of the Lease.

use serde::Serialize;

use crate::host::{Lane, Message, Reply};

/// What the owner of the Lease can be told.
pub(in crate::operator) enum LeadershipMsg {
    /// Asks the server whether this operator leads, by renewing the Lease; where a text is given, the
    /// Lease says from then on that prefixes are given so.
    Confirm {
        /// The text.
        prefixes: Option<String>,
        /// Whether it leads, and the Lease says so.
        reply: Reply<bool>,
    },
    /// Gives the Lease back, so that another one need not wait for its end. Answered when that is done,
    /// or at once if this operator does not lead.
    Release(Reply<()>),
    /// Shows who leads.
    Show(Reply<LeadershipView>),
}

/// What is known of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeadershipView {
    /// Whether this operator leads.
    pub leads: bool,
    /// Who had the Lease when it was looked at last.
    pub holder: String,
    /// Why the server did not answer the last time.
    pub error: Option<String>,
}

impl Message for LeadershipMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Confirm { .. } => "Confirm",
            Self::Release(_) => "Release",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Confirm { .. } => Lane::Control,
            Self::Release(_) | Self::Show(_) => Lane::Request,
        }
    }
}
