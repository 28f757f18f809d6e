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
    /// Seconds after which a connection is reported again, where connections are aggregated.
    pub report_interval: u16,
    /// TCP flags, as in byte 13 of the header, that have a connection reported at once when it
    /// shows them first.
    pub report_flags: u8,
}

impl Default for Features {
    fn default() -> Self {
        let notify =
            ConfigFlags::TRACE_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::DROP_NOTIFY;
        Self {
            ipv4: true,
            ipv6: true,
            notify: notify as u8,
            policy_stats: false,
            report_interval: 5,
            report_flags: 0b111,
        }
    }
}

impl Features {
    /// The globals of the object and their values, for the loader to set.
    pub const fn globals(self) -> [(&'static str, u16); 6] {
        [
            ("ENABLE_IPV4", self.ipv4 as u16),
            ("ENABLE_IPV6", self.ipv6 as u16),
            ("NOTIFY", self.notify as u16),
            ("POLICY_STATS", self.policy_stats as u16),
            ("REPORT_INTERVAL", self.report_interval),
            ("REPORT_FLAGS", self.report_flags as u16),
        ]
    }

    /// The set as a number, for [`crate::layouts::NodeRow::features`].
    pub const fn bits(self) -> u64 {
        self.ipv4 as u64
            | (self.ipv6 as u64) << 1
            | (self.policy_stats as u64) << 2
            | (self.notify as u64) << 8
            | (self.report_flags as u64) << 16
            | (self.report_interval as u64) << 24
    }
}
