use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{NamedPorts, Origin};
use crate::model::{Labels, PolicyRows};

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
    /// Whether what no rule allows to it is dropped.
    pub ingress_enforced: bool,
    /// Whether what no rule allows from it is dropped.
    pub egress_enforced: bool,
    /// The clauses that each cookie names.
    pub origins: BTreeMap<u32, Vec<Origin>>,
    /// Port names that nobody concerned has; these clauses are about nothing there.
    pub unresolved: BTreeSet<UnresolvedPort>,
    /// Revision of the repository.
    pub revision: u64,
}

/// A port's name that nobody concerned has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnresolvedPort {
    /// The name.
    pub name: String,
    /// The clause.
    pub origin: Arc<Origin>,
}
