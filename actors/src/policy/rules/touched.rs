//! Which endpoints a change concerns, and their new policies, each with the difference to the rows
//! before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Difference, EndpointPolicy, Subject};
use crate::model::{Labels, PolicyRows};

/// A policy that is another one now.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What it is now.
    pub policy: Arc<EndpointPolicy>,
    /// Its rows before.
    pub before: Arc<PolicyRows>,
    /// What leads from these to its rows now, if that is not too much. Policies with the same rows
    /// share it.
    pub difference: Option<Arc<Difference>>,
}

impl Changed {
    /// What leads from the rows that the kernel has to those that are desired.
    pub fn from(
        of: Option<&Self>,
        had: &Arc<PolicyRows>,
        desired: &Arc<PolicyRows>,
    ) -> Option<Arc<Difference>> {
        let is_it = |changed: &&Self| {
            Arc::ptr_eq(&changed.before, had) && Arc::ptr_eq(&changed.policy.rows, desired)
        };
        match of.filter(is_it) {
            Some(changed) => changed.difference.clone(),
            None => Difference::of(had, desired).map(Arc::new),
        }
    }
}

/// Whom a change of the policy concerns, and what it came to for them.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Identity labels of those whom it concerns.
    pub labels: BTreeSet<Arc<Labels>>,
    /// What they are to enforce from that revision on. Who is concerned and not found here asks.
    pub policies: Arc<BTreeMap<Subject, Changed>>,
}

/// Rows before and after, by where they are.
type RowsBeforeAfter = (*const PolicyRows, *const PolicyRows);

/// Gathers policies that are other ones now.
#[derive(Default)]
pub(super) struct ChangedPolicies {
    policies: BTreeMap<Subject, Changed>,
    differences: BTreeMap<RowsBeforeAfter, Option<Arc<Difference>>>,
}

impl ChangedPolicies {
    pub(super) fn add(
        &mut self,
        subject: &Subject,
        before: &Arc<PolicyRows>,
        policy: &Arc<EndpointPolicy>,
    ) {
        let place = (Arc::as_ptr(before), Arc::as_ptr(&policy.rows));
        let find = || Difference::of(before, &policy.rows).map(Arc::new);
        let difference = self.differences.entry(place).or_insert_with(find).clone();
        let (policy, before) = (Arc::clone(policy), Arc::clone(before));
        self.policies.insert(subject.clone(), Changed { policy, before, difference });
    }

    pub(super) fn all(self) -> Touched {
        let subjects = self.policies.keys();
        let labels = subjects.map(|subject| Arc::clone(&subject.labels)).collect();
        Touched { labels, policies: Arc::new(self.policies) }
    }
}
