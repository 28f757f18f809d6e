//! Policies of one tier and one priority. The definition leaves open which of them is asked first; here
//! it is the one whose name sorts first, on every node.

use std::collections::BTreeSet;

use super::{Policy, PolicyName, PolicyRank, PolicyTier, Repository};

impl Policy {
    /// Its rank, if its tier has an order.
    fn ordered(&self) -> Option<PolicyRank> {
        let ranks = self.rules.iter().map(|rule| rule.rank);
        ranks.into_iter().find(|rank| rank.tier != PolicyTier::Network)
    }
}

impl Repository {
    /// The other policies of its tier and priority, by name.
    pub(super) fn same_priority(&self, policy: &Policy) -> Vec<PolicyName> {
        let Some(rank) = policy.ordered() else { return Vec::new() };
        let others = self.policies().map(|(_, other)| other);
        let others = others.filter(|it| it.ordered() == Some(rank) && it.name != policy.name);
        others.map(|other| other.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// How people are told of them.
pub fn same_priority_remark(others: &[PolicyName]) -> Option<String> {
    let names: Vec<_> = others.iter().map(|it| it.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "of the same tier and priority as {}: of these the one whose name sorts first is asked \
             first; give each a priority of its own",
            names.join(", ")
        )
    })
}
