//! Compares desired and realised routing, and lists the next kernel steps: devices, routes, rules.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{Neighbour, RoutesSettings, RoutingMode, desired::DesiredRoutes};
use crate::{
    model::NodeKey,
    mutants::{Mutant, mutated},
    ports::{
        DeviceKind, HOST_DEVICE, HOST_PEER, KernelOp, LOCAL_RULE_PRIORITY, Link, LocalRule,
        LocalRules, OVERLAY, Routing, RoutingDevice, RoutingOp,
    },
};

/// What is known of other nodes.
#[derive(Clone, Copy)]
pub(super) struct KnownNodes<'a> {
    pub(super) nodes: &'a BTreeMap<NodeKey, Neighbour>,
    /// All that there are were named: what none of them has may go.
    pub(super) all: bool,
    /// Prefixes that the kernel refused since the look began: they are not tried again in it.
    pub(super) refused: &'a BTreeMap<IpNet, String>,
}

/// The next steps towards what is desired, and what is in the way.
#[derive(Debug, Default)]
pub(super) struct RoutesPlan {
    pub(super) ops: Vec<KernelOp>,
    pub(super) troubles: BTreeMap<String, String>,
    pub(super) skipped: BTreeMap<String, String>,
}

/// What a comparison works with.
struct Planner<'a> {
    settings: &'a RoutesSettings,
    known: KnownNodes<'a>,
    routing: &'a Routing,
    plan: RoutesPlan,
}

impl RoutesPlan {
    /// The steps from what there is to what is desired. After them another look may show more to be
    /// done: numbers of devices are known when they were made.
    pub(super) fn of(settings: &RoutesSettings, known: KnownNodes<'_>, routing: &Routing) -> Self {
        let mut planner = Planner { settings, known, routing, plan: Self::default() };
        match settings.mode {
            RoutingMode::Tunnel { port } => planner.tunnel(port),
            RoutingMode::Native { .. } => planner.native(),
        }
        for ipv6 in [false, true] {
            planner.look_up_own_addresses(ipv6);
        }
        planner.plan
    }
}

impl Planner<'_> {
    /// A node alone has no use for devices; those that are there stay.
    fn tunnel(&mut self, port: u16) {
        let needed = !self.known.nodes.is_empty() || self.routing.tunnel != 0;
        if !needed && !self.is_ours(OVERLAY) {
            return self.routes();
        }
        if self.is_foreign(OVERLAY) {
            return;
        }
        let host_is_foreign = self.is_foreign(HOST_DEVICE) || self.is_foreign(HOST_PEER);
        self.make_overlay(port);
        if !host_is_foreign {
            self.make_host_pair();
        }
        if !self.plan.ops.is_empty() {
            return;
        }
        let pair = [HOST_DEVICE, HOST_PEER].into_iter().filter(|_| !host_is_foreign);
        for name in [OVERLAY].into_iter().chain(pair) {
            self.prepare(name);
        }
        if !self.plan.ops.is_empty() {
            return;
        }
        if let Some(device) = self.routing.devices.get(OVERLAY)
            && (self.routing.tunnel, self.routing.port, self.routing.records)
                != (device.ifindex, port, self.settings.records)
        {
            let (ifindex, records) = (device.ifindex, self.settings.records);
            self.step(RoutingOp::Tunnel { ifindex, port, records });
        }
        self.routes();
        self.take_addresses();
        if self.routing.strict {
            let why = "it is 1: answers of pods of other nodes to this node's own address are \
                       dropped; set it to 0 or 2";
            self.plan.troubles.insert("net.ipv4.conf.all.rp_filter".to_owned(), why.to_owned());
        }
    }

    /// What tunnels left goes behind the routes that take their place.
    fn native(&mut self) {
        self.routes();
        if !self.known.all {
            return;
        }
        if self.routing.tunnel != 0 {
            self.step(RoutingOp::Tunnel { ifindex: 0, port: 0, records: 0 });
        }
        for name in [OVERLAY, HOST_DEVICE, HOST_PEER] {
            let with_peer = name == HOST_PEER && self.is_ours(HOST_DEVICE);
            if let Some(device) = self.routing.devices.get(name)
                && device.ours
                && !with_peer
            {
                self.step(RoutingOp::Remove { ifindex: device.ifindex, name: name.to_owned() });
                if name == OVERLAY {
                    // Its programs' pins are left.
                    self.plan.ops.push(KernelOp::DetachDevice { name: name.to_owned() });
                }
            }
        }
    }

    fn routes(&mut self) {
        let Routing { routes, odd, .. } = self.routing;
        let desired = DesiredRoutes::of(self.settings, self.known.nodes, self.routing);
        for (&prefix, &hop) in &desired.routes {
            let present = routes.get(&prefix);
            let replaces = present.is_some() || odd.contains(&prefix);
            // Whoever has it may not be named yet.
            let is_anothers = present.map_or(replaces, |present| present.node() != hop.node());
            let waits = is_anothers && !self.known.all;
            if present != Some(&hop) && !waits && !self.known.refused.contains_key(&prefix) {
                self.step(RoutingOp::Route { prefix, hop, replaces });
            }
        }
        let present: BTreeSet<IpNet> = routes.keys().chain(odd).copied().collect();
        let all = self.known.all || mutated(Mutant::RoutesPrunedEarly);
        for prefix in present.into_iter().filter(|_| all) {
            let stays =
                desired.routes.contains_key(&prefix) || desired.troubles.contains_key(&prefix);
            if !stays && !self.known.refused.contains_key(&prefix) {
                self.step(RoutingOp::Unroute { prefix });
            }
        }
        let named = |(prefix, why): (IpNet, String)| (prefix.to_string(), why);
        self.plan.troubles.extend(desired.troubles.into_iter().map(named));
        self.plan.skipped.extend(desired.skipped.into_iter().map(named));
    }

    /// Moves the rule with which the kernel begins to where others' fit in before it. The new one is
    /// there before the old one goes; one that somebody else made, or moved elsewhere, stays. If
    /// there is none any more the node hears nobody: it is made again.
    fn look_up_own_addresses(&mut self, ipv6: bool) {
        let families = self.settings.families;
        let is_on = if ipv6 { families.ipv6 } else { families.ipv4 };
        let Some(LocalRules { priorities, others }) =
            self.routing.rules.get(&ipv6).filter(|_| is_on)
        else {
            return;
        };
        let (is_first, is_gone) = (priorities.contains(&0), priorities.is_empty() && !others);
        let priority = LOCAL_RULE_PRIORITY;
        let delete = RoutingOp::DeleteLocalRule(LocalRule { ipv6, priority: 0 });
        if is_first && mutated(Mutant::LocalRuleGoesFirst) {
            self.step(delete.clone());
        }
        if (is_first && !priorities.contains(&priority)) || is_gone {
            self.step(RoutingOp::PutLocalRule(LocalRule { ipv6, priority }));
        }
        if is_first {
            self.step(delete);
        }
    }

    fn make_overlay(&mut self, port: u16) {
        let mtu = self.settings.mtu;
        match self.routing.devices.get(OVERLAY) {
            Some(device) if device.fit && device.port == port => {}
            Some(device) => {
                self.remove(OVERLAY, device);
                self.step(RoutingOp::MakeOverlay { port, mtu });
            }
            None => self.step(RoutingOp::MakeOverlay { port, mtu }),
        }
    }

    fn make_host_pair(&mut self) {
        let [host, peer] = [HOST_DEVICE, HOST_PEER].map(|name| self.routing.devices.get(name));
        match (host, peer) {
            (Some(host), Some(peer)) if host.fit && peer.fit => return,
            (Some(host), _) => self.remove(HOST_DEVICE, host),
            (None, Some(peer)) => self.remove(HOST_PEER, peer),
            (None, None) => {}
        }
        self.step(RoutingOp::MakeHostPair { mtu: self.settings.mtu });
    }

    fn remove(&mut self, name: &str, device: &RoutingDevice) {
        self.step(RoutingOp::Remove { ifindex: device.ifindex, name: name.to_owned() });
    }

    /// Steps that make a device of ours what it is to be.
    fn prepare(&mut self, name: &str) {
        let Some(device) = self.routing.devices.get(name) else { return };
        let Some(link) = self.routing.links.get(&device.ifindex) else { return };
        let ifindex = device.ifindex;
        // First of all: what else fails must not keep programs away.
        if name == OVERLAY && !device.attached {
            let (name, kind) = (name.to_owned(), DeviceKind::Overlay);
            self.plan.ops.push(KernelOp::AttachDevice { ifindex, name, kind });
        }
        if !device.prepared {
            self.step(RoutingOp::Prepare { name: name.to_owned() });
        }
        if link.mtu != self.settings.mtu {
            self.step(RoutingOp::SetMtu { ifindex, mtu: self.settings.mtu });
        }
        if !link.up {
            self.plan.ops.push(KernelOp::LinkUp { ifindex });
        }
        if name == HOST_DEVICE {
            for address in self.settings.router.iter() {
                if !link.addresses.contains(&IpNet::from(address)) {
                    self.step(RoutingOp::Assign { ifindex, address });
                }
            }
        }
    }

    /// Addresses of an earlier router go when nothing is routed from them any more.
    fn take_addresses(&mut self) {
        let Some(device) = self.routing.devices.get(HOST_DEVICE).filter(|device| device.ours)
        else {
            return;
        };
        let Some(Link { addresses, .. }) = self.routing.links.get(&device.ifindex) else { return };
        let desired: Vec<IpNet> = self.settings.router.iter().map(IpNet::from).collect();
        for &address in addresses {
            let is_local = matches!(address, IpNet::V6(net) if net.addr().is_unicast_link_local());
            if !is_local && !desired.contains(&address) {
                self.step(RoutingOp::Unassign { ifindex: device.ifindex, address });
            }
        }
    }

    fn is_ours(&self, name: &str) -> bool {
        self.routing.devices.get(name).is_some_and(|device| device.ours)
    }

    /// Whether somebody else has a device of that name, which is said.
    fn is_foreign(&mut self, name: &str) -> bool {
        let foreign = self.routing.devices.get(name).is_some_and(|device| !device.ours);
        if foreign {
            let why = "somebody else made this interface, which is left alone: remove it, or stop \
                       what uses it";
            self.plan.troubles.insert(name.to_owned(), why.to_owned());
        }
        foreign
    }

    fn step(&mut self, op: RoutingOp) {
        self.plan.ops.push(KernelOp::Routing(op));
    }
}
