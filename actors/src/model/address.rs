//! Addresses of one endpoint or node: MAC, IPv4 and IPv6.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// An Ethernet address, written `aa:bb:cc:dd:ee:ff`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address: six hexadecimal bytes with colons between are expected")]
pub struct MacError(String);

impl Mac {
    /// Whether no address is known.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            *byte = parts
                .next()
                .filter(|part| part.len() == 2)
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or_else(|| MacError(text.to_owned()))?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(MacError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = MacError;

    /// An empty text is the absent address, as state files write it.
    fn try_from(text: String) -> Result<Self, MacError> {
        if text.is_empty() { Ok(Self::default()) } else { text.parse() }
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        if mac.is_zero() { Self::new() } else { mac.to_string() }
    }
}

/// The addresses of one endpoint, at most one of each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Addresses {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

impl Addresses {
    /// Each address there is, IPv4 first.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }
}

/// Of each family the first.
impl FromIterator<IpAddr> for Addresses {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(all: T) -> Self {
        let mut addresses = Self::default();
        for address in all {
            match address {
                IpAddr::V4(address) => drop(addresses.ipv4.get_or_insert(address)),
                IpAddr::V6(address) => drop(addresses.ipv6.get_or_insert(address)),
            }
        }
        addresses
    }
}
