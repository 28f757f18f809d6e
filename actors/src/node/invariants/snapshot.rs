//! The data that invariants are checked on: a copy of the actors' and the kernel's state.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    endpoints::endpoint::{EndpointState, EndpointView},
    model::{Addresses, EndpointId, IdentityId, Labels, PolicyRows},
    ports::KernelSnapshot,
};

/// A node at one moment: what the actors believe, and what the kernel has.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The endpoints.
    pub endpoints: Vec<EndpointFacts>,
    /// Endpoints that changed while one looked: of them it is only known that they are.
    pub changed: BTreeSet<EndpointId>,
    /// Addresses that are handed out, and to whom.
    pub leases: Vec<(IpAddr, String)>,
    /// Identities in use.
    pub identities: Vec<(IdentityId, Arc<Labels>)>,
    /// What the kernel has.
    pub kernel: Arc<KernelSnapshot>,
    /// Rows of the policy maps, by slot; `None` if it is empty. Slots that were not read are not
    /// among them.
    pub policies: BTreeMap<u32, Option<PolicyRows>>,
    /// Endpoints whose programs were attached at the last moment that was looked at.
    pub attached_before: Vec<EndpointId>,
}

/// An endpoint as its actor shows it.
#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// Its number.
    pub id: EndpointId,
    /// Where it stands.
    pub state: EndpointState,
    /// Whether its last build failed: the datapath is then that of an earlier one.
    pub failing: bool,
    /// Key of its configuration row: its host-side interface, if it has one of its own.
    pub ifindex: u32,
    /// Whether programs run for it at an interface of its own.
    pub programs: bool,
    /// Its addresses.
    pub addresses: Addresses,
    /// Its identity.
    pub identity: IdentityId,
    /// Rows that its policy map is to have.
    pub policy: Arc<PolicyRows>,
}

impl EndpointFacts {
    /// What an endpoint shows, and what it is to enforce.
    pub fn new(view: &EndpointView, policy: Arc<PolicyRows>) -> Self {
        Self {
            id: view.id,
            state: view.state,
            failing: view.failing || view.lost.is_some(),
            ifindex: view.spec.config_ifindex(),
            programs: view.spec.interface_of_its_own().is_some(),
            addresses: view.spec.addresses,
            identity: view.identity,
            policy,
        }
    }

    /// Whether it still has, or is about to have, what it was made with.
    pub(super) fn lives(&self) -> bool {
        !matches!(
            self.state,
            EndpointState::Disconnecting | EndpointState::Disconnected | EndpointState::Invalid
        )
    }
}

impl Snapshot {
    pub(super) fn living(&self) -> impl Iterator<Item = &EndpointFacts> {
        self.endpoints.iter().filter(|endpoint| endpoint.lives())
    }

    /// Endpoints for which the datapath does what is desired.
    pub(super) fn ready(&self) -> impl Iterator<Item = &EndpointFacts> {
        self.endpoints
            .iter()
            .filter(|endpoint| endpoint.state == EndpointState::Ready && !endpoint.failing)
    }
}
