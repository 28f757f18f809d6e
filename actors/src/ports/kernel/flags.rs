//! Bits of rows.

/// Flags of a [`ConfigRow`](super::ConfigRow).
pub mod config_flags {
    /// Drop packets whose source address is not the endpoint's.
    pub const SOURCE_CHECK: u16 = 1;
    /// Emit trace records.
    pub const TRACE: u16 = 2;
    /// Emit policy verdict records.
    pub const POLICY_VERDICT: u16 = 4;
    /// Emit drop records.
    pub const DROP: u16 = 8;
    /// Emit no trace records of packets that come in, only of those that go on.
    pub const AGGREGATE_ARRIVALS: u16 = 16;
    /// Emit trace records of a connection now and then, not of every packet.
    pub const AGGREGATE_CONNECTIONS: u16 = 32;
    /// Its interface is of another plugin, which resolves neighbours and delivers.
    pub const CHAINED: u16 = 64;
}

/// Flags of a [`LxcRow`](super::LxcRow).
pub mod lxc_flags {
    /// The address is the node's own.
    pub const HOST: u32 = 1;
    /// What is sent from this IPv4 address leaves the cluster with it.
    pub const SKIP_MASQUERADE_V4: u32 = 4;
    /// The same of an IPv6 address.
    pub const SKIP_MASQUERADE_V6: u32 = 8;
}
