//! What is said over the socket, as Cilium 1.19's API shapes it.

mod config;
mod debug_info;
mod endpoint;
mod endpoint_policy;
mod endpoint_spec;
mod identity;
mod ip;
mod map;
mod mesh;
mod node;
mod options;
mod policy;
mod rows;
mod service;
mod source;
mod status;
mod volvox;

pub use config::{Configuration, ConfigurationSpec, ConfigurationStatus, KvstoreConfiguration};
pub use debug_info::DebugInfo;
pub use endpoint::{
    ConfigurationAnswer, Endpoint, EndpointConfiguration, EndpointStatus, ExternalIdentifiers,
    LabelConfiguration, LabelStatus, LabelsAnswer, NamedPort, Networking, StatusChange,
    endpoint_health,
};
pub use endpoint_policy::{
    EndpointPolicy, L4Policy, PolicyRule, RealizedPolicy, enabled, last_port, protocol_name,
};
pub use endpoint_spec::{endpoint_spec, given_labels, parse_labels};
pub use identity::{Identity, IdentityEndpoints};
pub use ip::{IpListEntry, IpMetadata};
pub use map::{BpfMap, BpfMapEntry, BpfMapList};
pub use mesh::{ClusterMeshStatus, RemoteCluster, RemoteClusterConfig, RemoteClusterSynced};
pub use node::{ClusterNode, ClusterNodes, NodeId, SecondaryAddress};
pub use options::{OptionTexts, option_texts, parse_options};
pub use policy::{Policy, SelectorEntry};
pub use rows::{ComparedRow, EndpointRows, RowsLogEntry};
pub use service::{
    Backend, BackendAddress, FrontendAddress, RefusedObject, Service, ServiceFlags, ServiceProblem,
    ServiceSpec, ServiceStatus, ServicesSummary, backend_state, frontend_kind,
};
pub use source::Source;
pub use status::{
    BpfMapSize, BpfMapStatus, ClusterStatus, Controller, ControllerStatus, IdentityRange,
    IpamStatus, KubeProxyReplacement, KubernetesStatus, Mode, NodeDevice, RoutingStatus,
    StatusAnswer, StatusDetails,
};
pub use volvox::{
    Actor, Collecting, IpamLease, PruningWait, Recorder, Regenerated, Repaired, WaitEntry,
    WaitList, Why,
};
pub use volvox_actors::model::Timestamp;
