//! Whether a node is taken over from another agent.

use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;

/// Whose programs may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum TakeOver {
    /// Nobody's: endpoints that run another agent's programs are not ready
    None,
    /// Those of Cilium 1.19, which were left when its agent was stopped
    Cilium,
}

/// Flags of a takeover.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TakeoverOptions {
    /// Whose node is taken over as it is, with its pods, maps and connections; where there is nothing to
    /// take it is a start like any other
    #[arg(long, value_enum, ignore_case = true, default_value = "none")]
    pub take_over: TakeOver,

    /// Whether a node is taken over, too, on which something is in force that this agent does not have:
    /// `volvox migrate check` names it
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub take_over_without_features: bool,
}
