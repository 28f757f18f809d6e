use std::collections::BTreeSet;

use crate::{
    model::EndpointId,
    ports::{KernelOp, KernelSnapshot, lxc_flags},
};

/// What nobody of the living claims, of all that the kernel held at start. Run once every restored
/// endpoint has settled; each step names whose it was, so that a newcomer's rows are never hit.
pub(super) fn prune(
    kernel: &KernelSnapshot,
    alive: &BTreeSet<EndpointId>,
) -> Vec<(KernelOp, String)> {
    let dead = |id: &EndpointId| id.0 != 0 && !alive.contains(id);
    let mut ops = Vec::new();
    for (&address, row) in &kernel.lxc {
        let id = EndpointId(row.endpoint);
        if row.flags & lxc_flags::HOST == 0 && dead(&id) {
            let op = KernelOp::DeleteLxc { address, endpoint: row.endpoint };
            ops.push((op, format!("cilium_lxc {address} of endpoint {id}")));
            let op = KernelOp::DeleteRoute { address, ifindex: row.ifindex };
            ops.push((op, format!("route to {address} of endpoint {id}")));
        }
    }
    for (&ifindex, row) in kernel.config.iter().filter(|(_, row)| dead(&row.endpoint)) {
        let op = KernelOp::DeleteConfig { ifindex, endpoint: row.endpoint };
        ops.push((op, format!("volvox_config {ifindex} of endpoint {}", row.endpoint)));
    }
    ops.extend(of_endpoints(kernel, &dead));
    ops
}

fn of_endpoints(
    kernel: &KernelSnapshot,
    dead: &dyn Fn(&EndpointId) -> bool,
) -> Vec<(KernelOp, String)> {
    let mut ops = Vec::new();
    for (&id, _) in kernel.attachments.iter().filter(|(id, _)| dead(id)) {
        let configured = kernel.config.iter().find(|(_, row)| row.endpoint == id);
        let configured = configured.map(|(&ifindex, _)| ifindex);
        let recorded = kernel.endpoints.get(&id).map(|row| row.ifindex);
        let ifindex = recorded.or(configured).unwrap_or(0);
        let op = KernelOp::Detach { endpoint: id, ifindex };
        ops.push((op, format!("program links of endpoint {id}")));
    }
    for &id in kernel.policy_pins.iter().filter(|id| dead(id)) {
        ops.push((KernelOp::UnpinPolicy { endpoint: id }, format!("policy pin of endpoint {id}")));
    }
    for &id in kernel.endpoints.keys().chain(&kernel.torn_rows).filter(|id| dead(id)) {
        let op = KernelOp::DeleteEndpoint { endpoint: id };
        ops.push((op, format!("volvox_endpoint {id}")));
    }
    ops
}
