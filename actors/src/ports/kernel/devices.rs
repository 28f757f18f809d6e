//! Network devices of the node: their rows, their programs, and what is not masqueraded.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::HookState;
use crate::model::{Addresses, Mac};

/// Flags of a [`DeviceRow`].
pub mod device_flags {
    /// What pods send to the world by IPv4 leaves as the device.
    pub const MASQUERADE_IPV4: u16 = 1;
    /// The same by IPv6.
    pub const MASQUERADE_IPV6: u16 = 2;
    /// Emit trace records.
    pub const TRACE: u16 = 4;
    /// Emit drop records.
    pub const DROP: u16 = 8;
}

/// Row of `volvox_device`: all that the programs know of a device of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// What stands for others behind it: pods that are masqueraded, clients of services.
    pub addresses: Addresses,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Bits of [`device_flags`].
    pub flags: u16,
}

/// Which programs a device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeviceKind {
    /// One of the node's own: what comes from the wire, what goes to it.
    Native,
    /// The tunnel to other nodes: what comes from them, what the stack sends to them.
    Overlay,
}

/// What runs at a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLinks {
    /// The name by which its links are pinned.
    pub name: String,
    /// Which programs.
    pub kind: DeviceKind,
    /// The least of its hooks: [`HookState::Link`] only where all run the current generation.
    pub state: HookState,
}

/// What the kernel holds of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTables {
    /// `volvox_device`, by interface.
    pub rows: BTreeMap<u32, DeviceRow>,
    /// What runs at interfaces.
    pub links: BTreeMap<u32, DeviceLinks>,
    /// Names by which links are pinned whose interfaces are gone.
    pub gone: BTreeSet<String>,
    /// `cilium_ipmasq_v4` and `…_v6`: where pods go to as themselves.
    pub unmasqueraded: BTreeSet<IpNet>,
    /// What keeps sockets' programs from running as they are to, if anything does.
    pub sockets: Option<String>,
    /// What keeps programs of endpoints from being those desired, if anything does.
    #[serde(default)]
    pub programs: Option<String>,
    /// Why the next run would not find what runs, if it would not.
    pub mount: Option<String>,
}
