//! Shape of an identity, alone and with the number of endpoints that have it.

use serde::{Deserialize, Serialize};
use volvox_actors::{endpoints::endpoint::EndpointView, policy::identity as actor};

/// A security identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Identity {
    /// Its number.
    pub id: u32,
    /// Its labels, by key.
    pub labels: Vec<String>,
}

/// An identity and how many endpoints of this node have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityEndpoints {
    /// The identity.
    pub identity: Identity,
    /// How many endpoints have it.
    pub ref_count: u32,
}

impl Identity {
    /// The identity of an endpoint.
    pub fn of(view: &EndpointView) -> Self {
        Self { id: view.identity.0, labels: view.identity_labels.to_texts() }
    }
}

impl From<&actor::Identity> for Identity {
    fn from(identity: &actor::Identity) -> Self {
        Self { id: identity.id.0, labels: identity.labels.to_texts() }
    }
}
