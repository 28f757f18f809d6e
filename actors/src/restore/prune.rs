//! Finds rows, routes and programs in the kernel that no endpoint claims, and the steps to remove
//! them. When these steps run, and what happens if they fail, is decided elsewhere.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    model::{Addresses, EndpointId},
    ports::{ConfigRow, HOST_IFINDEX, KernelOp, KernelSnapshot, Link, lxc_flags},
};

/// A step that removes what nobody claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Removal {
    /// Whose it was.
    pub(super) of: EndpointId,
    pub(super) op: KernelOp,
    /// What it removes, for people.
    pub(super) what: String,
}

impl Removal {
    fn new(of: EndpointId, op: KernelOp, what: String) -> Self {
        Self { of, op, what }
    }

    /// Whether no snapshot shows what it removes.
    pub(super) fn is_unseen(&self) -> bool {
        matches!(self.op, KernelOp::ClearSlot { .. } | KernelOp::ScrubConntrack { .. })
    }
}

/// Steps that remove what no snapshot shows of an endpoint that did not come back: its policy maps
/// and its connections.
pub(super) fn unseen((&id, all): (&EndpointId, &BTreeSet<IpAddr>)) -> Vec<Removal> {
    let slots = [0, 1].map(|parity| id.slot(parity));
    let clear = |slot| {
        Removal::new(
            id,
            KernelOp::ClearSlot { slot },
            format!("policy slot {slot} of endpoint {id}"),
        )
    };
    let scrub = |address: &IpAddr| {
        let addresses = match address {
            IpAddr::V4(address) => Addresses { ipv4: Some(*address), ipv6: None },
            IpAddr::V6(address) => Addresses { ipv4: None, ipv6: Some(*address) },
        };
        let what = format!("connections of {address} of endpoint {id}");
        Removal::new(id, KernelOp::ScrubConntrack { addresses }, what)
    };
    slots.into_iter().map(clear).chain(all.iter().map(scrub)).collect()
}

/// Rows and routes by which the node reaches endpoints of which none of the living is. Where nothing is
/// restored, all else of them stays.
pub(super) fn reached(kernel: &KernelSnapshot, alive: &BTreeSet<EndpointId>) -> Vec<Removal> {
    let mut ops = Vec::new();
    for (&address, row) in &kernel.lxc {
        let id = EndpointId(row.endpoint);
        if row.flags & lxc_flags::HOST == 0 && is_dead(id, alive) {
            let op = KernelOp::DeleteLxc { address, endpoint: row.endpoint };
            ops.push(Removal::new(id, op, format!("cilium_lxc {address} of endpoint {id}")));
            let op = KernelOp::DeleteRoute { address, ifindex: row.ifindex };
            ops.push(Removal::new(id, op, format!("route to {address} of endpoint {id}")));
        }
    }
    ops
}

fn is_dead(id: EndpointId, alive: &BTreeSet<EndpointId>) -> bool {
    id.0 != 0 && !alive.contains(&id)
}

/// What nobody of the living claims, of all that the kernel held at start. Run once every restored
/// endpoint has settled; each step names whose it was, so that a newcomer's rows are never hit. Of the rows of the node itself
/// only those of `host` are claimed.
pub(super) fn prune(
    kernel: &KernelSnapshot,
    alive: &BTreeSet<EndpointId>,
    host: Option<EndpointId>,
) -> Vec<Removal> {
    let dead = |id: &EndpointId| is_dead(*id, alive);
    let mut ops = reached(kernel, alive);
    let is_left = |(ifindex, row): &(&u32, &ConfigRow)| match **ifindex {
        HOST_IFINDEX => host != Some(row.endpoint),
        _ => dead(&row.endpoint),
    };
    for (&ifindex, row) in kernel.config.iter().filter(is_left) {
        let op = KernelOp::DeleteConfig { ifindex, endpoint: row.endpoint };
        let what = format!("volvox_config {ifindex} of endpoint {}", row.endpoint);
        ops.push(Removal::new(row.endpoint, op, what));
    }
    ops.extend(of_endpoints(kernel, &dead));
    ops.extend(idle_pairs(kernel, &dead));
    ops
}

/// Veth pairs that no container ever got, and no living endpoint has.
fn idle_pairs(
    kernel: &KernelSnapshot,
    dead: &dyn Fn(&EndpointId) -> bool,
) -> impl Iterator<Item = Removal> {
    let configured = kernel.config.iter().map(|(&ifindex, row)| (ifindex, row.endpoint));
    let recorded = kernel.endpoints.iter().map(|(&id, row)| (row.ifindex, id));
    let living = configured.chain(recorded).filter(|(_, id)| !dead(id));
    let living: BTreeSet<u32> = living.map(|(ifindex, _)| ifindex).collect();
    let pair = move |link: &Link| {
        let peer = kernel.links.get(&link.peer_ifindex).filter(|peer| link.is_idle_pair(peer))?;
        if living.contains(&link.ifindex) || living.contains(&peer.ifindex) {
            return None;
        }
        let op = KernelOp::DeletePair { ifindex: link.ifindex, peer: peer.ifindex };
        let what = format!(
            "interfaces {} and {}, which an ADD left that was killed",
            link.name, peer.name
        );
        Some(Removal::new(EndpointId(0), op, what))
    };
    kernel.links.values().filter_map(pair)
}

fn of_endpoints(kernel: &KernelSnapshot, dead: &dyn Fn(&EndpointId) -> bool) -> Vec<Removal> {
    let mut ops = Vec::new();
    for (&id, _) in kernel.attachments.iter().filter(|(id, _)| dead(id)) {
        let configured = kernel.config.iter().find(|(_, row)| row.endpoint == id);
        let configured = configured.map(|(&ifindex, _)| ifindex);
        let recorded = kernel.endpoints.get(&id).map(|row| row.ifindex);
        let ifindex = recorded.or(configured).unwrap_or(0);
        let op = KernelOp::Detach { endpoint: id, ifindex };
        ops.push(Removal::new(id, op, format!("program links of endpoint {id}")));
    }
    for &id in kernel.policy_pins.iter().filter(|id| dead(id)) {
        let op = KernelOp::UnpinPolicy { endpoint: id };
        ops.push(Removal::new(id, op, format!("policy pin of endpoint {id}")));
    }
    for &id in kernel.endpoints.keys().chain(&kernel.torn_rows).filter(|id| dead(id)) {
        let op = KernelOp::DeleteEndpoint { endpoint: id };
        ops.push(Removal::new(id, op, format!("volvox_endpoint {id}")));
    }
    ops
}
