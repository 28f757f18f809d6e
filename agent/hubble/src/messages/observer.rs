//! What `observer.Observer` is asked and answers, and what the agent says of itself.

use prost::{Message, Oneof};

use super::{FieldMask, Flow, FlowFilter, LostEvent, Timestamp};

/// Which flows are asked for.
#[derive(Clone, PartialEq, Message)]
pub struct GetFlowsRequest {
    /// How many; 0 is all.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Whether later ones, too.
    #[prost(bool, tag = "3")]
    pub follow: bool,
    /// None of these.
    #[prost(message, repeated, tag = "5")]
    pub blacklist: Vec<FlowFilter>,
    /// One of these, if there are any.
    #[prost(message, repeated, tag = "6")]
    pub whitelist: Vec<FlowFilter>,
    /// From then on.
    #[prost(message, optional, tag = "7")]
    pub since: Option<Timestamp>,
    /// Until then.
    #[prost(message, optional, tag = "8")]
    pub until: Option<Timestamp>,
    /// The oldest, instead of the newest.
    #[prost(bool, tag = "9")]
    pub first: bool,
    /// These members only.
    #[prost(message, optional, tag = "10")]
    pub field_mask: Option<FieldMask>,
}

/// Which events of the agent, or of debugging, are asked for.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct GetEventsRequest {
    /// How many; 0 is all.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Whether later ones, too.
    #[prost(bool, tag = "2")]
    pub follow: bool,
    /// From then on.
    #[prost(message, optional, tag = "7")]
    pub since: Option<Timestamp>,
    /// Until then.
    #[prost(message, optional, tag = "8")]
    pub until: Option<Timestamp>,
    /// The oldest, instead of the newest.
    #[prost(bool, tag = "9")]
    pub first: bool,
}

/// A flow, or how many are lost; and all that may be written to a file.
#[derive(Clone, PartialEq, Message)]
pub struct GetFlowsResponse {
    /// Which it is.
    #[prost(oneof = "FlowsResponse", tags = "1, 2, 3")]
    pub response: Option<FlowsResponse>,
    /// The node that saw it.
    #[prost(string, tag = "1000")]
    pub node_name: String,
    /// When.
    #[prost(message, optional, tag = "1001")]
    pub time: Option<Timestamp>,
}

/// What is answered to who asks for flows.
#[derive(Clone, PartialEq, Oneof)]
#[expect(clippy::large_enum_variant, reason = "most are flows")]
pub enum FlowsResponse {
    /// A flow.
    #[prost(message, tag = "1")]
    Flow(Flow),
    /// A node came or went; a relay says so.
    #[prost(message, tag = "2")]
    NodeStatus(NodeStatusEvent),
    /// Flows that are not there.
    #[prost(message, tag = "3")]
    LostEvents(LostEvent),
}

/// A node came or went.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStatusEvent {
    /// How it is now: 1 connected, 2 unavailable, 3 gone, 4 error.
    #[prost(int32, tag = "1")]
    pub state_change: i32,
    /// Which.
    #[prost(string, repeated, tag = "2")]
    pub node_names: Vec<String>,
    /// More of it.
    #[prost(string, tag = "3")]
    pub message: String,
}

/// Something that the agent says of itself.
#[derive(Clone, PartialEq, Message)]
pub struct GetAgentEventsResponse {
    /// What.
    #[prost(message, optional, tag = "1")]
    pub agent_event: Option<AgentEvent>,
    /// The node.
    #[prost(string, tag = "1000")]
    pub node_name: String,
    /// When.
    #[prost(message, optional, tag = "1001")]
    pub time: Option<Timestamp>,
}

/// What debugging says. This datapath says nothing.
#[derive(Clone, PartialEq, Message)]
pub struct GetDebugEventsResponse {
    /// The node.
    #[prost(string, tag = "1000")]
    pub node_name: String,
    /// When.
    #[prost(message, optional, tag = "1001")]
    pub time: Option<Timestamp>,
}

/// Something that the agent says of itself.
#[derive(Clone, PartialEq, Message)]
pub struct AgentEvent {
    /// Its kind, `AgentEventType`.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The rest.
    #[prost(oneof = "AgentNotification", tags = "100, 101, 102, 103, 104, 105")]
    pub notification: Option<AgentNotification>,
}

/// What happened.
#[derive(Clone, PartialEq, Oneof)]
pub enum AgentNotification {
    /// Something of no other kind.
    #[prost(message, tag = "100")]
    Unknown(UnknownNotification),
    /// The agent started.
    #[prost(message, tag = "101")]
    AgentStart(TimeNotification),
    /// Policies changed.
    #[prost(message, tag = "102")]
    PolicyUpdate(PolicyUpdateNotification),
    /// An endpoint was built, or could not be.
    #[prost(message, tag = "103")]
    EndpointRegenerate(EndpointRegenNotification),
    /// An endpoint was made or deleted.
    #[prost(message, tag = "104")]
    EndpointUpdate(EndpointUpdateNotification),
    /// An address has another identity.
    #[prost(message, tag = "105")]
    IpcacheUpdate(IpcacheNotification),
}

/// Something of no other kind.
#[derive(Clone, PartialEq, Message)]
pub struct UnknownNotification {
    /// Its kind.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub notification: String,
}

/// A moment.
#[derive(Clone, PartialEq, Message)]
pub struct TimeNotification {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub time: Option<Timestamp>,
}

/// Policies changed.
#[derive(Clone, PartialEq, Message)]
pub struct PolicyUpdateNotification {
    /// Labels of the rules.
    #[prost(string, repeated, tag = "1")]
    pub labels: Vec<String>,
    /// The repository's revision.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
    /// How many rules there are.
    #[prost(int64, tag = "3")]
    pub rule_count: i64,
}

/// An endpoint was built, or could not be.
#[derive(Clone, PartialEq, Message)]
pub struct EndpointRegenNotification {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its labels.
    #[prost(string, repeated, tag = "2")]
    pub labels: Vec<String>,
    /// Why it could not be.
    #[prost(string, tag = "3")]
    pub error: String,
}

/// An endpoint was made or deleted.
#[derive(Clone, PartialEq, Message)]
pub struct EndpointUpdateNotification {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its labels.
    #[prost(string, repeated, tag = "2")]
    pub labels: Vec<String>,
    /// What went wrong.
    #[prost(string, tag = "3")]
    pub error: String,
    /// Its pod.
    #[prost(string, tag = "4")]
    pub pod_name: String,
    /// Its pod's namespace.
    #[prost(string, tag = "5")]
    pub namespace: String,
}

/// An address has another identity.
#[derive(Clone, PartialEq, Message)]
pub struct IpcacheNotification {
    /// The address.
    #[prost(string, tag = "1")]
    pub cidr: String,
    /// Its identity.
    #[prost(uint32, tag = "2")]
    pub identity: u32,
    /// The one before.
    #[prost(message, optional, tag = "3")]
    pub old_identity: Option<u32>,
    /// The node behind which it is.
    #[prost(string, tag = "4")]
    pub host_ip: String,
    /// The one before.
    #[prost(string, tag = "5")]
    pub old_host_ip: String,
    /// Number of the key.
    #[prost(uint32, tag = "6")]
    pub encrypt_key: u32,
    /// Its pod's namespace.
    #[prost(string, tag = "7")]
    pub namespace: String,
    /// Its pod.
    #[prost(string, tag = "8")]
    pub pod_name: String,
}

/// Nothing is asked.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Nothing {}

/// How the server is.
#[derive(Clone, PartialEq, Message)]
pub struct ServerStatusResponse {
    /// Flows in the ring.
    #[prost(uint64, tag = "1")]
    pub num_flows: u64,
    /// Flows for which it has room.
    #[prost(uint64, tag = "2")]
    pub max_flows: u64,
    /// Flows since the start.
    #[prost(uint64, tag = "3")]
    pub seen_flows: u64,
    /// Since when.
    #[prost(uint64, tag = "4")]
    pub uptime_ns: u64,
    /// Nodes that a relay reaches.
    #[prost(message, optional, tag = "5")]
    pub num_connected_nodes: Option<u32>,
    /// Nodes that it does not.
    #[prost(message, optional, tag = "6")]
    pub num_unavailable_nodes: Option<u32>,
    /// Which those are.
    #[prost(string, repeated, tag = "7")]
    pub unavailable_nodes: Vec<String>,
    /// The version.
    #[prost(string, tag = "8")]
    pub version: String,
    /// Flows a second, of the last minute.
    #[prost(double, tag = "9")]
    pub flows_rate: f64,
}

/// Namespaces that flows name.
#[derive(Clone, PartialEq, Message)]
pub struct GetNamespacesResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<NamespaceOfCluster>,
}

/// A namespace.
#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOfCluster {
    /// Its cluster.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub namespace: String,
}

/// Nodes; only a relay knows more than one.
#[derive(Clone, PartialEq, Message)]
pub struct GetNodesResponse {}
