//! A flow, and what it is made of: `flow.*`.

use prost::{Message, Oneof};

use super::Timestamp;

/// What became of a packet: `Verdict`.
pub mod verdict {
    /// It went on.
    pub const FORWARDED: i32 = 1;
    /// It was dropped.
    pub const DROPPED: i32 = 2;
    /// It would have been dropped, were policies not only audited.
    pub const AUDIT: i32 = 4;
    /// It went to a proxy.
    pub const REDIRECTED: i32 = 5;
}

/// Which way, seen from the endpoint: `TrafficDirection`.
pub mod direction {
    /// To it.
    pub const INGRESS: i32 = 1;
    /// From it.
    pub const EGRESS: i32 = 2;
}

/// Kinds of events: byte 0 of a monitor's record.
pub mod event {
    /// A packet was dropped.
    pub const DROP: i32 = 1;
    /// A packet passed.
    pub const TRACE: i32 = 4;
    /// A policy was consulted.
    pub const POLICY_VERDICT: i32 = 5;
    /// A request or response was judged.
    pub const L7: i32 = 129;
    /// The agent speaks of itself.
    pub const AGENT: i32 = 130;
}

/// A packet, with who sent it, to whom, and what became of it.
#[derive(Clone, PartialEq, Message)]
pub struct Flow {
    /// When.
    #[prost(message, optional, tag = "1")]
    pub time: Option<Timestamp>,
    /// See [`verdict`].
    #[prost(int32, tag = "2")]
    pub verdict: i32,
    /// Older clients' way to ask why it was dropped.
    #[prost(uint32, tag = "3")]
    pub drop_reason: u32,
    /// Ethernet addresses.
    #[prost(message, optional, tag = "4")]
    pub ethernet: Option<Ethernet>,
    /// Addresses.
    #[prost(message, optional, tag = "5")]
    pub ip: Option<Ip>,
    /// Ports, flags, types.
    #[prost(message, optional, tag = "6")]
    pub l4: Option<Layer4>,
    /// Who sent it.
    #[prost(message, optional, tag = "8")]
    pub source: Option<FlowEndpoint>,
    /// To whom.
    #[prost(message, optional, tag = "9")]
    pub destination: Option<FlowEndpoint>,
    /// 1 layers 3 and 4, 2 layer 7, 3 socket.
    #[prost(int32, tag = "10")]
    pub kind: i32,
    /// The node that saw it.
    #[prost(string, tag = "11")]
    pub node_name: String,
    /// Names by which the receiver knows the sender.
    #[prost(string, repeated, tag = "13")]
    pub source_names: Vec<String>,
    /// Names by which the sender knows the receiver.
    #[prost(string, repeated, tag = "14")]
    pub destination_names: Vec<String>,
    /// Older clients' way to ask whether it is a reply.
    #[prost(bool, tag = "16")]
    pub reply: bool,
    /// Which record it comes of.
    #[prost(message, optional, tag = "19")]
    pub event_type: Option<EventType>,
    /// The service at the sender's address and port.
    #[prost(message, optional, tag = "20")]
    pub source_service: Option<FlowService>,
    /// The service at the receiver's address and port.
    #[prost(message, optional, tag = "21")]
    pub destination_service: Option<FlowService>,
    /// See [`direction`].
    #[prost(int32, tag = "22")]
    pub traffic_direction: i32,
    /// What a policy's row named: 0 none … 6 the protocol.
    #[prost(uint32, tag = "23")]
    pub policy_match_type: u32,
    /// Where it was seen; 101 is at the receiving endpoint.
    #[prost(int32, tag = "24")]
    pub trace_observation_point: i32,
    /// Why it was dropped.
    #[prost(int32, tag = "25")]
    pub drop_reason_desc: i32,
    /// Whether it is a reply, where that is known.
    #[prost(message, optional, tag = "26")]
    pub is_reply: Option<bool>,
    /// The interface that it leaves by.
    #[prost(message, optional, tag = "28")]
    pub interface: Option<NetworkInterface>,
    /// The proxy's port that it goes to.
    #[prost(uint32, tag = "29")]
    pub proxy_port: u32,
    /// Names the flow.
    #[prost(string, tag = "34")]
    pub uuid: String,
    /// How connection tracking knew it.
    #[prost(int32, tag = "36")]
    pub trace_reason: i32,
    /// The node's labels.
    #[prost(string, repeated, tag = "37")]
    pub node_labels: Vec<String>,
    /// Where in the datapath's source it was dropped.
    #[prost(message, optional, tag = "38")]
    pub file: Option<SourceFile>,
    /// Who tells.
    #[prost(message, optional, tag = "41")]
    pub emitter: Option<Emitter>,
    /// Policies that let it out.
    #[prost(message, repeated, tag = "21001")]
    pub egress_allowed_by: Vec<FlowPolicy>,
    /// Policies that let it in.
    #[prost(message, repeated, tag = "21002")]
    pub ingress_allowed_by: Vec<FlowPolicy>,
    /// Policies that deny it on its way out.
    #[prost(message, repeated, tag = "21004")]
    pub egress_denied_by: Vec<FlowPolicy>,
    /// Policies that deny it on its way in.
    #[prost(message, repeated, tag = "21005")]
    pub ingress_denied_by: Vec<FlowPolicy>,
    /// A line for people.
    #[prost(string, tag = "100000")]
    pub summary: String,
}

impl Flow {
    /// What layer 4 is, if that is known.
    pub fn protocol(&self) -> Option<&Protocol> {
        self.l4.as_ref()?.protocol.as_ref()
    }

    /// What a policy's row named, of a verdict.
    pub fn policy_match(&self) -> Option<&'static str> {
        let names = ["none", "L3-Only", "L3-L4", "L4-Only", "all", "L3-Proto", "Proto-Only"];
        names.get(usize::try_from(self.policy_match_type).ok()?).copied()
    }
}

impl Protocol {
    /// Ports of sender and receiver.
    pub fn ports(&self) -> Option<(u32, u32)> {
        match self {
            Self::Tcp(tcp) => Some((tcp.source_port, tcp.destination_port)),
            Self::Udp(it) | Self::Sctp(it) => Some((it.source_port, it.destination_port)),
            _ => None,
        }
    }
}

/// Ethernet addresses.
#[derive(Clone, PartialEq, Message)]
pub struct Ethernet {
    /// Whose it was.
    #[prost(string, tag = "1")]
    pub source: String,
    /// To whom.
    #[prost(string, tag = "2")]
    pub destination: String,
}

/// Addresses of layer 3.
#[derive(Clone, PartialEq, Message)]
pub struct Ip {
    /// Sender.
    #[prost(string, tag = "1")]
    pub source: String,
    /// Receiver.
    #[prost(string, tag = "2")]
    pub destination: String,
    /// 1 IPv4, 2 IPv6.
    #[prost(int32, tag = "3")]
    pub ip_version: i32,
    /// Whether it is encrypted.
    #[prost(bool, tag = "4")]
    pub encrypted: bool,
    /// The sender's address after translation.
    #[prost(string, tag = "5")]
    pub source_xlated: String,
}

/// What layer 4 is.
#[derive(Clone, PartialEq, Message)]
pub struct Layer4 {
    /// The protocol.
    #[prost(oneof = "Protocol", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub protocol: Option<Protocol>,
}

/// Protocols of layer 4.
#[derive(Clone, PartialEq, Oneof)]
pub enum Protocol {
    /// TCP.
    #[prost(message, tag = "1")]
    Tcp(Tcp),
    /// UDP.
    #[prost(message, tag = "2")]
    Udp(Ports),
    /// ICMP.
    #[prost(message, tag = "3")]
    IcmpV4(Icmp),
    /// ICMP of IPv6.
    #[prost(message, tag = "4")]
    IcmpV6(Icmp),
    /// SCTP.
    #[prost(message, tag = "5")]
    Sctp(Ports),
    /// VRRP.
    #[prost(message, tag = "6")]
    Vrrp(Vrrp),
    /// IGMP.
    #[prost(message, tag = "7")]
    Igmp(Igmp),
}

/// A TCP segment.
#[derive(Clone, PartialEq, Message)]
pub struct Tcp {
    /// Sender's port.
    #[prost(uint32, tag = "1")]
    pub source_port: u32,
    /// Receiver's port.
    #[prost(uint32, tag = "2")]
    pub destination_port: u32,
    /// Flags.
    #[prost(message, optional, tag = "3")]
    pub flags: Option<TcpFlagSet>,
}

/// TCP's flags.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
#[expect(missing_docs, reason = "the names are TCP's")]
pub struct TcpFlagSet {
    #[prost(bool, tag = "1")]
    pub fin: bool,
    #[prost(bool, tag = "2")]
    pub syn: bool,
    #[prost(bool, tag = "3")]
    pub rst: bool,
    #[prost(bool, tag = "4")]
    pub psh: bool,
    #[prost(bool, tag = "5")]
    pub ack: bool,
    #[prost(bool, tag = "6")]
    pub urg: bool,
    #[prost(bool, tag = "7")]
    pub ece: bool,
    #[prost(bool, tag = "8")]
    pub cwr: bool,
    #[prost(bool, tag = "9")]
    pub ns: bool,
}

/// Ports of UDP and SCTP.
#[derive(Clone, PartialEq, Message)]
pub struct Ports {
    /// Sender's port.
    #[prost(uint32, tag = "1")]
    pub source_port: u32,
    /// Receiver's port.
    #[prost(uint32, tag = "2")]
    pub destination_port: u32,
}

/// An ICMP message.
#[derive(Clone, PartialEq, Message)]
pub struct Icmp {
    /// Its type.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// Its code.
    #[prost(uint32, tag = "2")]
    pub code: u32,
}

/// A VRRP message.
#[derive(Clone, PartialEq, Message)]
pub struct Vrrp {
    /// Its type.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The router's number.
    #[prost(uint32, tag = "2")]
    pub vrid: u32,
    /// Its priority.
    #[prost(uint32, tag = "3")]
    pub priority: u32,
}

/// An IGMP message.
#[derive(Clone, PartialEq, Message)]
pub struct Igmp {
    /// Its type.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The group.
    #[prost(string, tag = "2")]
    pub group_address: String,
}

/// One end of a flow.
#[derive(Clone, PartialEq, Message)]
pub struct FlowEndpoint {
    /// Its number, if it is on this node.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Its identity.
    #[prost(uint32, tag = "2")]
    pub identity: u32,
    /// Its pod's namespace.
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// Its identity's labels.
    #[prost(string, repeated, tag = "4")]
    pub labels: Vec<String>,
    /// Its pod.
    #[prost(string, tag = "5")]
    pub pod_name: String,
    /// What made its pod.
    #[prost(message, repeated, tag = "6")]
    pub workloads: Vec<Workload>,
    /// Its cluster.
    #[prost(string, tag = "7")]
    pub cluster_name: String,
}

/// What makes pods.
#[derive(Clone, PartialEq, Message)]
pub struct Workload {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its kind, `Deployment`.
    #[prost(string, tag = "2")]
    pub kind: String,
}

/// A service.
#[derive(Clone, PartialEq, Message)]
pub struct FlowService {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
}

/// Which record a flow comes of.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct EventType {
    /// See [`event`].
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Drop reason or observation point.
    #[prost(int32, tag = "2")]
    pub sub_type: i32,
}

/// An interface of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NetworkInterface {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// A place in the datapath's source.
#[derive(Clone, PartialEq, Message)]
pub struct SourceFile {
    /// The file.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The line.
    #[prost(uint32, tag = "2")]
    pub line: u32,
}

/// Who tells of flows.
#[derive(Clone, PartialEq, Message)]
pub struct Emitter {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A policy that decided.
#[derive(Clone, PartialEq, Message)]
pub struct FlowPolicy {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Labels of its rules.
    #[prost(string, repeated, tag = "3")]
    pub labels: Vec<String>,
    /// The revision since which it is in force.
    #[prost(uint64, tag = "4")]
    pub revision: u64,
    /// Its kind.
    #[prost(string, tag = "5")]
    pub kind: String,
}

/// Events that are not there.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LostEvent {
    /// See [`lost`].
    #[prost(int32, tag = "1")]
    pub source: i32,
    /// How many; 0 where nobody can know.
    #[prost(uint64, tag = "2")]
    pub num_events_lost: u64,
    /// Whose.
    #[prost(message, optional, tag = "3")]
    pub cpu: Option<i32>,
    /// When the first was lost.
    #[prost(message, optional, tag = "4")]
    pub first: Option<Timestamp>,
    /// When the last was.
    #[prost(message, optional, tag = "5")]
    pub last: Option<Timestamp>,
}

/// Where events are lost: `LostEventSource`.
pub mod lost {
    /// The kernel had no room.
    pub const KERNEL: i32 = 1;
    /// The agent's queue had none.
    pub const QUEUE: i32 = 2;
    /// They were overwritten before they were read.
    pub const RING: i32 = 3;
}
