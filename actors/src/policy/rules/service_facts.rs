//! What objects say of services.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{Selector, peer::ServiceName};
use crate::model::Labels;

/// Which object speaks of a service: its kind, its namespace and its own name.
pub(super) type ServiceObjectKey = (&'static str, String, String);

/// What an object says of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceReport {
    /// The service.
    pub(super) service: ServiceName,
    /// What is said of it.
    pub(super) said: ServiceFact,
}

/// What can be said of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServiceFact {
    /// By a Service: its labels, and the pods that it selects if it selects any.
    Itself {
        /// Its labels.
        labels: Labels,
        /// Its pods.
        pods: Option<Selector>,
    },
    /// By an EndpointSlice or Endpoints: addresses behind it.
    Addresses(BTreeSet<IpNet>),
}
