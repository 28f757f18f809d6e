//! Tiers of policies, and the order in which the rules of a tier are asked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A group of policies, in the order in which they are asked. The first that decides has decided.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum PolicyTier {
    /// The administrator's, which nobody overrides.
    Admin,
    /// Those without an order: NetworkPolicy and Cilium's. Within it a denial wins.
    #[default]
    Network,
    /// The administrator's, for packets of which nobody else says anything.
    Baseline,
}

impl fmt::Display for PolicyTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// When the rules of a policy are asked: by tier, then by priority, the lower number first. Of equals
/// the policy whose name sorts first, so that every node decides alike.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PolicyRank {
    /// The tier.
    pub tier: PolicyTier,
    /// 0 to 1000; 0 in the tier without an order.
    pub priority: u16,
}

/// What a clause says of the packets that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClauseAction {
    /// They pass.
    Allow,
    /// They are dropped.
    Deny,
    /// The rest of its tier says nothing of them.
    Pass,
}

/// A rule of a tier that has an order, as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RankedRule {
    /// When it is asked.
    pub rank: PolicyRank,
    /// What it says.
    pub action: ClauseAction,
    /// Its name, if it has one.
    pub name: Option<String>,
}

impl fmt::Display for RankedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyRank { tier, priority } = self.rank;
        let action = match self.action {
            ClauseAction::Allow => "Accept",
            ClauseAction::Deny => "Deny",
            ClauseAction::Pass => "Pass",
        };
        if let Some(name) = &self.name {
            write!(f, "{name:?}, ")?;
        }
        write!(f, "{action}, tier {tier}, priority {priority}")
    }
}
