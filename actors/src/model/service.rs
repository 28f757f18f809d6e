//! The words for load balancing: frontends, backends, their numbers, ports and protocols.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Serialize, Serializer};

/// A service's number on this node, 1 to 65535: each frontend has one of its own. Cilium also calls
/// it the index for reverse translation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ServiceId(pub u16);

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A backend's number on this node, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BackendId(pub u32);

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transport protocol, by its number in IP headers. 0 stands for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transport(pub u8);

impl Transport {
    /// Any of them.
    pub const ANY: Self = Self(0);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// SCTP.
    pub const SCTP: Self = Self(132);

    /// The one of that name; `None` if there is no such.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "TCP" => Self::TCP,
            "UDP" => Self::UDP,
            "SCTP" => Self::SCTP,
            "ANY" => Self::ANY,
            _ => return None,
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ANY => f.write_str("ANY"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::SCTP => f.write_str("SCTP"),
            Self(other) => write!(f, "{other}"),
        }
    }
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a service or one of its backends is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct L4Address {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub transport: Transport,
}

impl L4Address {
    /// Address and port.
    pub fn socket(self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

impl fmt::Display for L4Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.socket(), self.transport)
    }
}

/// Why a text is no place of a service or backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no ADDRESS:PORT/PROTOCOL, as 10.0.0.1:80/TCP or [fd00::1]:53/UDP")]
pub struct L4AddressError(String);

/// As it is shown; of any case, and of TCP if no protocol is said.
impl FromStr for L4Address {
    type Err = L4AddressError;

    fn from_str(text: &str) -> Result<Self, L4AddressError> {
        let (socket, transport) = text.split_once('/').unwrap_or((text, "TCP"));
        let transport = Transport::named(&transport.to_uppercase());
        let parsed = socket.parse::<SocketAddr>().ok().zip(transport);
        let of = |(socket, transport): (SocketAddr, _)| Self {
            address: socket.ip(),
            port: socket.port(),
            transport,
        };
        parsed.map(of).ok_or_else(|| L4AddressError(text.to_owned()))
    }
}

impl Serialize for L4Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whose packets a frontend is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LookupScope {
    /// Everyone's, or those from outside the cluster if there is one for inside as well.
    #[default]
    External = 0,
    /// Those from inside the cluster.
    Internal = 1,
}

/// Where a service is reached, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// Where.
    pub at: L4Address,
    /// By whom.
    pub scope: LookupScope,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            LookupScope::External => self.at.fmt(f),
            LookupScope::Internal => write!(f, "{}/i", self.at),
        }
    }
}

impl Serialize for Frontend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
