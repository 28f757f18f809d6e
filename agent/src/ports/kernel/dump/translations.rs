use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use volvox_bpf_progs::layouts::{Nat4Key, Nat4Row, Nat6Key, Nat6Row, TupleFlags};

use super::{DatapathError, Dump, Peer};

/// A row of the maps of address translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Translation {
    /// IP protocol number.
    pub protocol: u8,
    /// `out` where the source becomes another, `in` where the destination does.
    pub direction: &'static str,
    /// The packet's source.
    pub from: Peer,
    /// The packet's destination.
    pub to: Peer,
    /// What the source, or the destination, becomes.
    pub becomes: Peer,
    /// Second of the monotonic clock in which the row was made.
    pub created: u64,
}

impl Dump {
    /// `cilium_snat_v4_external` and `…_v6_…`, IPv4 first, in order of the packets' ends.
    pub fn translations(&self) -> Result<Vec<Translation>, DatapathError> {
        let mut found = Vec::new();
        let ipv4 = self.table("cilium_snat_v4_external")?;
        ipv4.for_each(|key: Nat4Key, row: Nat4Row| {
            let peer =
                |address: [u8; 4], port| Peer { address: Ipv4Addr::from(address).into(), port };
            found.push(Translation {
                protocol: key.protocol,
                direction: direction(key.flags),
                from: peer(key.saddr, key.sport.get()),
                to: peer(key.daddr, key.dport.get()),
                becomes: peer(row.address, row.port.get()),
                created: row.created,
            });
        })?;
        let ipv6 = self.table("cilium_snat_v6_external")?;
        ipv6.for_each(|key: Nat6Key, row: Nat6Row| {
            let peer =
                |address: [u8; 16], port| Peer { address: Ipv6Addr::from(address).into(), port };
            found.push(Translation {
                protocol: key.protocol,
                direction: direction(key.flags),
                from: peer(key.saddr, key.sport.get()),
                to: peer(key.daddr, key.dport.get()),
                becomes: peer(row.address, row.port.get()),
                created: row.created,
            });
        })?;
        found.sort_by_key(|it| (it.direction != "out", it.from, it.to, it.protocol));
        Ok(found)
    }
}

fn direction(flags: u8) -> &'static str {
    if flags & TupleFlags::IN == 0 { "out" } else { "in" }
}
