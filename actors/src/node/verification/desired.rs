//! What an agent wants its node to be like, in a form that can be sent to who verifies it.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    endpoints::{
        endpoint::{EndpointState, EndpointView, OwnRows},
        ipam::AddressLease,
    },
    model::{BackendId, EndpointId, PolicyRows, ServiceId},
    ports::{ConfigRow, LxcRow},
    services::service_cache::ServiceView,
};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DesiredNode {
    /// Whether the restart is over: before, more may be there than is wanted.
    pub restored: bool,
    /// The endpoints.
    pub endpoints: Vec<DesiredEndpoint>,
    /// Addresses that are handed out for good, and to whom.
    pub leases: BTreeMap<IpAddr, String>,
    /// Addresses that somebody may still claim.
    pub claimable: BTreeMap<IpAddr, String>,
    /// Services that the kernel is to have by now.
    pub services: Vec<ExpectedFrontend>,
    /// Whether every source of services has said what it knows.
    pub services_known: bool,
    /// What the agent's own auditor found at its last look, by the invariant's name.
    pub broken: BTreeMap<String, Vec<String>>,
    /// What keeps the flight recorder from its file, if anything does.
    pub recorder: Vec<String>,
}

/// An endpoint as it is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DesiredEndpoint {
    /// Its number.
    pub id: EndpointId,
    /// Its pod, as `namespace/name`.
    #[serde(default)]
    pub pod: Option<String>,
    /// Its state, as the API names it.
    pub state: String,
    /// Whether the agent says that it is served: then all of this is to be in the kernel.
    pub served: bool,
    /// Whether it goes: then nothing is said of what it has.
    pub leaving: bool,
    /// Why it is not served, if that is known.
    #[serde(default)]
    pub error: Option<String>,
    /// Its host-side interface, if it has one of its own.
    #[serde(default)]
    pub interface: Option<(u32, String)>,
    /// Whether its addresses are routed to that interface by this agent.
    pub routed: bool,
    /// Its configuration. Slot and generation are each build's.
    pub config: ConfigRow,
    /// Its addresses, as local ones.
    pub lxc: BTreeMap<IpAddr, LxcRow>,
    /// Rows of its policy.
    pub policy: PolicyDigest,
}

/// Rows of a policy, told from others without being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDigest {
    /// How many there are.
    pub rows: usize,
    /// A checksum of them.
    pub checksum: u32,
}

/// A service's frontend as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedFrontend {
    /// Its number.
    pub id: ServiceId,
    /// Where it is reached, as `ADDRESS:PORT/PROTOCOL`, with `/i` for packets from inside.
    pub frontend: String,
    /// Its backends in the order of their slots, and where each is.
    pub backends: Vec<(BackendId, Option<String>)>,
}

impl PolicyDigest {
    /// Of these rows.
    pub fn of(rows: &PolicyRows) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        for (key, entry) in rows {
            let fields = [
                key.direction as u32,
                key.identity.0,
                u32::from(key.protocol) << 16 | u32::from(key.port),
                u32::from(key.bits),
                u32::from(entry.deny),
                entry.precedence,
                entry.cookie,
            ];
            fields.iter().for_each(|field| hasher.update(&field.to_le_bytes()));
        }
        Self { rows: rows.len(), checksum: hasher.finalize() }
    }
}

impl DesiredEndpoint {
    /// By what an endpoint shows of itself.
    pub fn of(view: &EndpointView) -> Self {
        let OwnRows { config, lxc } = view.own_rows();
        let interface = view.spec.interface_of_its_own();
        Self {
            id: view.id,
            pod: view.spec.pod(),
            state: view.api_state().to_owned(),
            served: view.serves(),
            leaving: matches!(
                view.state,
                EndpointState::Disconnecting | EndpointState::Disconnected
            ),
            error: view.last_error.as_ref().map(ToString::to_string),
            interface: interface.map(|it| (it, view.spec.ifname.clone())),
            routed: interface.is_some() && !view.spec.is_chained(),
            config,
            lxc,
            policy: PolicyDigest::of(&view.realised.policy),
        }
    }

    /// How it is named.
    pub(super) fn name(&self) -> String {
        let pod = self.pod.as_ref().map(|pod| format!(" ({pod})")).unwrap_or_default();
        format!("endpoint {}{pod}", self.id)
    }
}

impl DesiredNode {
    /// The addresses that are handed out.
    #[must_use]
    pub fn with_leases(mut self, leases: &BTreeMap<IpAddr, AddressLease>) -> Self {
        for (address, lease) in leases {
            let into = match lease.expires_in {
                None => &mut self.leases,
                Some(_) => &mut self.claimable,
            };
            into.insert(*address, lease.owner.clone());
        }
        self
    }

    /// The services; of those that the kernel is to have only later nothing is said.
    #[must_use]
    pub fn with_services(mut self, all: &[ServiceView], known: bool) -> Self {
        let realised = all.iter().filter(|view| view.realised);
        let desired = realised.map(|view| ExpectedFrontend {
            id: view.id,
            frontend: view.frontend.to_string(),
            backends: (view.backends.iter())
                .map(|(id, at, _)| (*id, at.map(|at| at.to_string())))
                .collect(),
        });
        self.services = desired.collect();
        self.services_known = known && all.iter().all(|view| view.realised);
        self
    }
}
