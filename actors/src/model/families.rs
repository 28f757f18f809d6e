//! IPv4 and IPv6: which are enabled, and what identity the world has in each.

use serde::Serialize;

use super::IdentityId;

/// Address families: those that are enabled, say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    /// Both.
    pub const DUAL: Self = Self { ipv4: true, ipv6: true };
    /// Neither.
    pub const NONE: Self = Self { ipv4: false, ipv6: false };

    /// Those that either has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { ipv4: self.ipv4 || other.ipv4, ipv6: self.ipv6 || other.ipv6 }
    }

    /// The identity of everything outside the cluster in a family: with both enabled each has one
    /// of its own. `None` if the family is not enabled.
    pub fn world(self, ipv4: bool) -> Option<IdentityId> {
        match (ipv4, self.ipv4, self.ipv6) {
            (true, true, true) => Some(IdentityId::WORLD_IPV4),
            (false, true, true) => Some(IdentityId::WORLD_IPV6),
            (true, true, false) | (false, false, true) => Some(IdentityId::WORLD),
            _ => None,
        }
    }
}
