//! `cilium_policy_v2_NNNNN`, the inner maps of `volvox_policy`, and `cilium_policystats`.

use super::Be16;
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Which way a policy looks, from the endpoint. The number is the one in verdict records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// Towards the endpoint.
    Ingress = 1,
    /// From the endpoint.
    Egress = 2,
}

/// Row of `volvox_policy` for an endpoint: a change is built in the slot of the other parity, then
/// one [`super::ConfigRow`] names it.
pub const fn policy_slot(ep_id: u16, parity: u8) -> u32 {
    ep_id as u32 * 2 + (parity & 1) as u32
}

/// Key of a policy map: a prefix over identity, direction, protocol and port.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct PolicyKey {
    /// 40 (identity and direction), plus 8 with a protocol, plus up to 16 bits of port.
    pub prefix_len: u32,
    /// Peer identity; 0 matches every peer.
    pub identity: u32,
    /// Bit 0: egress.
    pub egress: u8,
    /// IP protocol; 0 if it is not part of the prefix.
    pub protocol: u8,
    /// Destination port, or ICMP type; a range is the prefix its leading bits make.
    pub port: Be16,
}

impl PolicyKey {
    /// Prefix length without protocol and port.
    pub const STATIC_BITS: u32 = 40;
    /// Prefix length with protocol and exact port.
    pub const FULL_BITS: u32 = 64;

    /// Every protocol and port of a peer.
    pub const fn any(direction: Direction, identity: u32) -> Self {
        Self {
            prefix_len: Self::STATIC_BITS,
            identity,
            egress: matches!(direction, Direction::Egress) as u8,
            protocol: 0,
            port: Be16::ZERO,
        }
    }

    /// Every port of one protocol.
    pub const fn protocol(direction: Direction, identity: u32, protocol: u8) -> Self {
        Self { prefix_len: Self::STATIC_BITS + 8, protocol, ..Self::any(direction, identity) }
    }

    /// The ports that agree with `port` in their first `port_bits` (at most 16) bits.
    pub const fn ports(
        direction: Direction,
        identity: u32,
        protocol: u8,
        port: u16,
        port_bits: u8,
    ) -> Self {
        let bits = if port_bits > 16 { 16 } else { port_bits };
        let mask = if bits == 0 { 0 } else { u16::MAX << (16 - bits) };
        Self {
            prefix_len: Self::STATIC_BITS + 8 + bits as u32,
            port: Be16::new(port & mask),
            ..Self::protocol(direction, identity, protocol)
        }
    }

    /// The direction that the key speaks of.
    pub const fn direction(&self) -> Direction {
        if self.egress & 1 == 1 { Direction::Egress } else { Direction::Ingress }
    }

    /// Bits of protocol and port in the prefix, 0 to 24; the row repeats them.
    pub const fn l4_bits(&self) -> u8 {
        self.prefix_len.saturating_sub(Self::STATIC_BITS) as u8
    }
}

/// Value of a policy map.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct PolicyRow {
    /// Proxy to redirect to, 0 for none. Without a proxy such a row drops (180): it fails closed.
    pub proxy_port: Be16,
    /// Bit 0 deny; bits 3 to 7 the key's protocol and port bits, see [`PolicyKey::l4_bits`].
    pub flags: u8,
    /// Authentication type in the low seven bits, bit 7 if it was asked for explicitly.
    pub auth: u8,
    /// The higher wins: 24 bits of priority, then 255 for deny, 254 to 2 proxy, 1 allow.
    pub precedence: u32,
    /// Names the rule that made the row; comes back in verdict records.
    pub cookie: u32,
}

impl PolicyRow {
    /// Bit of [`PolicyRow::flags`] that denies.
    pub const DENY: u8 = 1;
    /// Precedence of an ordinary allow rule.
    pub const ALLOW_PRECEDENCE: u32 = 0xffff_ff01;
    /// Precedence of an ordinary deny rule.
    pub const DENY_PRECEDENCE: u32 = 0xffff_ffff;

    /// An ordinary allow row for `key`.
    pub const fn allow(key: &PolicyKey, cookie: u32) -> Self {
        Self {
            proxy_port: Be16::ZERO,
            flags: key.l4_bits() << 3,
            auth: 0,
            precedence: Self::ALLOW_PRECEDENCE,
            cookie,
        }
    }

    /// An ordinary deny row for `key`.
    pub const fn deny(key: &PolicyKey, cookie: u32) -> Self {
        Self {
            flags: key.l4_bits() << 3 | Self::DENY,
            precedence: Self::DENY_PRECEDENCE,
            ..Self::allow(key, cookie)
        }
    }

    /// Whether the row denies.
    pub const fn is_deny(&self) -> bool {
        self.flags & Self::DENY != 0
    }
}

/// Key of `cilium_policystats`.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct PolicyStatsKey {
    /// Endpoint id.
    pub ep_id: u16,
    /// Zero.
    pub pad: u8,
    /// Protocol and port bits of the matching row.
    pub prefix_len: u8,
    /// Peer identity of the matching row; 0 for the wildcard.
    pub identity: u32,
    /// Bit 0: egress.
    pub egress: u8,
    /// IP protocol of the matching row.
    pub protocol: u8,
    /// Port of the matching row.
    pub port: Be16,
}

/// Value of `cilium_policystats`, one per CPU.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct PolicyStatsRow {
    /// Packets that the row decided.
    pub packets: u64,
    /// Their bytes, link layer included.
    pub bytes: u64,
}

const _: () = {
    assert!(size_of::<PolicyKey>() == 12);
    assert!(offset_of!(PolicyKey, egress) == 8);
    assert!(offset_of!(PolicyKey, protocol) == 9);
    assert!(offset_of!(PolicyKey, port) == 10);
    assert!(size_of::<PolicyRow>() == 12);
    assert!(offset_of!(PolicyRow, flags) == 2);
    assert!(offset_of!(PolicyRow, auth) == 3);
    assert!(offset_of!(PolicyRow, precedence) == 4);
    assert!(offset_of!(PolicyRow, cookie) == 8);
    assert!(size_of::<PolicyStatsKey>() == 12);
    assert!(offset_of!(PolicyStatsKey, prefix_len) == 3);
    assert!(offset_of!(PolicyStatsKey, identity) == 4);
    assert!(offset_of!(PolicyStatsKey, egress) == 8);
    assert!(size_of::<PolicyStatsRow>() == 16);
};
