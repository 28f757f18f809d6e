//! What `peer.Peer` and `grpc.health.v1.Health` are asked and answer.

use prost::Message;

/// A node came, went or changed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ChangeNotification {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Where its Hubble listens.
    #[prost(string, tag = "2")]
    pub address: String,
    /// 1 added, 2 deleted, 3 updated.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    /// Whether it wants TLS.
    #[prost(message, optional, tag = "4")]
    pub tls: Option<PeerTls>,
}

/// How a node wants TLS.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PeerTls {
    /// The name in its certificate.
    #[prost(string, tag = "1")]
    pub server_name: String,
}

/// Whether a service is served.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HealthCheckRequest {
    /// Which; empty is the server.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// How a service is.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HealthCheckResponse {
    /// 1 serving, 2 not, 3 unknown.
    #[prost(int32, tag = "1")]
    pub status: i32,
}
