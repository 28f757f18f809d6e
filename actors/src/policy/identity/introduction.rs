//! What policies are to know before addresses of other nodes are in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::model::{IdentityId, Labels, NamedPorts};

/// What policies are to know before addresses are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// New identities.
    pub identities: BTreeMap<IdentityId, Arc<Labels>>,
    /// All names of ports of these identities, new or not; empty if there are none any more.
    pub named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
}

impl Introduction {
    /// Those of them that are kept: names of an identity that is not are not known either.
    pub(crate) fn only(&mut self, retained: &BTreeSet<IdentityId>) {
        let new = &self.identities;
        self.named_ports.retain(|id, _| !new.contains_key(id) || retained.contains(id));
        self.identities.retain(|id, _| retained.contains(id));
    }
}
