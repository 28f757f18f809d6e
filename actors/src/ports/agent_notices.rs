//! Who listens to what the agent itself has to say.

use crate::model::drift::Drift;

/// Those who listen to what happens on the node.
pub trait AgentNotices {
    /// Rows were changed by somebody else, and are put right.
    fn drifted(&self, drift: &Drift);
}
