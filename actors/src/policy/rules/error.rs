//! Why a policy document is refused, and which parts of an accepted one have no effect.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A document that is refused: the thing, what is wrong with it, and what to do.
///
/// Displayed as one line: file, object, field, problem; remedy.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
pub struct PolicyError {
    /// File, or whatever else the document came from.
    pub file: String,
    /// `Kind namespace/name`, as far as it could be read.
    pub object: Option<String>,
    /// Path of the field, `spec.ingress[0].toPorts[1].ports[0].port`; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.file, self.object.as_deref(), &self.path)?;
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// A part of an accepted document that is not supported yet, or is switched off. What is not
/// supported fails closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unsupported {
    /// File, or whatever else the document came from.
    pub file: String,
    /// `Kind namespace/name`.
    pub object: String,
    /// Path of the field.
    pub path: String,
    /// What the agent does instead.
    pub effect: Effect,
}

/// What a part that is not supported does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// A part of an allow rule: nothing is allowed by it.
    AllowsNothing,
    /// A peer of a deny rule: every peer is denied by it.
    DeniesEveryPeer,
    /// A part of a rule that accepts: the rule is about no packet.
    RuleAcceptsNothing,
    /// A part of a rule that denies or passes on: the rule denies everything in its direction.
    RuleDeniesEverything,
    /// A policy for nodes while these are not held to policy.
    SelectsNothing,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllowsNothing => "nothing is allowed by it",
            Self::DeniesEveryPeer => "every peer is denied by it",
            Self::RuleAcceptsNothing => "the whole rule accepts nothing",
            Self::RuleDeniesEverything => "the whole rule denies everything in its direction",
            Self::SelectsNothing => "it selects nothing",
        })
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.file, Some(&self.object), &self.path)?;
        match self.effect {
            Effect::SelectsNothing => f.write_str(
                "not enforced: nodes are held to policy only by agents with --enable-host-firewall",
            ),
            effect => write!(f, "not supported yet: {effect}"),
        }
    }
}

fn write_place(
    f: &mut fmt::Formatter<'_>,
    source: &str,
    object: Option<&str>,
    path: &str,
) -> fmt::Result {
    let places = [Some(source), object, Some(path)];
    for place in places.into_iter().flatten().filter(|place| !place.is_empty()) {
        write!(f, "{place}: ")?;
    }
    Ok(())
}

pub(super) fn twice(source: &str, object: String) -> PolicyError {
    PolicyError {
        file: source.to_owned(),
        object: Some(object),
        path: "metadata.name".to_owned(),
        problem: "the file holds this object twice".to_owned(),
        remedy: "remove one, or give it another name; the first one is in force".to_owned(),
    }
}
