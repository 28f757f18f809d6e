//! The memory kernel's routing: devices, routes and rules, and how steps change them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::ports::{
    DeviceTables, HOST_DEVICE, HOST_PEER, HookState, Hop, LOCAL_RULE_PRIORITY, Link, LocalRule,
    LocalRules, OVERLAY, Refusal, Routing, RoutingDevice, RoutingOp,
};

/// What leads to other nodes, in memory. Devices are among the interfaces, too.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRouting {
    /// By their names.
    pub devices: BTreeMap<String, RoutingDevice>,
    /// How many numbers from [`FIRST_DEVICE`] on were given to devices.
    made: u32,
    /// Routes of ours.
    pub routes: BTreeMap<IpNet, Hop>,
    /// Prefixes to which somebody else has a route.
    pub foreign: BTreeSet<IpNet>,
    /// Rules that look up the node's own addresses.
    pub rules: BTreeMap<bool, LocalRules>,
    /// The device by which programs send packets in tunnels.
    pub tunnel: u32,
    /// The UDP port of the outer packets.
    pub port: u16,
    /// Which records they emit of what comes out of them.
    pub records: u16,
    /// All three, as they were written last.
    reported: (u32, u16, u16),
}

impl Default for KernelRouting {
    /// A node on which an agent has been.
    fn default() -> Self {
        let moved = LocalRules { priorities: [LOCAL_RULE_PRIORITY].into(), others: false };
        Self {
            devices: BTreeMap::new(),
            made: 0,
            routes: BTreeMap::new(),
            foreign: BTreeSet::new(),
            rules: [false, true].map(|ipv6| (ipv6, moved.clone())).into(),
            tunnel: 0,
            port: 0,
            records: 0,
            reported: (0, 0, 0),
        }
    }
}

/// Number of the first device that is made: above all that tests give.
const FIRST_DEVICE: u32 = 1 << 20;

impl KernelRouting {
    pub(super) fn read(&self, links: &BTreeMap<u32, Link>, tables: &DeviceTables) -> Routing {
        let there = |(name, device): &(&String, &RoutingDevice)| {
            links.get(&device.ifindex).is_some_and(|link| link.name == **name)
        };
        let devices = self.devices.iter().filter(there);
        let device = |(name, device): (&String, &RoutingDevice)| {
            let links = tables.links.get(&device.ifindex);
            let attached = links.is_some_and(|links| links.state == HookState::Link);
            (name.clone(), RoutingDevice { attached, ..device.clone() })
        };
        Routing {
            links: links.clone(),
            devices: devices.map(device).collect(),
            routes: self.routes.clone(),
            odd: BTreeSet::new(),
            rules: self.rules.clone(),
            tunnel: self.reported.0,
            port: self.reported.1,
            records: self.reported.2,
            strict: false,
        }
    }

    /// The programs' row is as it was written last.
    pub(super) fn tell_again(&mut self) {
        (self.tunnel, self.port, self.records) = self.reported;
    }

    /// Whether it is.
    pub(super) fn is_as_told(&self) -> bool {
        (self.tunnel, self.port, self.records) == self.reported
    }

    /// An interface is down or gone.
    pub(super) fn lose(&mut self, ifindex: u32) {
        self.routes.retain(|_, hop| ifindex_of(hop) != ifindex);
    }

    pub(super) fn change(
        &mut self,
        op: &RoutingOp,
        links: &mut BTreeMap<u32, Link>,
    ) -> Result<(), Refusal> {
        match op {
            RoutingOp::MakeOverlay { port, mtu } => self.make(OVERLAY, *port, *mtu, links)?,
            RoutingOp::MakeHostPair { mtu } => {
                for name in [HOST_DEVICE, HOST_PEER] {
                    self.make(name, 0, *mtu, links)?;
                }
            }
            RoutingOp::Prepare { name } => {
                self.devices.get_mut(name).ok_or(Refusal::NoDevice)?.prepared = true;
            }
            RoutingOp::SetMtu { ifindex, mtu } => link(links, *ifindex)?.mtu = *mtu,
            RoutingOp::Assign { ifindex, address } => {
                link(links, *ifindex)?.addresses.push((*address).into());
            }
            RoutingOp::Unassign { ifindex, address } => {
                link(links, *ifindex)?.addresses.retain(|other| other != address);
            }
            RoutingOp::Remove { ifindex, name } => self.remove(*ifindex, name, links),
            RoutingOp::Tunnel { ifindex, port, records } => {
                self.reported = (*ifindex, *port, *records);
                self.tell_again();
            }
            RoutingOp::Route { prefix, hop, replaces } => {
                if self.foreign.contains(prefix) && !replaces {
                    return Err(Refusal::Denied);
                }
                let is_local = |source: IpAddr| {
                    links.values().any(|link| link.addresses.contains(&source.into()))
                };
                if let Hop::Tunnel { source: Some(source), .. } = hop
                    && !is_local(*source)
                {
                    return Err(Refusal::Other);
                }
                match link(links, ifindex_of(hop))?.up {
                    true => drop(self.routes.insert(*prefix, *hop)),
                    false => return Err(Refusal::Other),
                }
            }
            RoutingOp::Unroute { prefix } => drop(self.routes.remove(prefix)),
            RoutingOp::PutLocalRule(LocalRule { ipv6, priority }) => {
                self.rules.entry(*ipv6).or_default().priorities.insert(*priority);
            }
            RoutingOp::DeleteLocalRule(LocalRule { ipv6, priority }) => {
                self.rules.entry(*ipv6).or_default().priorities.remove(priority);
            }
        }
        Ok(())
    }

    fn make(
        &mut self,
        name: &str,
        port: u16,
        mtu: u32,
        links: &mut BTreeMap<u32, Link>,
    ) -> Result<(), Refusal> {
        if links.values().any(|link| link.name == name) {
            return Err(Refusal::Denied);
        }
        let last = links.last_key_value().map_or(0, |(last, _)| *last);
        // As with the kernel, no number is given twice.
        let ifindex = (last + 1).max(FIRST_DEVICE + self.made);
        self.made = ifindex + 1 - FIRST_DEVICE;
        let name = name.to_owned();
        links.insert(ifindex, Link { ifindex, name: name.clone(), mtu, ..Link::default() });
        let (ours, fit) = (true, true);
        let device = RoutingDevice { ifindex, ours, fit, port, ..RoutingDevice::default() };
        self.devices.insert(name, device);
        Ok(())
    }

    fn remove(&mut self, ifindex: u32, name: &str, links: &mut BTreeMap<u32, Link>) {
        if self.devices.get(name).is_none_or(|device| !device.ours || device.ifindex != ifindex) {
            return;
        }
        let pair = [HOST_DEVICE, HOST_PEER];
        let gone = if pair.contains(&name) { pair.to_vec() } else { vec![name] };
        for name in gone {
            if let Some(device) = self.devices.remove(name) {
                links.remove(&device.ifindex);
                self.lose(device.ifindex);
            }
        }
    }
}

fn ifindex_of(hop: &Hop) -> u32 {
    match hop {
        Hop::Direct { ifindex, .. } | Hop::Tunnel { ifindex, .. } => *ifindex,
    }
}

fn link(links: &mut BTreeMap<u32, Link>, ifindex: u32) -> Result<&mut Link, Refusal> {
    links.get_mut(&ifindex).ok_or(Refusal::NoDevice)
}
