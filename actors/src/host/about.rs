//! What a step outside of the host is about, for traces.

use std::{fmt, net::IpAddr};

use serde::Serialize;

/// What a step in the kernel is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// All there is.
    All,
    /// An endpoint, by number.
    Endpoint(u16),
    /// An interface, by number.
    Interface(u32),
    /// A slot of the policy map of maps.
    Slot(u32),
    /// An address.
    Address(IpAddr),
    /// So many rows.
    Rows(usize),
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Endpoint(endpoint) => write!(f, "endpoint {endpoint}"),
            Self::Interface(ifindex) => write!(f, "interface {ifindex}"),
            Self::Slot(slot) => write!(f, "slot {slot}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Rows(1) => f.write_str("1 row"),
            Self::Rows(rows) => write!(f, "{rows} rows"),
        }
    }
}
