//! The states of an endpoint, their names, and which may follow which.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an endpoint stands in its life. Names are Cilium's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointState {
    /// Just made; its identity is being looked up.
    WaitingForIdentity,
    /// Found on disk or in the kernel; not verified yet.
    Restoring,
    /// A build is desired and waits for a permit.
    WaitingToRegenerate,
    /// A build runs.
    Regenerating,
    /// The datapath does what is desired.
    Ready,
    /// It is being taken down.
    Disconnecting,
    /// It is gone.
    Disconnected,
    /// It could never be made.
    Invalid,
}

impl EndpointState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::WaitingForIdentity,
        Self::Restoring,
        Self::WaitingToRegenerate,
        Self::Regenerating,
        Self::Ready,
        Self::Disconnecting,
        Self::Disconnected,
        Self::Invalid,
    ];

    /// Whether it is on its way to be ready.
    pub(crate) fn leads_to_ready(self) -> bool {
        use EndpointState::{Regenerating, Restoring, WaitingForIdentity, WaitingToRegenerate};
        matches!(self, WaitingForIdentity | Restoring | WaitingToRegenerate | Regenerating)
    }

    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitingForIdentity => "waiting-for-identity",
            Self::Restoring => "restoring",
            Self::WaitingToRegenerate => "waiting-to-regenerate",
            Self::Regenerating => "regenerating",
            Self::Ready => "ready",
            Self::Disconnecting => "disconnecting",
            Self::Disconnected => "disconnected",
            Self::Invalid => "invalid",
        }
    }

    /// Whether an endpoint may go from here to `next`, whoever moves it.
    ///
    /// A build moves it to `Regenerating` and from there to `Ready`; all else moves by the rest.
    pub fn may_become(self, next: Self) -> bool {
        use EndpointState::*;
        match self {
            WaitingForIdentity => matches!(next, Ready | Disconnecting | Invalid),
            Ready => {
                matches!(next, WaitingForIdentity | WaitingToRegenerate | Disconnecting | Restoring)
            }
            WaitingToRegenerate => matches!(next, Regenerating | Disconnecting | Restoring),
            Regenerating => matches!(
                next,
                Ready | WaitingForIdentity | WaitingToRegenerate | Disconnecting | Restoring
            ),
            Restoring => matches!(next, Restoring | Regenerating | Disconnecting),
            Disconnecting => matches!(next, Disconnected),
            Disconnected | Invalid => false,
        }
    }
}

impl fmt::Display for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::EndpointState::{self, *};

    #[test]
    fn only_the_allowed_moves_are() {
        let allowed: Vec<(EndpointState, EndpointState)> = EndpointState::ALL
            .into_iter()
            .flat_map(|from| EndpointState::ALL.map(|to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
            .collect();
        assert_eq!(
            allowed,
            [
                (WaitingForIdentity, Ready),
                (WaitingForIdentity, Disconnecting),
                (WaitingForIdentity, Invalid),
                (Restoring, Restoring),
                (Restoring, Regenerating),
                (Restoring, Disconnecting),
                (WaitingToRegenerate, Restoring),
                (WaitingToRegenerate, Regenerating),
                (WaitingToRegenerate, Disconnecting),
                (Regenerating, WaitingForIdentity),
                (Regenerating, Restoring),
                (Regenerating, WaitingToRegenerate),
                (Regenerating, Ready),
                (Regenerating, Disconnecting),
                (Ready, WaitingForIdentity),
                (Ready, Restoring),
                (Ready, WaitingToRegenerate),
                (Ready, Disconnecting),
                (Disconnecting, Disconnected),
            ]
        );
    }
}
