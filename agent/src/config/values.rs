//! Types of settings that are one of a few words or an address, and parsers for other values.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use volvox_actors::{node::local_node::IpamMode, services::service_cache::Algorithm};
use volvox_system::duration::parse_duration;

use super::options::List;

/// How packets reach other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingMode {
    /// By the node's routes
    Native,
    /// In tunnels between nodes
    Tunnel,
}

/// How packets in tunnels look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TunnelProtocol {
    /// VXLAN
    Vxlan,
    /// GENEVE; not here
    Geneve,
}

/// Which endpoints have their policy enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EnablePolicy {
    /// Those that a policy selects
    Default,
    /// All
    Always,
    /// None
    Never,
}

/// How a service's backend is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LbAlgorithm {
    /// By chance
    Random,
    /// By a table that all nodes compute alike
    Maglev,
}

/// Whom a backend on another node sees and answers, of those who come from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LbMode {
    /// The node that they came to
    Snat,
    /// Themselves: the same on all nodes, or on none
    Dsr,
}

/// What becomes of what nobody serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoBackendResponse {
    /// It is refused: by a reset of TCP, else by an ICMP error
    Reject,
    /// It drops in silence
    Drop,
}

impl From<LbAlgorithm> for Algorithm {
    fn from(algorithm: LbAlgorithm) -> Self {
        match algorithm {
            LbAlgorithm::Random => Self::Random,
            LbAlgorithm::Maglev => Self::Maglev,
        }
    }
}

/// Sizes of Maglev's table, as Cilium has them.
const TABLE_SIZES: [u32; 10] = [251, 509, 1021, 2039, 4093, 8191, 16_381, 32_749, 65_521, 131_071];

/// Reads the size of Maglev's table.
pub(super) fn parse_table_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| TABLE_SIZES.contains(size));
    size.ok_or_else(|| {
        let all = TABLE_SIZES.map(|size| size.to_string()).join(", ");
        format!("{text:?} is no size of a table: one of {all} is expected")
    })
}

/// Who gives a node the prefixes of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipam {
    /// Kubernetes, in the spec of its Node
    Kubernetes,
    /// Cilium's operator, in the spec of its CiliumNode
    ClusterPool,
    /// The same, out of several pools and as many as are needed, as long as the agent runs
    MultiPool,
}

impl From<Ipam> for IpamMode {
    fn from(ipam: Ipam) -> Self {
        match ipam {
            Ipam::Kubernetes => Self::Kubernetes,
            Ipam::ClusterPool => Self::ClusterPool,
            Ipam::MultiPool => Self::MultiPool,
        }
    }
}

/// A store that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvStoreKind {
    /// etcd, version 3
    Etcd,
    /// The same by another client, where the agent was built with it
    EtcdRs,
    /// A file in the library directory, for a cluster of one node
    Embedded,
}

impl KvStoreKind {
    /// Whether it has servers, which --kvstore-opt names.
    pub fn has_servers(self) -> bool {
        matches!(self, Self::Etcd | Self::EtcdRs)
    }
}

/// What to do where the agent was built without the other client.
pub const WITHOUT_ETCD_RS: &str = "this agent was built without it; say --kvstore=etcd, or build it \
    with cargo build --release --package volvox-agent --features etcd-rs";

/// Where the nodes of a cluster agree on the numbers of identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityAllocationMode {
    /// The store that --kvstore names; if there is none each node has numbers of its own
    Kvstore,
    /// Objects of the API server
    Crd,
}

/// Whether the node always reaches its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AllowLocalhost {
    /// As always, so that probes of the kubelet arrive
    Auto,
    /// Whatever the policies say
    Always,
    /// As the policies say
    Policy,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What failed and needs somebody
    Error,
    /// What is odd as well
    Warn,
    /// What happens as well
    Info,
    /// What a developer wants to know as well
    Debug,
    /// Everything
    Trace,
}

/// How it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people
    Text,
    /// For programs: one object a line
    Json,
}

/// Reads a switch as Go does.
pub(super) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// Reads a list of words, with spaces or commas between.
#[allow(clippy::unnecessary_wraps, reason = "a parser of flags returns a result")]
pub(super) fn parse_list(text: &str) -> Result<List, String> {
    Ok(text.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// Longest time that a lease may last.
const LEASE_TTL_MAX: Duration = Duration::from_secs(24 * 3600);

/// Reads how long a lease lasts: seconds, as the store counts.
pub(super) fn parse_lease_ttl(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    let fits = (Duration::from_secs(1)..=LEASE_TTL_MAX).contains(&span);
    fits.then_some(span).ok_or_else(|| "1s to 24h are expected".to_owned())
}

/// Reads a share of something, 0 to 1.
pub(super) fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a number from 0 to 1 is expected".to_owned())
}

/// An address to listen on, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// Reads an address to listen on as [`parse_listen_address`] does; nothing is none.
pub(super) fn parse_optional_address(text: &str) -> Result<OptionalAddress, String> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    parse_listen_address(text).map(|address| OptionalAddress(Some(address)))
}

/// An address, if there is one before the port: `:PORT` has none.
pub(super) fn host_and_port(text: &str) -> Option<(Option<IpAddr>, u16)> {
    let local = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if let Some(port) = text.strip_prefix(':') {
        return Some((None, port.parse().ok()?));
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some((local, port.parse().ok()?));
    }
    let address: SocketAddr = text.parse().ok()?;
    Some((Some(address.ip()), address.port()))
}

/// Reads an address to listen on; `:PORT` is on loopback, other addresses are refused.
pub(super) fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    let parts = host_and_port(text).ok_or("write it like 127.0.0.1:9962 or :9962")?;
    let address = SocketAddr::new(parts.0.unwrap_or(Ipv4Addr::LOCALHOST.into()), parts.1);
    if !address.ip().is_loopback() {
        return Err(format!(
            "{} can be reached from elsewhere, which is not allowed without encryption, and that \
             does not exist yet: write :{}",
            address.ip(),
            address.port()
        ));
    }
    Ok(address)
}

/// The socket of the container runtime, if one is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RuntimeEndpoint(PathBuf);

impl RuntimeEndpoint {
    /// The socket.
    pub fn socket(&self) -> Option<&Path> {
        (!self.0.as_os_str().is_empty()).then_some(&*self.0)
    }
}

/// Reads the path of a socket, also as kubelet writes it: `unix:///run/containerd/containerd.sock`. Nothing
/// is none.
pub(super) fn parse_runtime_endpoint(text: &str) -> Result<RuntimeEndpoint, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    match path.is_empty() || path.starts_with('/') {
        true => Ok(RuntimeEndpoint(PathBuf::from(path))),
        false => Err("write it like /run/containerd/containerd.sock, or \"\" for none".to_owned()),
    }
}

/// The node's own address of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAddress<A> {
    /// To be found out.
    Auto,
    /// This one.
    Given(A),
}

impl<A> NodeAddress<A> {
    /// The one that was given.
    pub fn given(self) -> Option<A> {
        match self {
            Self::Auto => None,
            Self::Given(address) => Some(address),
        }
    }
}

impl<A: FromStr> FromStr for NodeAddress<A> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Given).map_err(|_| {
                format!(
                    "{text:?} is no address of that family: write auto, or an address of this node"
                )
            }),
        }
    }
}

impl<A: fmt::Display> fmt::Display for NodeAddress<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Given(address) => address.fmt(f),
        }
    }
}

impl<A: fmt::Display> Serialize for NodeAddress<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
