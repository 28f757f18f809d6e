//! Rows of the kernel that are not as the agent wrote them.

use super::{Scenario, steps};
use crate::history::action::Action;

/// Somebody else changes rows under a living agent.
pub(super) const CHANGED: Scenario = Scenario {
    name: "c_44855_rows_that_somebody_else_changed",
    make: |random| {
        let mut actions: Vec<_> = (0..4).map(|_| Action::ForeignChange(random.number())).collect();
        actions.extend([steps(random, 60), Action::ForeignChange(random.number())]);
        actions
    },
};

/// Rows of nobody stay until it is proved that they are.
pub(super) const UNPROVED: Scenario = Scenario {
    name: "antrea_313_proof_and_not_time_prunes",
    make: |random| {
        vec![
            Action::Kill,
            Action::ForeignRows,
            Action::Boot { reported: false },
            Action::Time { ms: 40_000, seed: random.number() },
            Action::Deliver,
        ]
    },
};
