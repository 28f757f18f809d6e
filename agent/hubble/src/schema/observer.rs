//! What an observer answers, and the agent's own events.

use super::{
    FLOW,
    Kind::{Double, Enum, I32, I64, Message, Text, Timestamp, U32, U64, Wrapped},
    Schema,
    enums::{AGENT_EVENTS, LOST_SOURCES, NODE_STATES, PEER_CHANGES},
    many, one, schema,
};

/// A flow, or how many are lost.
pub static FLOWS_RESPONSE: Schema = schema(&[
    one(1, "flow", Message(&FLOW)),
    one(2, "node_status", Message(&NODE_STATUS)),
    one(3, "lost_events", Message(&LOST)),
    one(1000, "node_name", Text),
    one(1001, "time", Timestamp),
]);

static NODE_STATUS: Schema = schema(&[
    one(1, "state_change", Enum(NODE_STATES)),
    many(2, "node_names", Text),
    one(3, "message", Text),
]);
static LOST: Schema = schema(&[
    one(1, "source", Enum(LOST_SOURCES)),
    one(2, "num_events_lost", U64),
    one(3, "cpu", Wrapped(&I32)),
    one(4, "first", Timestamp),
    one(5, "last", Timestamp),
]);

/// Something that the agent says of itself.
pub static AGENT_EVENTS_RESPONSE: Schema = schema(&[
    one(1, "agent_event", Message(&AGENT_EVENT)),
    one(1000, "node_name", Text),
    one(1001, "time", Timestamp),
]);

static AGENT_EVENT: Schema = schema(&[
    one(1, "type", Enum(AGENT_EVENTS)),
    one(100, "unknown", Message(&UNKNOWN)),
    one(101, "agent_start", Message(&MOMENT)),
    one(102, "policy_update", Message(&POLICY_UPDATE)),
    one(103, "endpoint_regenerate", Message(&REGENERATE)),
    one(104, "endpoint_update", Message(&UPDATE)),
    one(105, "ipcache_update", Message(&IPCACHE)),
]);
static UNKNOWN: Schema = schema(&[one(1, "type", Text), one(2, "notification", Text)]);
static MOMENT: Schema = schema(&[one(1, "time", Timestamp)]);
static POLICY_UPDATE: Schema =
    schema(&[many(1, "labels", Text), one(2, "revision", U64), one(3, "rule_count", I64)]);
static REGENERATE: Schema =
    schema(&[one(1, "id", U64), many(2, "labels", Text), one(3, "error", Text)]);
static UPDATE: Schema = schema(&[
    one(1, "id", U64),
    many(2, "labels", Text),
    one(3, "error", Text),
    one(4, "pod_name", Text),
    one(5, "namespace", Text),
]);
static IPCACHE: Schema = schema(&[
    one(1, "cidr", Text),
    one(2, "identity", U32),
    one(3, "old_identity", Wrapped(&U32)),
    one(4, "host_ip", Text),
    one(5, "old_host_ip", Text),
    one(6, "encrypt_key", U32),
    one(7, "namespace", Text),
    one(8, "pod_name", Text),
]);

/// How the server is.
pub static SERVER_STATUS: Schema = schema(&[
    one(1, "num_flows", U64),
    one(2, "max_flows", U64),
    one(3, "seen_flows", U64),
    one(4, "uptime_ns", U64),
    one(5, "num_connected_nodes", Wrapped(&U32)),
    one(6, "num_unavailable_nodes", Wrapped(&U32)),
    many(7, "unavailable_nodes", Text),
    one(8, "version", Text),
    one(9, "flows_rate", Double),
]);

/// A node came, went or changed.
pub static PEER_CHANGE: Schema = schema(&[
    one(1, "name", Text),
    one(2, "address", Text),
    one(3, "type", Enum(PEER_CHANGES)),
    one(4, "tls", Message(&TLS)),
]);
static TLS: Schema = schema(&[one(1, "server_name", Text)]);
