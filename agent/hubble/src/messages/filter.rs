//! What flows are asked for: `flow.FlowFilter`.

use prost::Message;

use super::{NetworkInterface, TcpFlagSet, Workload};

/// Which flows are asked for. All that is set must match, and of each list one.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "each is the member of a flow that it is named after")]
pub struct FlowFilter {
    #[prost(string, repeated, tag = "1")]
    pub source_ip: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub source_pod: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub destination_ip: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub destination_pod: Vec<String>,
    #[prost(int32, repeated, tag = "5")]
    pub verdict: Vec<i32>,
    #[prost(message, repeated, tag = "6")]
    pub event_type: Vec<EventTypeFilter>,
    #[prost(string, repeated, tag = "7")]
    pub source_fqdn: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    pub destination_fqdn: Vec<String>,
    #[prost(string, repeated, tag = "9")]
    pub http_status_code: Vec<String>,
    #[prost(string, repeated, tag = "10")]
    pub source_label: Vec<String>,
    #[prost(string, repeated, tag = "11")]
    pub destination_label: Vec<String>,
    #[prost(string, repeated, tag = "12")]
    pub protocol: Vec<String>,
    #[prost(string, repeated, tag = "13")]
    pub source_port: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub destination_port: Vec<String>,
    #[prost(bool, repeated, tag = "15")]
    pub reply: Vec<bool>,
    #[prost(string, repeated, tag = "16")]
    pub source_service: Vec<String>,
    #[prost(string, repeated, tag = "17")]
    pub destination_service: Vec<String>,
    #[prost(string, repeated, tag = "18")]
    pub dns_query: Vec<String>,
    #[prost(uint32, repeated, tag = "19")]
    pub source_identity: Vec<u32>,
    #[prost(uint32, repeated, tag = "20")]
    pub destination_identity: Vec<u32>,
    #[prost(string, repeated, tag = "21")]
    pub http_method: Vec<String>,
    #[prost(string, repeated, tag = "22")]
    pub http_path: Vec<String>,
    #[prost(message, repeated, tag = "23")]
    pub tcp_flags: Vec<TcpFlagSet>,
    #[prost(string, repeated, tag = "24")]
    pub node_name: Vec<String>,
    #[prost(int32, repeated, tag = "25")]
    pub ip_version: Vec<i32>,
    #[prost(message, repeated, tag = "26")]
    pub source_workload: Vec<Workload>,
    #[prost(message, repeated, tag = "27")]
    pub destination_workload: Vec<Workload>,
    #[prost(string, repeated, tag = "28")]
    pub trace_id: Vec<String>,
    #[prost(string, repeated, tag = "29")]
    pub uuid: Vec<String>,
    #[prost(int32, repeated, tag = "30")]
    pub traffic_direction: Vec<i32>,
    #[prost(string, repeated, tag = "31")]
    pub http_url: Vec<String>,
    #[prost(message, repeated, tag = "32")]
    pub http_header: Vec<HttpHeader>,
    #[prost(int32, repeated, tag = "33")]
    pub drop_reason_desc: Vec<i32>,
    #[prost(string, repeated, tag = "34")]
    pub source_ip_xlated: Vec<String>,
    #[prost(message, repeated, tag = "35")]
    pub interface: Vec<NetworkInterface>,
    #[prost(string, repeated, tag = "36")]
    pub node_labels: Vec<String>,
    #[prost(string, repeated, tag = "37")]
    pub source_cluster_name: Vec<String>,
    #[prost(string, repeated, tag = "38")]
    pub destination_cluster_name: Vec<String>,
    #[prost(uint64, repeated, tag = "39")]
    pub ip_trace_id: Vec<u64>,
    #[prost(bool, repeated, tag = "40")]
    pub encrypted: Vec<bool>,
    #[prost(message, optional, tag = "999")]
    pub experimental: Option<ExperimentalFilter>,
}

/// Which records are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct EventTypeFilter {
    /// As the monitor numbers its records; 0 is any.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Whether the next one counts.
    #[prost(bool, tag = "2")]
    pub match_sub_type: bool,
    /// Drop reason or observation point.
    #[prost(int32, tag = "3")]
    pub sub_type: i32,
}

/// A header of a request.
#[derive(Clone, PartialEq, Message)]
pub struct HttpHeader {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What may change.
#[derive(Clone, PartialEq, Message)]
pub struct ExperimentalFilter {
    /// Expressions in CEL.
    #[prost(string, repeated, tag = "1")]
    pub cel_expression: Vec<String>,
}
