//! What is said over the socket, as Cilium 1.19's API shapes it (`/v1`).
//!
//! Unknown members are ignored when read and empty ones left out when written, so that
//! neighbouring versions understand each other.

mod addressing;
mod config;
mod debug_info;
mod endpoint;
mod endpoint_policy;
mod health;
mod identity;
mod ip;
mod map;
mod mesh;
mod node;
mod options;
mod policy;
mod pools;
mod requests;
mod rows;
mod service;
mod source;
mod status;
mod traffic;
mod volvox;

use std::{fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error};

pub use addressing::{
    AddressPair, IpamAddressResponse, IpamResponse, NodeAddressing, NodeAddressingElement,
};
pub use config::{Configuration, ConfigurationSpec, ConfigurationStatus, KvstoreConfiguration};
pub use debug_info::DebugInfo;
pub use endpoint::{
    ConfigurationAnswer, Endpoint, EndpointConfiguration, EndpointHealth, EndpointStatus,
    ExternalIdentifiers, LabelConfiguration, LabelStatus, LabelsAnswer, NamedPort, Networking,
    StatusChange, endpoint_health,
};
pub use endpoint_policy::{
    EndpointPolicy, L4Policy, PolicyRule, RealizedPolicy, enabled, last_port, protocol_name,
};
pub use health::{
    ConnectivityStatus, HealthAnswer, HealthStatus, LocalNode, NodeHealthStatus, PathStatus,
    PathsStatus, SystemLoad,
};
pub use identity::{Identity, IdentityEndpoints};
pub use ip::{IpListEntry, IpMetadata};
pub use map::{BpfMap, BpfMapEntry, BpfMapList};
pub use mesh::{ClusterMeshStatus, RemoteCluster, RemoteClusterConfig, RemoteClusterSynced};
pub use node::{ClusterNode, ClusterNodes, NodeId, SecondaryAddress};
pub use options::{DEBUG, OptionTexts, OptionsOf, option_texts, parse_options};
pub use policy::{Policy, SelectorEntry};
pub use pools::{PodPool, PodPoolPrefix, PodPools};
pub use requests::{EndpointBatchDeleteRequest, EndpointChangeRequest};
pub use rows::{ComparedRow, EndpointRows, RowsLogEntry};
pub use service::{
    Backend, BackendAddress, FrontendAddress, RefusedObject, Service, ServiceFlags, ServiceProblem,
    ServiceSpec, ServiceStatus, ServicesSummary, backend_state, frontend_kind,
};
pub use source::Source;
pub use status::{
    BpfMapSize, BpfMapStatus, ClusterStatus, Controller, ControllerStatus, IdentityRange,
    IpamStatus, KubeProxyReplacement, KubernetesStatus, Mode, NodeDevice, RoutingStatus, Status,
    StatusAnswer, StatusDetails,
};
pub use traffic::{Traffic, TrafficEnd, TrafficPath, TrafficService, TrafficSide};
pub use volvox::{
    Actor, Collecting, IpamLease, PruningWait, Recorder, Regenerated, Repaired, RootCause,
    WaitEntry, WaitList, Why,
};
pub use volvox_actors::model::Timestamp;

/// Whether a member can be left out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Cilium writes a list that is not there as null.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Cilium writes an address that is not there as an empty text.
fn empty_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| Error::custom(format!("{text:?}: {error}")))
}
