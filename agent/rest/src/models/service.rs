//! Shape of frontends, backends, and the state of all services.

use serde::{Deserialize, Serialize};
use volvox_actors::{
    model::{Frontend, L4Address, LookupScope, Transport},
    ports::{BackendState, service_flags},
    services::service_cache::{BackendView, ServiceSource, ServiceView, ServicesStatus},
};

/// A frontend of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// What it is to be.
    pub spec: ServiceSpec,
    /// What it is.
    pub status: ServiceStatus,
}

/// What the kernel has of a frontend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceStatus {
    /// The same as the specification; absent while that is being written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realized: Option<ServiceSpec>,
}

/// What a frontend is, and where its packets go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ServiceSpec {
    /// Its number.
    pub id: u16,
    /// Where it is reached.
    pub frontend_address: FrontendAddress,
    /// Who serves it, in the order of the kernel's slots.
    pub backend_addresses: Vec<BackendAddress>,
    /// What kind of frontend it is.
    pub flags: ServiceFlags,
}

/// Where a service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrontendAddress {
    /// The address.
    pub ip: String,
    /// `tcp`, `udp`, `sctp`, `any`.
    pub protocol: String,
    /// The port.
    pub port: u16,
    /// `external`, or `internal` if it is only for packets from inside the cluster.
    pub scope: String,
}

/// Where a backend is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendAddress {
    /// The address.
    pub ip: String,
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP`, `SCTP`, `ANY`.
    pub protocol: String,
    /// `active`, `terminating`, `quarantined`, `maintenance`.
    pub state: String,
}

/// What kind of frontend it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceFlags {
    /// `ClusterIP`, `NodePort`, `ExternalIPs`, `HostPort`, `LoadBalancer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of its service; absent if an earlier run left it and nobody named it yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of its service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The next one's older name.
    pub traffic_policy: String,
    /// Whose backends packets from outside the cluster go to: `Cluster`, or this node's: `Local`.
    pub ext_traffic_policy: String,
    /// The same of packets from inside.
    pub int_traffic_policy: String,
}

impl From<&ServiceView> for Service {
    fn from(view: &ServiceView) -> Self {
        let spec = ServiceSpec::from(view);
        let realized = view.realised.then(|| spec.clone());
        Self { spec, status: ServiceStatus { realized } }
    }
}

impl From<&ServiceView> for ServiceSpec {
    fn from(view: &ServiceView) -> Self {
        let ServiceView { id, frontend, flags, service, .. } = view;
        let placed = view.backends.iter().filter_map(|(_, at, state)| Some(((*at)?, *state)));
        let (namespace, name) =
            service.as_deref().and_then(|name| name.split_once('/')).unwrap_or_default();
        let policy = |local: u16| if flags & local == 0 { "Cluster" } else { "Local" }.to_owned();
        let outside = policy(service_flags::EXTERNAL_LOCAL);
        Self {
            id: id.0,
            frontend_address: FrontendAddress::from(*frontend),
            backend_addresses: placed.map(|(at, state)| BackendAddress::new(at, state)).collect(),
            flags: ServiceFlags {
                kind: frontend_kind(*flags).to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                traffic_policy: outside.clone(),
                ext_traffic_policy: outside,
                int_traffic_policy: policy(service_flags::INTERNAL_LOCAL),
            },
        }
    }
}

impl From<Frontend> for FrontendAddress {
    fn from(Frontend { at, scope }: Frontend) -> Self {
        Self {
            ip: at.address.to_string(),
            protocol: at.transport.to_string().to_lowercase(),
            port: at.port,
            scope: match scope {
                LookupScope::External => "external",
                LookupScope::Internal => "internal",
            }
            .to_owned(),
        }
    }
}

impl BackendAddress {
    /// A backend that is used like that.
    pub fn new(at: L4Address, state: BackendState) -> Self {
        Self {
            ip: at.address.to_string(),
            port: at.port,
            protocol: at.transport.to_string(),
            state: backend_state(state).to_owned(),
        }
    }

    /// Which place that is; an error names the member that is wrong.
    pub fn at(&self) -> Result<L4Address, String> {
        let Self { ip, port, protocol, .. } = self;
        let address = ip.parse().map_err(|_| format!("ip: {ip:?} is no address"))?;
        let transport = Transport::named(&protocol.to_uppercase());
        let transport = transport
            .ok_or_else(|| format!("protocol: {protocol:?} is none of TCP, UDP, SCTP, ANY"))?;
        Ok(L4Address { address, port: *port, transport })
    }
}

/// What a frontend of these flags is called.
pub fn frontend_kind(flags: u16) -> &'static str {
    let kinds = [
        (service_flags::EXTERNAL_IP, "ExternalIPs"),
        (service_flags::NODE_PORT, "NodePort"),
        (service_flags::LOAD_BALANCER, "LoadBalancer"),
        (service_flags::HOST_PORT, "HostPort"),
    ];
    kinds.into_iter().find(|(bit, _)| flags & bit != 0).map_or("ClusterIP", |(_, kind)| kind)
}

/// What a state is called.
pub fn backend_state(state: BackendState) -> &'static str {
    match state {
        BackendState::Active => "active",
        BackendState::Terminating => "terminating",
        BackendState::Quarantined => "quarantined",
        BackendState::Maintenance => "maintenance",
    }
}

/// A backend and its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backend {
    /// Its number.
    pub id: u32,
    /// Where it is.
    #[serde(flatten)]
    pub address: BackendAddress,
    /// Services that it left and that keep it for the TCP connections that it has, as `namespace/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

impl From<&BackendView> for Backend {
    fn from(view: &BackendView) -> Self {
        let address = BackendAddress::new(view.at, view.state);
        Self { id: view.id.0, address, left: view.left.iter().cloned().collect() }
    }
}

/// How services stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ServicesSummary {
    /// Frontends.
    pub frontends: usize,
    /// Backends.
    pub backends: usize,
    /// How many of them are kept from new connections.
    pub quarantined: usize,
    /// How many no service lists any more, and are kept for the connections that they have.
    pub leaving: usize,
    /// Objects to be read, and services to be given what they wish.
    pub unread: usize,
    /// Frontends and backends that the kernel has not as they are to be.
    pub open: usize,
    /// How many rows each map has room for; 0 if nobody knows.
    pub room: usize,
    /// The most rows that one of the maps has.
    pub rows: usize,
    /// Who has not said yet what it knows: nothing of an earlier run is removed before.
    pub awaited: Vec<ServiceSource>,
    /// What was not right in the maps at start; it is put right.
    pub found: Vec<String>,
    /// Rows in the maps at start that mean nothing: they stay.
    pub foreign: Vec<String>,
    /// Objects that are refused.
    pub refused: Vec<RefusedObject>,
    /// What services cannot have.
    pub problems: Vec<ServiceProblem>,
    /// Writes that failed in a row.
    pub failures: u32,
    /// Why the last one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// An object that is refused. What it said before stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedObject {
    /// Where it comes from: a file, `cluster`, or `cluster` and the name of another one.
    pub source: String,
    /// Its kind and name, as far as it could be read.
    pub object: String,
    /// Path of the field, or the end of the key.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a service cannot have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceProblem {
    /// The service, as `namespace/name`.
    pub service: String,
    /// What is wrong.
    pub problem: String,
}

impl From<ServicesStatus> for ServicesSummary {
    fn from(status: ServicesStatus) -> Self {
        let refused = status.refused.into_iter().map(|(source, it)| RefusedObject {
            source,
            object: it.object,
            path: it.path,
            problem: it.problem,
            remedy: it.remedy,
        });
        let problems = status.problems.into_iter();
        Self {
            frontends: status.frontends,
            backends: status.backends,
            quarantined: status.quarantined,
            leaving: status.leaving,
            unread: status.unread,
            open: status.open,
            room: status.room,
            rows: status.rows,
            awaited: status.awaited.into_iter().collect(),
            found: status.found,
            foreign: status.foreign,
            refused: refused.collect(),
            problems: problems
                .map(|(service, problem)| ServiceProblem { service, problem })
                .collect(),
            failures: status.failures,
            last_error: status.last_error,
        }
    }
}
