//! What a node's programs are loaded with: constants, so that the verifier removes the rest.

use crate::layouts::ConfigFlags;
use crate::maps::{MAGLEV_SIZE, MapUse};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Unless configured otherwise.
const NAT_PORTS: (u16, u16) = (32768, 65535);
/// Unless configured otherwise.
const LOOPBACK_IPV4: Ipv4Addr = Ipv4Addr::new(169, 254, 42, 1);
/// Unless configured otherwise.
const LOOPBACK_IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Parts of the datapath that may be switched off; then their maps are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(u8);

impl Parts {
    /// What is asked for at the node's own addresses, and at others outside the cluster's, is served.
    /// Without it another program of the node does that.
    pub const NODE_PORT: Self = Self(1);
    /// Addresses of the node stand for others', by IPv4
    pub const NAT_IPV4: Self = Self(1 << 1);
    /// and by IPv6:
    pub const NAT_IPV6: Self = Self(1 << 2);
    /// for what endpoints send to the world, by IPv4
    pub const MASQUERADE_IPV4: Self = Self(1 << 3);
    /// and by IPv6.
    pub const MASQUERADE_IPV6: Self = Self(1 << 4);
    /// Some services have Maglev tables.
    pub const MAGLEV: Self = Self(1 << 5);
    /// Load is balanced by socket.
    pub const SOCKETS: Self = Self(1 << 6);
    /// Packets are handed over past the node's stack. Where another program serves or filters there by
    /// connections it has to see each packet.
    pub const PAST_STACK: Self = Self(1 << 7);
    /// All of them.
    pub const ALL: Self = Self(0xff);

    /// These without others.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether all of these are on.
    pub const fn has(self, parts: Self) -> bool {
        self.0 & parts.0 == parts.0
    }
}

/// A feature set. Endpoints of one node share it; what differs between them is in their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// IPv4 passes; otherwise it drops (139).
    pub ipv4: bool,
    /// IPv6 passes; otherwise it drops (139).
    pub ipv6: bool,
    /// What else is switched on.
    pub parts: Parts,
    /// The notify bits of [`ConfigFlags`] that endpoints may switch on.
    pub notify: u8,
    /// Packets are counted per policy row in `cilium_policystats`.
    pub policy_stats: bool,
    /// Seconds after which a connection is reported again, where connections are aggregated.
    pub report_interval: u16,
    /// TCP flags, as in byte 13 of the header, that have a connection reported at once when it
    /// shows them first.
    pub report_flags: u8,
    /// What the node itself hears and sends is subject to its own policy, whose row of
    /// `volvox_config` is that of [`HOST_IFINDEX`](crate::layouts::HOST_IFINDEX). Without that row
    /// all of it passes.
    pub host_firewall: bool,
    /// What clients outside send to a service keeps its source on the way to a backend behind another
    /// node, which answers them itself (direct server return). All nodes of a cluster have it, or
    /// none.
    pub dsr: bool,
    /// Only by services whose row has [`LbFlags2::DIRECT_RETURN`](crate::layouts::LbFlags2::DIRECT_RETURN).
    pub dsr_by_service: bool,
    /// What is for a service and nobody serves is refused at once, rather than dropped.
    pub refuse: bool,
    /// Backends in a service's Maglev table.
    pub maglev: u32,
    /// The first and the last of the ports that may stand for others' on the node's addresses.
    pub nat_ports: (u16, u16),
    /// Stands in for the address of an endpoint that speaks with itself by a service of IPv4.
    pub loopback_ipv4: Ipv4Addr,
    /// The same for IPv6: an address of the link, so that the endpoint answers by its interface.
    pub loopback_ipv6: Ipv6Addr,
}

impl Default for Features {
    fn default() -> Self {
        let notify =
            ConfigFlags::TRACE_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::DROP_NOTIFY;
        Self {
            ipv4: true,
            ipv6: true,
            parts: Parts::ALL,
            notify: notify as u8,
            policy_stats: false,
            report_interval: 5,
            report_flags: 0b111,
            host_firewall: false,
            dsr: false,
            dsr_by_service: false,
            refuse: true,
            maglev: MAGLEV_SIZE,
            nat_ports: NAT_PORTS,
            loopback_ipv4: LOOPBACK_IPV4,
            loopback_ipv6: LOOPBACK_IPV6,
        }
    }
}

impl Features {
    /// The globals of the object and their values, for the loader to set.
    pub const fn globals(self) -> [(&'static str, u32); 22] {
        let [a, b, c, d] = words(self.loopback_ipv6.octets());
        [
            ("ENABLE_IPV4", self.ipv4 as u32),
            ("ENABLE_IPV6", self.ipv6 as u32),
            ("NOTIFY", self.notify as u32),
            ("POLICY_STATS", self.policy_stats as u32),
            ("REPORT_INTERVAL", self.report_interval as u32),
            ("REPORT_FLAGS", self.report_flags as u32),
            ("ENABLE_HOST_FIREWALL", self.host_firewall as u32),
            ("ENABLE_DSR", self.dsr as u32),
            ("DSR_BY_SERVICE", self.dsr_by_service as u32),
            ("REFUSE_UNSERVED", self.refuse as u32),
            ("ENABLE_NODE_PORT", self.parts.has(Parts::NODE_PORT) as u32),
            ("ENABLE_PAST_STACK", self.parts.has(Parts::PAST_STACK) as u32),
            ("ENABLE_NAT_IPV4", self.uses(MapUse::Nat4) as u32),
            ("ENABLE_NAT_IPV6", self.uses(MapUse::Nat6) as u32),
            ("MAGLEV", self.maglev),
            ("NAT_PORT_MIN", self.nat_ports.0 as u32),
            ("NAT_PORT_MAX", self.nat_ports.1 as u32),
            ("LOOPBACK_IPV4", u32::from_ne_bytes(self.loopback_ipv4.octets())),
            ("LOOPBACK_IPV6_A", a),
            ("LOOPBACK_IPV6_B", b),
            ("LOOPBACK_IPV6_C", c),
            ("LOOPBACK_IPV6_D", d),
        ]
    }

    /// Whether maps of that use are there. Nothing else says which belong to what is switched off.
    pub const fn uses(self, of: MapUse) -> bool {
        let on = self.parts;
        match of {
            MapUse::Always => true,
            MapUse::Ipv4 => self.ipv4,
            MapUse::Ipv6 => self.ipv6,
            MapUse::Nat4 => self.ipv4 && on.has(Parts::NAT_IPV4),
            MapUse::Nat6 => self.ipv6 && on.has(Parts::NAT_IPV6),
            MapUse::Masquerade4 => self.ipv4 && on.has(Parts::MASQUERADE_IPV4),
            MapUse::Masquerade6 => self.ipv6 && on.has(Parts::MASQUERADE_IPV6),
            MapUse::SourceRanges4 => self.ipv4 && on.has(Parts::NODE_PORT),
            MapUse::SourceRanges6 => self.ipv6 && on.has(Parts::NODE_PORT),
            MapUse::Maglev => on.has(Parts::MAGLEV),
            MapUse::Maglev4 => self.ipv4 && on.has(Parts::MAGLEV),
            MapUse::Maglev6 => self.ipv6 && on.has(Parts::MAGLEV),
            MapUse::Sockets => on.has(Parts::SOCKETS),
            MapUse::Sockets4 => self.ipv4 && on.has(Parts::SOCKETS),
            MapUse::Sockets6 => self.ipv6 && on.has(Parts::SOCKETS),
        }
    }

    /// The set as a number, for [`crate::layouts::NodeRow::features`]. Loopback addresses and
    /// ports other than the default ones count by a hash.
    pub const fn bits(self) -> u64 {
        let bits = self.ipv4 as u64
            | (self.ipv6 as u64) << 1
            | (self.policy_stats as u64) << 2
            | (self.host_firewall as u64) << 3
            | (self.dsr as u64) << 4
            | (!self.refuse as u64) << 5
            | (self.dsr_by_service as u64) << 6
            | (!self.parts.has(Parts::PAST_STACK) as u64) << 7
            | ((!self.parts.0 & 0x7f) as u64) << 57
            | (self.notify as u64) << 8
            | (self.report_flags as u64) << 16
            | (self.report_interval as u64) << 24
            | (self.maglev as u64) << 40;
        let own = hash(self.loopback_ipv4, self.loopback_ipv6, self.nat_ports);
        bits ^ own ^ hash(LOOPBACK_IPV4, LOOPBACK_IPV6, NAT_PORTS)
    }
}

/// An address as the words that programs compare, in network order.
const fn words(bytes: [u8; 16]) -> [u32; 4] {
    let (mut words, mut at) = ([0; 4], 0);
    while at < 4 {
        let n = at * 4;
        words[at] = u32::from_ne_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]);
        at += 1;
    }
    words
}

/// FNV-1a over addresses and ports.
const fn hash(ipv4: Ipv4Addr, ipv6: Ipv6Addr, ports: (u16, u16)) -> u64 {
    let (short, long) = (ipv4.octets(), ipv6.octets());
    let (first, last) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let ports = [first[0], first[1], last[0], last[1]];
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < 24 {
        let byte = match at {
            0..4 => short[at],
            4..20 => long[at - 4],
            _ => ports[at - 20],
        };
        hash = (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}
