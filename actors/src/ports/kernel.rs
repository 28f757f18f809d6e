//! The port to the kernel: rows of the BPF maps, interfaces, steps and snapshots.
//! It says what a step means; how a step is done is left to the agent.

mod about;
mod devices;
mod done;
mod flags;
mod hooks;
mod idle_pair;
mod in_order;
mod notices;
mod routing;
mod rows;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

pub use devices::{DeviceKind, DeviceLinks, DeviceRow, DeviceTables, device_flags};
pub use done::KernelDone;
pub use flags::{config_flags, lxc_flags};
pub use hooks::{Attachment, HookState, Intruder, Probe};
pub use in_order::InOrder;
use ipnet::IpNet;
pub use notices::Notices;
pub use routing::{
    HOST_DEVICE, HOST_PEER, Hop, LOCAL_RULE_PRIORITY, LocalRule, LocalRules, OVERLAY, Routing,
    RoutingDevice, RoutingOp,
};
pub use rows::{PageRows, PolicyCheck, RowMap, RowPage, RowPlace};
use serde::{Deserialize, Serialize};
pub use services::{
    BackendRow, BackendState, MaglevTable, MemberKey, ServiceKeys, ServiceRows, ServiceTables,
    SlotKey, SlotRow, UnusedNumbers, service_flags,
};

use crate::{
    host::{Current, Reply},
    model::{
        Addresses, BackendId, EndpointId, Families, IdentityId, Mac, PolicyEntry, PolicyKey,
        PolicyRows, ServiceId, Tunnel,
    },
};

/// Under this interface stands the configuration of the host endpoint: the loopback interface, which
/// every network namespace has under that number and at which no program runs.
pub const HOST_IFINDEX: u32 = 1;

/// Row of `volvox_config`: all that the programs know of the endpoint behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRow {
    /// Counts the endpoint's builds.
    pub generation: u32,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Bits of [`config_flags`].
    pub flags: u16,
    /// Its identity.
    pub identity: IdentityId,
    /// Slot of `volvox_policy` that holds its policy.
    pub policy_slot: u32,
    /// Host-side interface; also the key. [`HOST_IFINDEX`] for the host endpoint.
    pub ifindex: u32,
    /// Its addresses.
    pub addresses: Addresses,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The host side's Ethernet address.
    pub node_mac: Mac,
}

/// Row of `cilium_lxc`: a local address and whose it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LxcRow {
    /// Host-side interface.
    pub ifindex: u32,
    /// The endpoint's number; 0 for the node itself.
    pub endpoint: u16,
    /// Bits of [`lxc_flags`].
    pub flags: u32,
    /// The endpoint's Ethernet address.
    pub mac: Mac,
    /// The host side's Ethernet address.
    pub node_mac: Mac,
    /// The endpoint's identity.
    pub identity: IdentityId,
    /// Interface below, 0 if none.
    pub parent_ifindex: u32,
}

/// Row of `volvox_endpoint`: what no other map holds and a lost state file is rebuilt from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRow {
    /// The container's identifier.
    pub container_id: String,
    /// The interface's name inside the container.
    pub container_ifname: String,
    /// Host-side interface's name.
    pub ifname: String,
    /// Host-side interface.
    pub ifindex: u32,
    /// Its identity when the row was written.
    pub identity: IdentityId,
    /// Cookie of the container's network namespace, 0 if not known.
    pub netns_cookie: u64,
    /// Its addresses.
    pub addresses: Addresses,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The host side's Ethernet address.
    pub node_mac: Mac,
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes pod name, its first 200 bytes.
    pub pod_name: String,
    /// Kubernetes pod UID.
    pub pod_uid: String,
    /// The options that were set for it alone, as the endpoint packs them; 0 if none.
    #[serde(default)]
    pub own_options: u32,
    /// Its state file is older than this row, for it could not be written.
    #[serde(default)]
    pub unsaved: bool,
    /// Its interface and addresses are of another plugin.
    #[serde(default)]
    pub chained: bool,
}

/// Row of `cilium_ipcache_v2`: which identity an address or a prefix has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcacheRow {
    /// The identity.
    pub identity: IdentityId,
    /// Node behind which it is reached by tunnel.
    pub tunnel: Option<IpAddr>,
    /// Encryption key index, 0 is none.
    pub key: u8,
    /// Flags as in Cilium 1.19: 1 skip tunnel, 2 has tunnel endpoint, 4 over IPv6, 8 remote cluster.
    pub flags: u8,
}

impl IpcacheRow {
    /// The row of an address on this node or outside the cluster: no tunnel, no key.
    pub fn of(identity: IdentityId) -> Self {
        Self { identity, ..Self::default() }
    }

    /// The row of an address that is behind another node, if it is.
    pub fn behind(identity: IdentityId, tunnel: Tunnel) -> Self {
        let tunnel = tunnel.node();
        let flags = match tunnel {
            None => 0,
            Some(IpAddr::V4(_)) => ipcache_flags::TUNNEL,
            Some(IpAddr::V6(_)) => ipcache_flags::TUNNEL | ipcache_flags::BY_IPV6,
        };
        Self { identity, tunnel, key: 0, flags }
    }
}

/// Flags of an [`IpcacheRow`].
pub mod ipcache_flags {
    /// It is behind another node.
    pub const TUNNEL: u8 = 2;
    /// That node is reached by IPv6.
    pub const BY_IPV6: u8 = 4;
}

/// A place at an endpoint's host-side interface where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hook {
    /// Ingress of the host side: what the container sends.
    FromContainer,
    /// Egress of the host side: what the container gets.
    ToContainer,
}

/// An interface in the agent's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its number.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Whether it is administratively up.
    pub up: bool,
    /// `veth`, `dummy`, … where the kernel says it.
    pub kind: Option<String>,
    /// Maximum transmission unit, bytes.
    pub mtu: u32,
    /// Number of the peer interface in its own namespace, 0 if there is none.
    pub peer_ifindex: u32,
    /// The namespace of its peer, by the number that the kernel has for it here; `None` if that is
    /// this one.
    #[serde(default)]
    pub peer_netns: Option<i32>,
    /// Addresses assigned to it.
    pub addresses: Vec<IpNet>,
    /// Whether a default route leads to it, as far as [`KernelOp::ReadLinks`] asked.
    pub default_route: bool,
}

impl Link {
    /// What tells this interface from one of that name and Ethernet address; an empty name or
    /// address is any. `None`: it may be the same one.
    pub fn differs(&self, name: &str, mac: Mac) -> Option<String> {
        if !name.is_empty() && self.name != name {
            return Some(format!("its name is {}, not {name}", self.name));
        }
        if !mac.is_zero() && !self.mac.is_zero() && self.mac != mac {
            return Some(format!("its address is {}, not {mac}", self.mac));
        }
        None
    }
}

/// One step in the kernel. Steps are small enough that a crash between any two is a case to test.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum KernelOp {
    /// Reads all rows, interfaces and routes that restoring compares with.
    Snapshot,
    /// Reads the interfaces and their addresses, and to which of them default routes lead.
    ReadLinks,
    /// Reads one interface, without its addresses.
    ReadLink { ifindex: u32 },
    /// Reads what is at the interfaces of these endpoints: the interface, its programs, its routes.
    Probe(Vec<(EndpointId, u32)>),
    /// Reads what leads to other nodes.
    ReadRouting,
    /// Reads the policy map in a slot.
    ReadPolicy { slot: u32 },
    /// Reads some rows of a map, from that place on or from its beginning.
    ReadRows { map: RowMap, from: Option<RowPlace> },
    /// Compares policy maps with what was written, and their pins with the maps.
    ComparePolicies(Vec<PolicyCheck>),
    /// Compares tables of Maglev with what they are computed of.
    CompareMaglev(Vec<MaglevTable>),
    /// Removes rows whose keys nobody writes; absent ones are fine.
    DeleteStrange { map: RowMap, keys: Vec<Box<[u8]>> },
    /// Writes the row of `volvox_node` as it was written last.
    PutNode,
    /// Reads what runs at an endpoint's hooks.
    ReadAttachment { endpoint: EndpointId, ifindex: u32 },
    /// Builds a policy map of these rows aside, for [`KernelOp::FlipPolicy`] to find. Processor
    /// work: this is what a build permit is held for.
    BuildPolicy { slot: u32, rows: PolicyRows },
    /// Puts the map that was built for the slot into it. The kernel answers after an RCU grace
    /// period, 8 to 16 ms; the port gathers what comes meanwhile into one batch.
    FlipPolicy { slot: u32 },
    /// Puts one row into the policy map in a slot.
    PutPolicyRow { slot: u32, key: PolicyKey, entry: PolicyEntry },
    /// Removes one row from the policy map in a slot.
    DeletePolicyRow { slot: u32, key: PolicyKey },
    /// Empties a slot; its map goes with its last reference.
    ClearSlot { slot: u32 },
    /// Pins the policy map in a slot as `cilium_policy_v2_NNNNN`, in place of another one.
    PinPolicy { endpoint: EndpointId, slot: u32 },
    /// Removes that pin.
    UnpinPolicy { endpoint: EndpointId },
    /// Writes an interface's configuration row: this flips policy and configuration in one step.
    PutConfig(ConfigRow),
    /// Removes an interface's configuration row, if it still is that endpoint's: its packets are
    /// dropped from then on.
    DeleteConfig { ifindex: u32, endpoint: EndpointId },
    /// Writes a local address.
    PutLxc { address: IpAddr, row: LxcRow },
    /// Removes a local address, if it still is that endpoint's.
    DeleteLxc { address: IpAddr, endpoint: u16 },
    /// Writes the endpoint's own record.
    PutEndpoint { endpoint: EndpointId, row: EndpointRow },
    /// Removes the endpoint's own record.
    DeleteEndpoint { endpoint: EndpointId },
    /// Writes address to identity rows, in batches.
    PutIpcache(Vec<(IpNet, IpcacheRow)>),
    /// Removes address to identity rows; absent ones are fine.
    DeleteIpcache(Vec<IpNet>),
    /// Writes rows of the maps that balance load, in batches.
    PutServices(ServiceRows),
    /// Removes rows of them; absent ones are fine.
    DeleteServices(ServiceKeys),
    /// Makes both hooks run the current program generation; fast way first.
    Attach { endpoint: EndpointId, ifindex: u32 },
    /// Replaces filters by pinned links, which takes the kernel 8 to 16 ms each.
    Settle { endpoint: EndpointId, ifindex: u32 },
    /// Removes programs and link pins of an endpoint.
    Detach { endpoint: EndpointId, ifindex: u32 },
    /// Reads what the programs know of devices, and where they run.
    ReadDevices,
    /// Tells the programs of a device.
    PutDevice { ifindex: u32, row: DeviceRow },
    /// Has the programs forget a device: they let everything pass there.
    DeleteDevice { ifindex: u32 },
    /// Writes destinations to which pods go as themselves.
    PutUnmasqueraded(Vec<IpNet>),
    /// Removes such destinations; absent ones are fine.
    DeleteUnmasqueraded(Vec<IpNet>),
    /// Makes a device run the current program generation by pinned links, each of which takes the
    /// kernel 8 to 16 ms unless it is there already.
    AttachDevice { ifindex: u32, name: String, kind: DeviceKind },
    /// Removes the links that are pinned by the device's name.
    DetachDevice { name: String },
    /// Has sockets' programs run as they are to, at the cgroup where load is balanced by socket.
    AttachSockets,
    /// Brings the interface up.
    LinkUp { ifindex: u32 },
    /// Takes the interface down.
    LinkDown { ifindex: u32 },
    /// Removes a veth pair that still is [`Link::is_idle_pair`], and is no endpoint's by any row.
    DeletePair { ifindex: u32, peer: u32 },
    /// Routes an endpoint's address to its interface.
    PutRoute { address: IpAddr, ifindex: u32 },
    /// Removes that route, if it still leads to that interface.
    DeleteRoute { address: IpAddr, ifindex: u32 },
    /// Changes what leads to other nodes.
    Routing(RoutingOp),
    /// Forgets every connection of these addresses, and every one by a service to a backend there.
    ScrubConntrack { addresses: Addresses },
    /// Forgets every connection through these services, whose numbers others are to have.
    ForgetServices(Vec<ServiceId>),
    /// Ends the datagram sockets that are connected to a backend which has no row any more, of those
    /// that are noted to have asked for a service: the node's, and those of the namespaces that these
    /// files name. Killed in the middle, the next time goes on.
    EndSockets { namespaces: BTreeSet<String> },
    /// Removes connections of these families whose lifetime is over, and translations that have no
    /// connection.
    CollectConntrack {
        /// The families.
        families: Families,
        /// Backends of these families to be looked for: who of them has connections of TCP by a service.
        backends: BTreeSet<BackendId>,
    },
    /// Loads a fresh program generation beside the current one and makes it current.
    LoadPrograms,
}

/// What a step read.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelOutcome {
    /// The step wrote, or had nothing to write.
    Done,
    /// Answer to [`KernelOp::Snapshot`].
    Snapshot(Box<KernelSnapshot>),
    /// Answer to [`KernelOp::ReadLinks`] and [`KernelOp::ReadLink`], by number; one that does not
    /// exist is not among them.
    Links(BTreeMap<u32, Link>),
    /// Answer to [`KernelOp::Probe`].
    Probed(BTreeMap<EndpointId, Probe>),
    /// Answer to [`KernelOp::ReadRouting`].
    Routing(Box<Routing>),
    /// Answer to [`KernelOp::ReadPolicy`]; `None` if the slot is empty.
    Policy(Option<PolicyRows>),
    /// Answer to [`KernelOp::ReadRows`].
    Rows(Box<RowPage>),
    /// Answer to [`KernelOp::ComparePolicies`]: of whom something differs.
    DifferingPolicies(BTreeSet<EndpointId>),
    /// Answer to [`KernelOp::CompareMaglev`]: tables that are not so, with whether they are IPv4.
    DifferingTables(Vec<(ServiceId, bool)>),
    /// Answer to [`KernelOp::ReadAttachment`].
    Attachment(Attachment),
    /// Answer to [`KernelOp::ReadDevices`].
    Devices(Box<DeviceTables>),
    /// Answer to [`KernelOp::EndSockets`]: how many.
    Ended(u64),
    /// Answer to [`KernelOp::CollectConntrack`].
    Collected {
        /// Connections.
        connections: Swept,
        /// Translations of addresses, which go with their connections.
        translations: Swept,
        /// How full the fullest of these tables was when it was looked at last, percent.
        fill: u8,
        /// Who of the backends that were looked for has connections.
        used: BTreeSet<BackendId>,
    },
}

/// What a sweep through maps did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Rows looked at.
    pub seen: u64,
    /// Rows removed.
    pub deleted: u64,
}

/// All that restoring compares with, read at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelSnapshot {
    /// `cilium_lxc`.
    pub lxc: BTreeMap<IpAddr, LxcRow>,
    /// `volvox_config`, by interface.
    pub config: BTreeMap<u32, ConfigRow>,
    /// `volvox_endpoint`; a row whose checksum is wrong is left out and counted in `torn_rows`.
    pub endpoints: BTreeMap<EndpointId, EndpointRow>,
    /// Rows of `volvox_endpoint` that cannot be trusted.
    pub torn_rows: Vec<EndpointId>,
    /// `cilium_ipcache_v2`.
    pub ipcache: BTreeMap<IpNet, IpcacheRow>,
    /// Interfaces by number.
    pub links: BTreeMap<u32, Link>,
    /// Cookies of the network namespaces that endpoints' records name by a file, where there is one.
    pub netns_cookies: BTreeMap<EndpointId, u64>,
    /// Endpoint routes: address to interface.
    pub routes: BTreeMap<IpAddr, u32>,
    /// What runs at each endpoint interface that has link pins or filters of ours.
    pub attachments: BTreeMap<EndpointId, Attachment>,
    /// Endpoints that have a `cilium_policy_v2_NNNNN` pin.
    pub policy_pins: Vec<EndpointId>,
    /// Policy maps in the slots that `volvox_config` names, by slot. Only what is read before the
    /// first actor lives has them: later every endpoint knows what it wrote.
    pub policies: BTreeMap<u32, Arc<PolicyRows>>,
    /// The maps that balance load. Only what is read before the first actor lives has them: later
    /// their owner knows what it wrote.
    pub services: ServiceTables,
}

/// Why the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The interface is gone.
    NoDevice,
    /// The map is full.
    MapFull,
    /// Out of memory.
    NoMemory,
    /// What was to be changed does not exist.
    NotFound,
    /// It belongs to somebody else, or the rights are missing.
    Denied,
    /// Anything else.
    Other,
}

/// What went wrong in the kernel, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {about}: {cause}; {remedy}")]
pub struct KernelError {
    /// The step, as a verb.
    pub op: &'static str,
    /// Map, interface or program that it was about.
    pub about: String,
    /// The system's words.
    pub cause: String,
    /// What an operator can do.
    pub remedy: &'static str,
    /// Its kind.
    pub refusal: Refusal,
}

/// Steps to be done in order.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelJob {
    /// The steps; the first that fails ends the job.
    pub ops: Vec<KernelOp>,
    /// Who wants it, and over what: [`InOrder`] notes it.
    pub by: Current,
}

impl KernelJob {
    /// These steps.
    pub fn new(ops: Vec<KernelOp>) -> Self {
        Self { ops, by: Current::default() }
    }
}

/// BPF maps, programs, interfaces and routes.
pub trait Kernel {
    /// Does the job, then answers. Each step is told to the host's recorder as it ends. Jobs may run
    /// at the same time; see [`InOrder`].
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>);
}
