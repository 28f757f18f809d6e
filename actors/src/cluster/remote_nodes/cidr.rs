//! A prefix as nodes announce it in the store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::{Engine, prelude::BASE64_STANDARD};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// A prefix, its mask as bytes in base64.
#[derive(Serialize, Deserialize)]
pub(super) struct Cidr {
    #[serde(rename = "IP")]
    ip: IpAddr,
    #[serde(rename = "Mask")]
    mask: String,
}

/// It is no prefix, or none of that family.
pub(super) struct NoPrefix;

impl From<Ipv4Net> for Cidr {
    fn from(prefix: Ipv4Net) -> Self {
        let mask = BASE64_STANDARD.encode(prefix.netmask().octets());
        Self { ip: prefix.network().into(), mask }
    }
}

impl From<Ipv6Net> for Cidr {
    fn from(prefix: Ipv6Net) -> Self {
        let mask = BASE64_STANDARD.encode(prefix.netmask().octets());
        Self { ip: prefix.network().into(), mask }
    }
}

impl TryFrom<Cidr> for Ipv4Net {
    type Error = NoPrefix;

    fn try_from(cidr: Cidr) -> Result<Self, NoPrefix> {
        let IpAddr::V4(ip) = cidr.ip else { return Err(NoPrefix) };
        let mask = BASE64_STANDARD.decode(&cidr.mask).map_err(|_| NoPrefix)?;
        let mask: [u8; 4] = mask.try_into().map_err(|_| NoPrefix)?;
        Self::with_netmask(ip, Ipv4Addr::from(mask)).map_err(|_| NoPrefix)
    }
}

impl TryFrom<Cidr> for Ipv6Net {
    type Error = NoPrefix;

    fn try_from(cidr: Cidr) -> Result<Self, NoPrefix> {
        let IpAddr::V6(ip) = cidr.ip else { return Err(NoPrefix) };
        let mask = BASE64_STANDARD.decode(&cidr.mask).map_err(|_| NoPrefix)?;
        let mask: [u8; 16] = mask.try_into().map_err(|_| NoPrefix)?;
        Self::with_netmask(ip, Ipv6Addr::from(mask)).map_err(|_| NoPrefix)
    }
}
