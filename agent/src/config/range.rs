//! Settings of the prefixes from which pods have their addresses: given, or derived from the node.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Serialize, Serializer};

/// A prefix for the addresses of pods, given or to be derived from the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range<N> {
    /// Derived from the node's IPv4 address.
    Auto,
    /// This one.
    Given(N),
}

/// A text that is no usable prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Not a prefix at all.
    #[error("{0:?} is no prefix: write auto, 10.1.0.0/16 or fd00:1::/96")]
    Syntax(String),
    /// No room for a gateway and pods.
    #[error("a prefix of {0} bits leaves no room for pods: {1} bits are the most")]
    Narrow(u8, u8),
    /// Addresses that are no pod's.
    #[error("{0} is for loopback, multicast or link-local addresses, which no pod can have")]
    Special(String),
}

/// Bits of the longest prefix that has room for a gateway and pods.
const LONGEST: (u8, u8) = (30, 126);

impl Range<Ipv4Net> {
    /// The prefix; by default 10.N.0.0/16, N being the last byte of the node's address.
    pub fn or_auto(self, node: Ipv4Addr) -> Ipv4Net {
        match self {
            Self::Given(net) => net,
            Self::Auto => Ipv4Net::new_assert(Ipv4Addr::new(10, node.octets()[3], 0, 0), 16),
        }
    }
}

impl Range<Ipv6Net> {
    /// The prefix; by default f00d::A.B.C.D:0:0/96, A.B.C.D being the node's IPv4 address.
    pub fn or_auto(self, node: Ipv4Addr) -> Ipv6Net {
        match self {
            Self::Given(net) => net,
            Self::Auto => {
                let address = (0xf00d_u128 << 112) | (u128::from(node.to_bits()) << 32);
                Ipv6Net::new_assert(address.into(), 96)
            }
        }
    }
}

impl FromStr for Range<Ipv4Net> {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        parse(text, LONGEST.0, |net: &Ipv4Net| {
            let first = net.addr();
            let special = first.is_loopback() || first.is_multicast() || first.is_link_local();
            (net.prefix_len(), special || first.is_broadcast() || first.is_unspecified())
        })
        .map(|net| net.map_or(Self::Auto, |net| Self::Given(net.trunc())))
    }
}

impl FromStr for Range<Ipv6Net> {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        parse(text, LONGEST.1, |net: &Ipv6Net| {
            let first = net.addr();
            let special = first.is_loopback() || first.is_multicast() || first.is_unspecified();
            (net.prefix_len(), special || first.is_unicast_link_local())
        })
        .map(|net| net.map_or(Self::Auto, |net| Self::Given(net.trunc())))
    }
}

/// `look` tells a prefix's length and whether it is special.
fn parse<N: FromStr>(
    text: &str,
    longest: u8,
    look: impl Fn(&N) -> (u8, bool),
) -> Result<Option<N>, RangeError> {
    if text == "auto" {
        return Ok(None);
    }
    let net = text.parse().map_err(|_| RangeError::Syntax(text.to_owned()))?;
    match look(&net) {
        (bits, _) if bits > longest => Err(RangeError::Narrow(bits, longest)),
        (_, true) => Err(RangeError::Special(text.to_owned())),
        _ => Ok(Some(net)),
    }
}

impl<N: fmt::Display> fmt::Display for Range<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Given(net) => net.fmt(f),
        }
    }
}

impl<N: fmt::Display> Serialize for Range<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_prefixes_from_the_node() {
        let node = Ipv4Addr::new(192, 168, 33, 11);
        assert_eq!(Range::<Ipv4Net>::Auto.or_auto(node).to_string(), "10.11.0.0/16");
        assert_eq!(Range::<Ipv6Net>::Auto.or_auto(node).to_string(), "f00d::c0a8:210b:0:0/96");
        let given: Range<Ipv4Net> = "10.7.1.9/24".parse().unwrap();
        assert_eq!(given.or_auto(node).to_string(), "10.7.1.0/24");
    }

    #[test]
    fn refuses_what_no_pod_can_have() {
        for text in ["10.0.0.0", "10.0.0.0/31", "127.0.0.0/8", "224.0.0.0/4", "fd00::/64", ""] {
            assert!(text.parse::<Range<Ipv4Net>>().is_err(), "{text}");
        }
        for text in ["fd00::/127", "ff02::/16", "fe80::/64", "::/0", "10.0.0.0/16"] {
            assert!(text.parse::<Range<Ipv6Net>>().is_err(), "{text}");
        }
    }
}
