//! A change of the policy that comes with what it came to, so that nobody need ask.

use std::sync::Arc;

use super::{Endpoint, trigger::Trigger};
use crate::policy::rules::Changed;

impl Endpoint {
    /// The policy that came with what triggered a build. None if it may be older than one that was
    /// heard of before, or if this life of the actor heard of none: a build before may have been
    /// one of a newer policy.
    pub(super) fn brought_policy(&self, trigger: &Trigger) -> Option<Changed> {
        let brought = trigger.brought.as_ref()?;
        let changed = brought.policies.get(&self.subject())?;
        (self.policy.heard > 0 && changed.policy.revision >= self.policy.heard)
            .then(|| changed.clone())
    }

    /// Whether others see already that this build is to be: its supervisor says so of an endpoint
    /// that looks as this one does.
    pub(super) fn is_shown_waiting(&self, trigger: &Trigger) -> bool {
        let (Some(brought), Some(shown)) = (&trigger.brought, &self.journal.shown) else {
            return false;
        };
        Arc::ptr_eq(&brought.seen, shown)
            && Arc::ptr_eq(&shown.identity_labels, &self.record.identity_labels)
            && Arc::ptr_eq(&shown.spec, &self.record.spec)
            && shown.identity == self.record.identity
    }
}
