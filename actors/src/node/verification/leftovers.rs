//! What belongs to nobody: rows, programs, pins, interfaces, directories.

use std::collections::BTreeSet;

use super::{
    desired::DesiredNode,
    difference::{Guarantee, NodeDifference},
};
use crate::{
    model::{EndpointId, EndpointKind},
    ports::{HEALTH_DEVICE, KernelSnapshot, Link, lxc_flags},
    state_directory::ScannedDirectory,
};

/// Finds it. As long as an agent restores, whatever has a record may be wanted.
pub(super) fn find(
    kernel: &KernelSnapshot,
    disk: &ScannedDirectory,
    desired: Option<&DesiredNode>,
    found: &mut Vec<NodeDifference>,
) {
    let mut add = |about: String, what: String, remedy: &str| {
        let (guarantee, remedy) = (Guarantee::Clean, remedy.to_owned());
        found.push(NodeDifference { guarantee, about, found: what, remedy });
    };
    let recorded: BTreeSet<EndpointId> =
        disk.records.iter().map(|found| found.record.id).chain(unreadable(disk)).collect();
    let wanted: BTreeSet<EndpointId> =
        desired.iter().flat_map(|it| it.endpoints.iter().map(|endpoint| endpoint.id)).collect();
    let is_final = desired.is_some_and(|desired| desired.restored);
    let known: BTreeSet<EndpointId> =
        if is_final { wanted.clone() } else { wanted.union(&recorded).copied().collect() };
    let agent = "the agent removes it once everybody has settled; if none runs, start it";
    for (what, id) in rows(kernel).filter(|(_, id)| !known.contains(id)) {
        add(format!("endpoint {id}"), format!("{what} is there, and no such endpoint"), agent);
    }
    if is_final {
        // The node's own endpoint keeps its record while it is switched off.
        let pods = disk.records.iter().filter(|it| it.record.kind() != EndpointKind::Host);
        for found in pods.filter(|found| !wanted.contains(&found.record.id)) {
            let what = format!("directory {} is there, and no such endpoint", found.dir);
            add(format!("endpoint {}", found.record.id), what, "restart the agent");
        }
        for dir in &disk.incomplete {
            let what = "a build that never finished is on disk".to_owned();
            add(format!("directory {dir}"), what, "restart the agent, which puts it aside");
        }
    }
    let interfaces: BTreeSet<u32> = match desired {
        Some(desired) => {
            desired.endpoints.iter().filter_map(|it| Some(it.interface.as_ref()?.0)).collect()
        }
        None => disk.records.iter().map(|found| found.record.ifindex).collect(),
    };
    if is_final {
        let lone = |link: &&Link| link.name == HEALTH_DEVICE && !interfaces.contains(&link.ifindex);
        for link in kernel.links.values().filter(lone) {
            let what = "it is a health endpoint's, and there is no such endpoint".to_owned();
            let remedy = "the agent removes it within a minute, or at its start";
            add(format!("interface {} ({})", link.name, link.ifindex), what, remedy);
        }
    }
    let ends = kernel.links.values().filter(|link| {
        let peer = kernel.links.get(&link.peer_ifindex);
        peer.is_some_and(|peer| link.is_idle_pair(peer))
    });
    for link in ends.filter(|link| !interfaces.contains(&link.ifindex)) {
        if is_final || desired.is_none() {
            let what = "it was made for a pod, and no container or endpoint has it".to_owned();
            let remedy = "a restart of the agent removes it; or `ip link delete`";
            add(format!("interface {} ({})", link.name, link.ifindex), what, remedy);
        }
    }
}

fn rows(kernel: &KernelSnapshot) -> impl Iterator<Item = (String, EndpointId)> + '_ {
    let local = kernel.lxc.iter().filter(|(_, row)| row.flags & lxc_flags::HOST == 0);
    let local = local.map(|(address, row)| {
        (format!("a row of {address} in cilium_lxc"), EndpointId(row.endpoint))
    });
    let config = kernel.config.values();
    let config = config
        .map(|row| (format!("a row of interface {} in volvox_config", row.ifindex), row.endpoint));
    let records = kernel.endpoints.keys().map(|&id| ("a row in volvox_endpoint".to_owned(), id));
    let programs =
        kernel.attachments.keys().map(|&id| ("a program or a pinned link".to_owned(), id));
    let pins = kernel.policy_pins.iter().map(|&id| ("a pinned policy map".to_owned(), id));
    local.chain(config).chain(records).chain(programs).chain(pins)
}

/// Endpoints of which something is on disk that cannot be used.
fn unreadable(disk: &ScannedDirectory) -> impl Iterator<Item = EndpointId> + '_ {
    disk.quarantined.iter().map(|it| it.id).chain(disk.unread.keys().copied())
}
