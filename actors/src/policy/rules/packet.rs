//! What is asked of a packet at an endpoint, and what is answered.

use std::{fmt, net::IpAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{ClauseOrigin, PolicyName, Subject, Verdict, lookup};
use crate::model::{Direction, IdentityId, PolicyRows};

/// A packet at one endpoint.
#[derive(Clone, Debug)]
pub struct PacketQuestion {
    /// The endpoint.
    pub subject: Subject,
    /// The rows of its policy map.
    pub rows: Arc<PolicyRows>,
    /// The way of the packet.
    pub direction: Direction,
    /// Who is at the other end.
    pub peer: IdentityId,
    /// Where that is.
    pub address: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Port that it goes to; of ICMP its type.
    pub port: u16,
}

impl PacketQuestion {
    pub(super) fn asks(&self, rows: &PolicyRows) -> Verdict {
        lookup(rows, self.direction, self.peer, self.protocol, self.port)
    }
}

/// What becomes of a packet at one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketFate {
    /// It passes.
    Allowed,
    /// A rule denies it.
    Denied,
    /// Policy is enforced, and no rule allows it.
    NoRule,
    /// There are no rows to decide by.
    #[default]
    NotProgrammed,
}

/// A policy that selects an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectingPolicy {
    /// Which.
    pub policy: PolicyName,
    /// Where it is from.
    pub source: String,
    /// Whether what no rule allows is dropped because of it.
    pub enforces: bool,
    /// Whether it says anything of this direction.
    pub speaks: bool,
}

/// The rule that is nearest to allowing a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestRule {
    /// Where it is written.
    pub rule: ClauseOrigin,
    /// What of it is not about the packet.
    pub fails: Vec<Misfit>,
}

/// Why that becomes of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PacketExplained {
    /// What becomes of it.
    pub fate: PacketFate,
    /// Whether rules decide in this direction.
    pub enforced: bool,
    /// Policies that select the endpoint.
    pub selected_by: Vec<SelectingPolicy>,
    /// The rules behind the row that decided; none if the row is the agent's own.
    pub rules: Vec<ClauseOrigin>,
    /// The rule of the administrator's tier that passed it on to others.
    pub passed_on_by: Option<ClauseOrigin>,
    /// Where no rule allows it: the nearest.
    pub nearest: Option<NearestRule>,
    /// What else is to be known: rows that are about to be others, policies that are refused.
    pub remarks: Vec<String>,
}

/// A part of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RulePart {
    /// Whom its policy is for.
    Subject,
    /// The other end.
    Peer,
    /// Protocol and port.
    Port,
    /// Something that is not supported, by which it allows nothing.
    Unsupported,
}

impl fmt::Display for RulePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subject => "subject",
            Self::Peer => "peer",
            Self::Port => "port",
            Self::Unsupported => "unsupported",
        })
    }
}

/// A part of a rule that is not about a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// Which part.
    pub part: RulePart,
    /// What the rule wants, and what there is.
    pub problem: String,
    /// How much would have to be another, to find the nearest rule.
    #[serde(skip)]
    pub(super) distance: u32,
}
