//! Interfaces to other machines that come and go, and what has to be of them in the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use ipnet::IpNet;
use volvox_actors_simulated::{
    model::{Addresses, IdentityId, Mac},
    node::local_node::NodeMsg,
    ports::{
        DeviceKind, DeviceRow, DeviceTables, HookState, KernelOp, LOCAL_RULE_PRIORITY, Link,
        LocalRules, OVERLAY, RoutingOp, device_flags, lxc_flags,
    },
    testing::{KernelState, MemoryKernel},
};

use super::{node::Node, served};

/// Interfaces that there may be; the last one is where packets to anybody go.
pub const UPLINKS: u8 = 2;
/// Sets of addresses that each may have.
pub const SETS: usize = 4;
/// The address by which other nodes reach this one.
const NODE: &str = "192.0.2.1";
/// Those sets, by interface. Packets to none of them are looked at.
const ADDRESSES: [[&[&str]; SETS]; UPLINKS as usize] = [
    [
        &["192.0.2.1/24", "2001:db8::1/64"],
        &["198.51.100.7/24", "192.0.2.1/24"],
        &["198.51.100.8/24"],
        &[],
    ],
    [
        &["198.51.100.20/24"],
        &["fe80::2/64", "192.0.2.2/24", "2001:db8::2/64"],
        &["192.0.2.1/24"],
        &[],
    ],
];
/// Numbers of such interfaces follow. Those of pods are above 1000.
const FIRST_NUMBER: u32 = 10;

/// What happens to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplink {
    /// It comes, with that set of addresses; one that is there vanishes first.
    Comes(u8),
    /// It vanishes.
    Goes,
    /// It comes up.
    Up,
    /// It goes down.
    Down,
    /// It has that set of addresses.
    Has(u8),
    /// Somebody removes the device of tunnels.
    OverlayGoes,
}

impl fmt::Display for Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comes(set) => write!(f, "comes with the addresses {set}"),
            Self::Goes => f.write_str("vanishes"),
            Self::Up => f.write_str("comes up"),
            Self::Down => f.write_str("goes down"),
            Self::Has(set) => write!(f, "has the addresses {set}"),
            Self::OverlayGoes => f.write_str("is left alone, but that of tunnels vanishes"),
        }
    }
}

/// What a kernel begins with: the node's address, and rules as nobody has moved them yet.
pub(super) fn begin(kernel: &MemoryKernel) {
    served::plug_host(kernel);
    kernel.tamper(|state| state.routing.rules = rules(0));
}

fn rules(priority: u32) -> BTreeMap<bool, LocalRules> {
    let rules = LocalRules { priorities: [priority].into(), others: false };
    [(false, rules.clone()), (true, rules)].into()
}

fn name(number: u8) -> String {
    format!("eth{number}")
}

fn addresses(number: u8, set: u8) -> Vec<IpNet> {
    let all = ADDRESSES[usize::from(number - 1)][usize::from(set) % SETS];
    all.iter().map(|net| net.parse().expect("an address")).collect()
}

/// The interfaces of those that may be, as they are.
pub(super) fn uplinks(state: &KernelState) -> impl Iterator<Item = &Link> {
    let names: Vec<String> = (1..=UPLINKS).map(name).collect();
    state.rows.links.values().filter(move |link| names.contains(&link.name))
}

/// What they have that means the same beyond their link.
fn global(link: &Link) -> impl Iterator<Item = IpAddr> {
    let all = link.addresses.iter().map(IpNet::addr);
    all.filter(|it| !matches!(it, IpAddr::V6(it) if it.is_unicast_link_local()))
}

fn is_node(address: &IpAddr) -> bool {
    address.to_string() == NODE
}

/// What programs have to know of an interface; `None` if they have no business there.
fn row(link: &Link) -> Option<DeviceRow> {
    let leads_out = link.default_route || global(link).any(|it| is_node(&it));
    if !link.up || !leads_out {
        return None;
    }
    let node = global(link).find(is_node);
    let addresses: Addresses = node.into_iter().chain(global(link)).collect();
    let mut flags = 0;
    if addresses.ipv4.is_some() {
        flags |= device_flags::MASQUERADE_IPV4;
    }
    if addresses.ipv6.is_some() {
        flags |= device_flags::MASQUERADE_IPV6;
    }
    Some(DeviceRow { addresses, mac: link.mac, flags })
}

/// Programs at interfaces, as steps come.
#[derive(Default)]
pub(super) struct Uplinks {
    /// Interfaces that were given programs since something happened to them.
    settled: BTreeSet<String>,
}

impl Uplinks {
    /// Something happened to an interface.
    fn touched(&mut self, name: &str) {
        self.settled.remove(name);
    }

    /// What a step did wrong: the local rule is missing, or programs went from where they belong.
    pub(super) fn wrong(&mut self, state: &KernelState, op: &KernelOp) -> Option<String> {
        match op {
            KernelOp::AttachDevice { ifindex, name, kind } => {
                let link = state.rows.links.get(ifindex);
                if *kind == DeviceKind::Overlay || link.is_some_and(|link| row(link).is_some()) {
                    self.settled.insert(name.clone());
                }
                None
            }
            KernelOp::DetachDevice { name } => {
                let lost = self.settled.remove(name);
                lost.then(|| format!("{name} lost its programs, and nothing happened to it"))
            }
            KernelOp::Routing(RoutingOp::Remove { name, .. }) => {
                self.touched(name);
                None
            }
            KernelOp::Routing(_) => [false, true].into_iter().find_map(|ipv6| {
                let rules = state.routing.rules.get(&ipv6);
                let none = rules.is_none_or(|rules| rules.priorities.is_empty());
                none.then(|| format!("no rule looks up own addresses, IPv6: {ipv6}"))
            }),
            _ => None,
        }
    }
}

impl Node {
    /// Something happens to an interface to other machines.
    pub(super) fn uplink(&mut self, number: u8, what: Uplink, reported: bool) {
        let there = self.world.kernel.with(|state| {
            uplinks(state).find(|link| link.name == name(number)).map(|link| link.ifindex)
        });
        match (what, there) {
            (Uplink::Comes(set), before) => self.plug_uplink(number, set, before),
            (Uplink::OverlayGoes, _) => self.world.kernel.tamper(|state| {
                let overlay = state.routing.devices.get(OVERLAY).map(|device| device.ifindex);
                overlay.into_iter().for_each(|ifindex| state.unplug(ifindex));
            }),
            (_, None) => return,
            (Uplink::Goes, Some(ifindex)) => self.world.kernel.tamper(|it| it.unplug(ifindex)),
            (Uplink::Down, Some(ifindex)) => self.world.kernel.tamper(|it| it.go_down(ifindex)),
            (Uplink::Up, Some(ifindex)) => self.change_uplink(ifindex, |link| link.up = true),
            (Uplink::Has(set), Some(ifindex)) => {
                self.change_uplink(ifindex, |link| link.addresses = addresses(number, set));
            }
        }
        let mut oracle = self.oracle.borrow_mut();
        match what {
            Uplink::OverlayGoes => oracle.uplinks.touched(OVERLAY),
            _ => oracle.uplinks.touched(&name(number)),
        }
        oracle.peers.may_lose_routes();
        drop(oracle);
        self.uplinks_changed(reported);
    }

    fn plug_uplink(&mut self, number: u8, set: u8, before: Option<u32>) {
        self.uplink_numbers += 1;
        let link = Link {
            ifindex: FIRST_NUMBER + self.uplink_numbers,
            name: name(number),
            mac: Mac([2, 1, 0, 0, 0, number]),
            up: true,
            mtu: 1500,
            addresses: addresses(number, set),
            default_route: number == UPLINKS,
            ..Link::default()
        };
        self.world.kernel.tamper(|state| {
            before.into_iter().for_each(|ifindex| state.unplug(ifindex));
            state.plug(link);
        });
    }

    fn change_uplink(&self, ifindex: u32, change: impl FnMut(&mut Link)) {
        self.world.kernel.tamper(|state| {
            state.rows.links.get_mut(&ifindex).into_iter().for_each(change);
        });
    }

    /// The node's addresses are others; whoever watches interfaces says so now, or it is seen later.
    fn uplinks_changed(&self, reported: bool) {
        let hosts = self.world.kernel.with(|state| uplinks(state).flat_map(global).collect());
        self.oracle.borrow_mut().served.hosts = hosts;
        if reported && self.world.is_alive() {
            // A full mailbox has it seen later.
            let _ = self.world.node_supervisor().node.tell(NodeMsg::Changed);
        }
    }

    /// The machine begins anew, with the interfaces that it had.
    pub(super) fn begin_anew(&self, uplinks: Vec<Link>) {
        begin(&self.world.kernel);
        self.world.kernel.tamper(|state| uplinks.into_iter().for_each(|link| state.plug(link)));
        let mut oracle = self.oracle.borrow_mut();
        oracle.uplinks = Uplinks::default();
        oracle.peers.may_lose_routes();
    }

    /// All of them vanish.
    pub(super) fn unplug_uplinks(&mut self) {
        (1..=UPLINKS).for_each(|number| self.uplink(number, Uplink::Goes, true));
    }

    /// At rest: programs and rows are at the devices that there are, and the node's addresses are
    /// known to be its own.
    pub(super) fn unplugged(&self) -> Option<String> {
        let unmasqueraded = &self.world.settings.devices.unmasqueraded;
        let router = self.world.settings.node.router;
        self.world.kernel.with(|state| {
            if state.routing.rules != rules(LOCAL_RULE_PRIORITY) {
                return Some(format!("own addresses are looked up by {:?}", state.routing.rules));
            }
            if state.devices.unmasqueraded != *unmasqueraded {
                let found = &state.devices.unmasqueraded;
                return Some(format!("not masqueraded is what goes to {found:?}"));
            }
            misattached(state).or_else(|| misnamed(state, router))
        })
    }
}

fn misattached(state: &KernelState) -> Option<String> {
    let DeviceTables { rows, links, gone, .. } = &state.devices;
    let expected: BTreeMap<u32, DeviceRow> =
        uplinks(state).filter_map(|link| Some((link.ifindex, row(link)?))).collect();
    if *rows != expected {
        return Some(format!("rows of devices are {rows:?}, not {expected:?}"));
    }
    // Pins of a device of tunnels that somebody removed wait for the next one.
    if let Some(name) = gone.iter().find(|name| *name != OVERLAY) {
        return Some(format!("programs of {name}, which is gone, are left"));
    }
    let native = links.iter().filter(|(_, links)| links.kind == DeviceKind::Native);
    let native: BTreeMap<_, _> =
        native.map(|(ifindex, links)| (*ifindex, (links.name.as_str(), links.state))).collect();
    let expected: BTreeMap<_, _> = uplinks(state)
        .filter(|link| expected.contains_key(&link.ifindex))
        .map(|link| (link.ifindex, (link.name.as_str(), HookState::Link)))
        .collect();
    (native != expected).then(|| format!("programs run at {native:?}, not {expected:?}"))
}

fn misnamed(state: &KernelState, router: Addresses) -> Option<String> {
    let mut expected: BTreeSet<IpAddr> = uplinks(state).flat_map(global).collect();
    expected.insert(served::host());
    let is_host = |flags: u32| flags & lxc_flags::HOST != 0;
    let rows = state.rows.lxc.iter().filter(|(_, row)| is_host(row.flags));
    let rows: BTreeSet<IpAddr> = rows.map(|(address, _)| *address).collect();
    if rows != expected {
        return Some(format!("the node's addresses are {expected:?}, its rows are {rows:?}"));
    }
    expected.extend(router.iter());
    let mapped = state.rows.ipcache.iter().filter(|(_, row)| row.identity == IdentityId::HOST);
    let mapped: BTreeSet<IpAddr> = mapped.map(|(prefix, _)| prefix.addr()).collect();
    (mapped != expected)
        .then(|| format!("the node's addresses are {expected:?}, the ipcache has {mapped:?}"))
}
