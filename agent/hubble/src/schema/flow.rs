//! A flow, what it is made of, and filters.

use super::{
    Kind::{Bool, Enum, I32, Message, Text, Timestamp, U32, U64, Wrapped},
    Schema,
    enums::{DIRECTIONS, DROP_REASONS, FLOW_TYPES, IP_VERSIONS, POINTS, REASONS, VERDICTS},
    many, one, schema,
};

/// A flow.
pub static FLOW: Schema = schema(&[
    one(1, "time", Timestamp),
    one(34, "uuid", Text),
    one(41, "emitter", Message(&EMITTER)),
    one(2, "verdict", Enum(VERDICTS)),
    one(3, "drop_reason", U32),
    one(4, "ethernet", Message(&PAIR)),
    one(5, "IP", Message(&IP)),
    one(6, "l4", Message(&LAYER4)),
    one(8, "source", Message(&ENDPOINT)),
    one(9, "destination", Message(&ENDPOINT)),
    one(10, "Type", Enum(FLOW_TYPES)),
    one(11, "node_name", Text),
    many(37, "node_labels", Text),
    many(13, "source_names", Text),
    many(14, "destination_names", Text),
    one(15, "l7", Message(&LAYER7)),
    one(16, "reply", Bool),
    one(19, "event_type", Message(&EVENT_TYPE)),
    one(20, "source_service", Message(&SERVICE)),
    one(21, "destination_service", Message(&SERVICE)),
    one(22, "traffic_direction", Enum(DIRECTIONS)),
    one(23, "policy_match_type", U32),
    one(24, "trace_observation_point", Enum(POINTS)),
    one(36, "trace_reason", Enum(REASONS)),
    one(38, "file", Message(&SOURCE_FILE)),
    one(25, "drop_reason_desc", Enum(DROP_REASONS)),
    one(26, "is_reply", Wrapped(&Bool)),
    one(27, "debug_capture_point", I32),
    one(28, "interface", Message(&INTERFACE)),
    one(29, "proxy_port", U32),
    one(30, "trace_context", Message(&TRACE_CONTEXT)),
    one(31, "sock_xlate_point", I32),
    one(32, "socket_cookie", U64),
    one(33, "cgroup_id", U64),
    one(35, "auth_type", I32),
    one(39, "tunnel", Message(&TUNNEL)),
    one(40, "ip_trace_id", Message(&IP_TRACE)),
    many(21001, "egress_allowed_by", Message(&POLICY)),
    many(21002, "ingress_allowed_by", Message(&POLICY)),
    many(21004, "egress_denied_by", Message(&POLICY)),
    many(21005, "ingress_denied_by", Message(&POLICY)),
    many(21006, "policy_log", Text),
    one(100_000, "Summary", Text),
]);

static EMITTER: Schema = schema(&[one(1, "name", Text), one(2, "version", Text)]);
static PAIR: Schema = schema(&[one(1, "source", Text), one(2, "destination", Text)]);
static IP: Schema = schema(&[
    one(1, "source", Text),
    one(5, "source_xlated", Text),
    one(2, "destination", Text),
    one(3, "ipVersion", Enum(IP_VERSIONS)),
    one(4, "encrypted", Bool),
]);
static LAYER4: Schema = schema(&[
    one(1, "TCP", Message(&TCP)),
    one(2, "UDP", Message(&PORTS)),
    one(3, "ICMPv4", Message(&ICMP)),
    one(4, "ICMPv6", Message(&ICMP)),
    one(5, "SCTP", Message(&PORTS)),
    one(6, "VRRP", Message(&VRRP)),
    one(7, "IGMP", Message(&IGMP)),
]);
static TCP: Schema = schema(&[
    one(1, "source_port", U32),
    one(2, "destination_port", U32),
    one(3, "flags", Message(&FLAGS)),
]);
static FLAGS: Schema = schema(&[
    one(1, "FIN", Bool),
    one(2, "SYN", Bool),
    one(3, "RST", Bool),
    one(4, "PSH", Bool),
    one(5, "ACK", Bool),
    one(6, "URG", Bool),
    one(7, "ECE", Bool),
    one(8, "CWR", Bool),
    one(9, "NS", Bool),
]);
static PORTS: Schema = schema(&[one(1, "source_port", U32), one(2, "destination_port", U32)]);
static ICMP: Schema = schema(&[one(1, "type", U32), one(2, "code", U32)]);
static VRRP: Schema = schema(&[one(1, "type", U32), one(2, "vrid", U32), one(3, "priority", U32)]);
static IGMP: Schema = schema(&[one(1, "type", U32), one(2, "group_address", Text)]);
static ENDPOINT: Schema = schema(&[
    one(1, "ID", U32),
    one(2, "identity", U32),
    one(7, "cluster_name", Text),
    one(3, "namespace", Text),
    many(4, "labels", Text),
    one(5, "pod_name", Text),
    many(6, "workloads", Message(&WORKLOAD)),
    one(8, "vni_id", U64),
]);
static WORKLOAD: Schema = schema(&[one(1, "name", Text), one(2, "kind", Text)]);
static SERVICE: Schema = schema(&[one(1, "name", Text), one(2, "namespace", Text)]);
static EVENT_TYPE: Schema = schema(&[one(1, "type", I32), one(2, "sub_type", I32)]);
static INTERFACE: Schema = schema(&[one(1, "index", U32), one(2, "name", Text)]);
static SOURCE_FILE: Schema = schema(&[one(1, "name", Text), one(2, "line", U32)]);
static TRACE_CONTEXT: Schema = schema(&[one(1, "parent", Message(&TRACE_PARENT))]);
static TRACE_PARENT: Schema = schema(&[one(1, "trace_id", Text)]);
static TUNNEL: Schema = schema(&[
    one(1, "protocol", I32),
    one(2, "IP", Message(&IP)),
    one(3, "l4", Message(&LAYER4)),
    one(4, "vni", U32),
]);
static IP_TRACE: Schema = schema(&[one(1, "trace_id", U64), one(2, "ip_option_type", U32)]);
static POLICY: Schema = schema(&[
    one(1, "name", Text),
    one(2, "namespace", Text),
    many(3, "labels", Text),
    one(4, "revision", U64),
    one(5, "kind", Text),
]);
static LAYER7: Schema = schema(&[
    one(1, "type", I32),
    one(2, "latency_ns", U64),
    one(100, "dns", Message(&DNS)),
    one(101, "http", Message(&HTTP)),
]);
static DNS: Schema = schema(&[
    one(1, "query", Text),
    many(2, "ips", Text),
    one(3, "ttl", U32),
    many(4, "cnames", Text),
    one(5, "observation_source", Text),
    one(6, "rcode", U32),
    many(7, "qtypes", Text),
    many(8, "rrtypes", Text),
]);
static HTTP: Schema = schema(&[
    one(1, "code", U32),
    one(2, "method", Text),
    one(3, "url", Text),
    one(4, "protocol", Text),
    many(5, "headers", Message(&HEADER)),
]);
static HEADER: Schema = schema(&[one(1, "key", Text), one(2, "value", Text)]);

/// A filter.
pub static FLOW_FILTER: Schema = schema(&[
    many(1, "source_ip", Text),
    many(2, "source_pod", Text),
    many(3, "destination_ip", Text),
    many(4, "destination_pod", Text),
    many(5, "verdict", Enum(VERDICTS)),
    many(6, "event_type", Message(&EVENT_TYPE_FILTER)),
    many(7, "source_fqdn", Text),
    many(8, "destination_fqdn", Text),
    many(9, "http_status_code", Text),
    many(10, "source_label", Text),
    many(11, "destination_label", Text),
    many(12, "protocol", Text),
    many(13, "source_port", Text),
    many(14, "destination_port", Text),
    many(15, "reply", Bool),
    many(16, "source_service", Text),
    many(17, "destination_service", Text),
    many(18, "dns_query", Text),
    many(19, "source_identity", U32),
    many(20, "destination_identity", U32),
    many(21, "http_method", Text),
    many(22, "http_path", Text),
    many(23, "tcp_flags", Message(&FLAGS)),
    many(24, "node_name", Text),
    many(25, "ip_version", Enum(IP_VERSIONS)),
    many(26, "source_workload", Message(&WORKLOAD)),
    many(27, "destination_workload", Message(&WORKLOAD)),
    many(28, "trace_id", Text),
    many(29, "uuid", Text),
    many(30, "traffic_direction", Enum(DIRECTIONS)),
    many(31, "http_url", Text),
    many(32, "http_header", Message(&HEADER)),
    many(33, "drop_reason_desc", Enum(DROP_REASONS)),
    many(34, "source_ip_xlated", Text),
    many(35, "interface", Message(&INTERFACE)),
    many(36, "node_labels", Text),
    many(37, "source_cluster_name", Text),
    many(38, "destination_cluster_name", Text),
    many(39, "ip_trace_id", U64),
    many(40, "encrypted", Bool),
    one(999, "experimental", Message(&EXPERIMENTAL)),
]);

static EVENT_TYPE_FILTER: Schema =
    schema(&[one(1, "type", I32), one(2, "match_sub_type", Bool), one(3, "sub_type", I32)]);
static EXPERIMENTAL: Schema = schema(&[many(1, "cel_expression", Text)]);
