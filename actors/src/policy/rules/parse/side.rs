//! One of the four lists of clauses of a Cilium policy.

use crate::{model::Direction, policy::rules::Effect};

/// One of the four lists of clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// The way the packet goes.
    pub(super) direction: Direction,
    /// Whether its clauses deny.
    pub(super) deny: bool,
}

impl Side {
    pub(super) const ALL: [Self; 4] = [
        Self { direction: Direction::Ingress, deny: false },
        Self { direction: Direction::Ingress, deny: true },
        Self { direction: Direction::Egress, deny: false },
        Self { direction: Direction::Egress, deny: true },
    ];

    pub(super) fn field(self) -> &'static str {
        match (self.direction, self.deny) {
            (Direction::Ingress, false) => "ingress",
            (Direction::Ingress, true) => "ingressDeny",
            (Direction::Egress, false) => "egress",
            (Direction::Egress, true) => "egressDeny",
        }
    }

    /// What a peer that is not supported comes to.
    pub(super) fn effect(self) -> Effect {
        if self.deny { Effect::DeniesEveryPeer } else { Effect::AllowsNothing }
    }
}
