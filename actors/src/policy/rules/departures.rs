//! Where a policy is taken as Kubernetes' text has it, and Cilium 1.19 takes it otherwise: people
//! who come from there are told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Policy, PolicyKind, Rule};
use crate::model::Direction;

/// A part of a policy that Cilium 1.19 takes otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Departure {
    /// Path of the field or of the clause.
    pub path: String,
    /// What it means here.
    pub meaning: DepartureMeaning,
}

/// What such a part means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DepartureMeaning {
    /// Whom one sends to has the port of that name.
    PortOfReceiver,
    /// A direction is enforced without a rule that allows anything.
    Isolates,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.meaning {
            DepartureMeaning::PortOfReceiver => {
                "the name means the port that the pod that is sent to calls so, and nothing \
                 outside of the cluster, as Kubernetes has it; Cilium 1.19 may take it for ports \
                 of other pods, and outside as well"
            }
            DepartureMeaning::Isolates => {
                "without a rule nothing is allowed in that direction; Cilium 1.19 leaves it open"
            }
        };
        write!(f, "{}: {what}", self.path)
    }
}

impl Policy {
    /// What of it Cilium 1.19 takes otherwise.
    pub fn departures(&self) -> Vec<Departure> {
        if self.name.kind == PolicyKind::ClusterNetworkPolicy {
            return Vec::new();
        }
        let cilium = self.name.kind != PolicyKind::NetworkPolicy;
        let isolated = self.rules.iter().filter(|_| cilium).flat_map(isolated);
        let clauses = self.rules.iter().flat_map(|rule| &rule.clauses);
        let named = clauses
            .filter(|it| it.direction == Direction::Egress && it.port_names().next().is_some());
        let named = named.map(|it| (it.origin.path.clone(), DepartureMeaning::PortOfReceiver));
        let all = isolated.chain(named);
        all.map(|(path, meaning)| Departure { path, meaning }).collect()
    }
}

/// Directions that a rule enforces without saying anything of them.
fn isolated(rule: &Rule) -> impl Iterator<Item = (String, DepartureMeaning)> {
    let sides = [
        (Direction::Ingress, rule.default_deny_ingress, "ingress"),
        (Direction::Egress, rule.default_deny_egress, "egress"),
    ];
    let silent = sides.into_iter().filter(|(direction, enforced, _)| {
        *enforced && !rule.clauses.iter().any(|clause| clause.direction == *direction)
    });
    silent.map(|(.., name)| (format!("spec.enableDefaultDeny.{name}"), DepartureMeaning::Isolates))
}
