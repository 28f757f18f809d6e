//! What a node's programs are loaded with: constants, so that the verifier removes the rest.

use crate::layouts::ConfigFlags;

/// A feature set. Endpoints of one node share it; what differs between them is in their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// IPv4 passes; otherwise it drops (139).
    pub ipv4: bool,
    /// IPv6 passes; otherwise it drops (139).
    pub ipv6: bool,
    /// The notify bits of [`ConfigFlags`] that endpoints may switch on.
    pub notify: u8,
    /// Packets are counted per policy row in `cilium_policystats`.
    pub policy_stats: bool,
}

impl Default for Features {
    fn default() -> Self {
        let notify =
            ConfigFlags::TRACE_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::DROP_NOTIFY;
        Self { ipv4: true, ipv6: true, notify: notify as u8, policy_stats: false }
    }
}

impl Features {
    /// The globals of the object and their values, for the loader to set.
    pub const fn globals(self) -> [(&'static str, u8); 4] {
        [
            ("ENABLE_IPV4", self.ipv4 as u8),
            ("ENABLE_IPV6", self.ipv6 as u8),
            ("NOTIFY", self.notify),
            ("POLICY_STATS", self.policy_stats as u8),
        ]
    }

    /// The set as a number, for [`crate::layouts::NodeRow::features`].
    pub const fn bits(self) -> u32 {
        self.ipv4 as u32
            | (self.ipv6 as u32) << 1
            | (self.policy_stats as u32) << 2
            | (self.notify as u32) << 8
    }
}
