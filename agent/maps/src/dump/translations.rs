//! The maps of address translation (SNAT), read without an agent.

use std::net::IpAddr;

use serde::Serialize;
use volvox_bpf_progs::layouts::{Be16, Nat4Key, Nat4Row, Nat6Key, Nat6Row, TupleFlags};

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
            let ends = [(key.saddr, key.sport), (key.daddr, key.dport), (row.address, row.port)];
            found.push(translation(key.protocol, key.flags, ends, row.created));
        })?;
        let ipv6 = self.table("cilium_snat_v6_external")?;
        ipv6.for_each(|key: Nat6Key, row: Nat6Row| {
            let ends = [(key.saddr, key.sport), (key.daddr, key.dport), (row.address, row.port)];
            found.push(translation(key.protocol, key.flags, ends, row.created));
        })?;
        found.sort_by_key(|it| (it.direction != "out", it.from, it.to, it.protocol));
        Ok(found)
    }
}

/// The row of a packet with these ends, of which one becomes the third.
fn translation<A: Into<IpAddr>>(
    protocol: u8,
    flags: u8,
    ends: [(A, Be16); 3],
    created: u64,
) -> Translation {
    let direction = if flags & TupleFlags::IN == 0 { "out" } else { "in" };
    let peer = |(address, port): (A, Be16)| Peer { address: address.into(), port: port.get() };
    let [from, to, becomes] = ends.map(peer);
    Translation { protocol, direction, from, to, becomes, created }
}
