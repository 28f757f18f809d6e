//! The kernel steps from realised to desired devices, in an order that never leaves a program
//! without its row.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::choice::DesiredDevices;
use crate::{
    mutants::{Mutant, mutated},
    ports::{DeviceKind, DeviceLinks, DeviceTables, HookState, KernelOp, OVERLAY},
};

/// What the programs at the cgroup are called among devices.
const SOCKETS: &str = "sockets";

/// Steps from what there is to what is desired: what a program reads comes before the program, and
/// goes after it.
pub(super) fn steps(
    present: &DeviceTables,
    desired: &DesiredDevices,
    unmasqueraded: &BTreeSet<IpNet>,
) -> Vec<KernelOp> {
    let mut ops = Vec::new();
    let missing: Vec<_> = unmasqueraded.difference(&present.unmasqueraded).copied().collect();
    if !missing.is_empty() {
        ops.push(KernelOp::PutUnmasqueraded(missing));
    }
    let is_row = |ifindex, row| present.rows.get(ifindex) == Some(row);
    let rows = desired.rows.iter().filter(|(ifindex, row)| !is_row(ifindex, row));
    ops.extend(rows.map(|(&ifindex, &row)| KernelOp::PutDevice { ifindex, row }));
    let runs = |ifindex, links: &DeviceLinks| present.links.get(ifindex) == Some(links);
    let links = desired.links.iter().filter(|(ifindex, links)| !runs(ifindex, links));
    ops.extend(links.map(|(&ifindex, links)| KernelOp::AttachDevice {
        ifindex,
        name: links.name.clone(),
        kind: links.kind,
    }));
    let others = present.links.iter().filter(|(_, links)| links.kind == DeviceKind::Native);
    let surplus = others.filter(|(ifindex, _)| !desired.links.contains_key(ifindex));
    // The owner of the ways to other nodes may just be giving a new device of tunnels programs.
    let gone = present.gone.iter().filter(|name| *name != OVERLAY);
    let surplus = surplus.map(|(_, links)| &links.name).chain(gone);
    // Who has that name now was attached in place of who had it before.
    let has_name = |name: &String| desired.links.values().any(|links| links.name == *name);
    let surplus = surplus.filter(|name| !has_name(name)).cloned();
    ops.extend(surplus.map(|name| KernelOp::DetachDevice { name }));
    if present.sockets.is_some() {
        ops.push(KernelOp::AttachSockets);
    }
    let surplus = present.rows.keys().filter(|ifindex| !desired.rows.contains_key(ifindex));
    let surplus = surplus.filter(|_| !mutated(Mutant::DeviceRowLeft));
    ops.extend(surplus.map(|&ifindex| KernelOp::DeleteDevice { ifindex }));
    let surplus: Vec<_> = present.unmasqueraded.difference(unmasqueraded).copied().collect();
    if !surplus.is_empty() {
        ops.push(KernelOp::DeleteUnmasqueraded(surplus));
    }
    ops
}

/// The device that a step is about, if it is about one.
pub(super) fn device_of(
    op: &KernelOp,
    present: &DeviceTables,
    desired: &DesiredDevices,
) -> Option<String> {
    match op {
        KernelOp::PutDevice { ifindex, .. } | KernelOp::DeleteDevice { ifindex } => {
            let links = desired.links.get(ifindex).or_else(|| present.links.get(ifindex));
            Some(links.map_or_else(|| format!("interface {ifindex}"), |links| links.name.clone()))
        }
        KernelOp::AttachDevice { name, .. } | KernelOp::DetachDevice { name } => Some(name.clone()),
        KernelOp::AttachSockets => Some(SOCKETS.to_owned()),
        _ => None,
    }
}

/// Notes a step that was done.
pub(super) fn done(present: &mut DeviceTables, op: KernelOp) {
    match op {
        KernelOp::PutUnmasqueraded(all) => present.unmasqueraded.extend(all),
        KernelOp::DeleteUnmasqueraded(all) => {
            present.unmasqueraded.retain(|prefix| !all.contains(prefix));
        }
        KernelOp::PutDevice { ifindex, row } => drop(present.rows.insert(ifindex, row)),
        KernelOp::DeleteDevice { ifindex } => drop(present.rows.remove(&ifindex)),
        KernelOp::AttachDevice { ifindex, name, kind } => {
            // The pins of an interface that had the name before make room.
            present.links.retain(|_, links| links.name != name);
            present.gone.remove(&name);
            let links = DeviceLinks { name, kind, state: HookState::Link };
            present.links.insert(ifindex, links);
        }
        KernelOp::DetachDevice { name } => {
            present.links.retain(|_, links| links.name != name);
            present.gone.remove(&name);
        }
        KernelOp::AttachSockets => present.sockets = None,
        _ => {}
    }
}
