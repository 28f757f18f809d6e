use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{EndpointPolicy, Subject};
use crate::model::Labels;

/// Whom a change of the policy concerns, and what it came to for them.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Identity labels of those whom it concerns.
    pub labels: BTreeSet<Arc<Labels>>,
    /// What they are to enforce from that revision on. Who is concerned and not found here asks.
    pub policies: Arc<BTreeMap<Subject, Arc<EndpointPolicy>>>,
}

impl Touched {
    /// Those whose policies are these now.
    pub(super) fn by(policies: BTreeMap<Subject, Arc<EndpointPolicy>>) -> Self {
        let labels = policies.keys().map(|subject| Arc::clone(&subject.labels)).collect();
        Self { labels, policies: Arc::new(policies) }
    }
}
