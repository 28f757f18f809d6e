//! What goes into a resolution and what comes out: the subject, and its policy.

use std::{collections::BTreeMap, sync::Arc};

use super::ClauseOrigin;
use crate::model::{Labels, NamedPorts, PolicyRows};

/// The endpoint that a policy is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its identity's labels.
    pub labels: Arc<Labels>,
    /// Names of its ports.
    pub named_ports: NamedPorts,
}

/// An endpoint's whole policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Rows of its policy map.
    pub rows: Arc<PolicyRows>,
    /// Whether rules decide what comes to it: what none allows is dropped, or rules have an order.
    pub ingress_enforced: bool,
    /// Whether rules decide what it sends.
    pub egress_enforced: bool,
    /// The clauses that each cookie names.
    pub origins: BTreeMap<u32, Vec<ClauseOrigin>>,
    /// Revision of the repository.
    pub revision: u64,
}
