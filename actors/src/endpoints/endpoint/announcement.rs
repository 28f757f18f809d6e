//! The part of an endpoint's view that goes to the owner of the cluster's addresses.

use std::sync::Arc;

use super::{EndpointSpec, EndpointState};
use crate::model::{EndpointId, IdentityId};

/// What other nodes are told of an endpoint: whose its addresses are.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// Its number.
    pub id: EndpointId,
    /// Where it stands.
    pub state: EndpointState,
    /// Its identity.
    pub identity: IdentityId,
    /// What it was made of.
    pub spec: Arc<EndpointSpec>,
}

impl Announcement {
    /// Whether it says the same of the same endpoint.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let is_same = self.state == other.state && self.identity == other.identity;
        is_same && Arc::ptr_eq(&self.spec, &other.spec)
    }
}
