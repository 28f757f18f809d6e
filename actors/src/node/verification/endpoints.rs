//! Endpoints: hooks, rows, interfaces, addresses and policy.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use super::{
    desired::{DesiredEndpoint, DesiredNode, PolicyDigest},
    difference::{Guarantee, NodeDifference},
};
use crate::ports::{Attachment, ConfigRow, HookState, KernelSnapshot};

const WRITTEN_AGAIN: &str = "the agent writes it again within its next sweep for drift; if it stays so, \
                             `volvox endpoint regenerate`";

/// What the kernel has of an endpoint that is to be served.
pub(super) fn compare(
    endpoint: &DesiredEndpoint,
    kernel: &KernelSnapshot,
    found: &mut Vec<NodeDifference>,
) {
    let mut add = |guarantee, what: String, remedy: &str| {
        let (about, remedy) = (endpoint.name(), remedy.to_owned());
        found.push(NodeDifference { guarantee, about, found: what, remedy });
    };
    if let Some((ifindex, name)) = &endpoint.interface {
        let link = kernel.links.get(ifindex);
        let differs = link.map(|link| link.differs(name, endpoint.config.node_mac));
        match (link, differs) {
            (None, _) => {
                let remedy = "its container is gone, or its interface was removed: delete the pod";
                add(Guarantee::Ready, format!("its interface {name} ({ifindex}) is gone"), remedy);
            }
            (Some(_), Some(Some(why))) => {
                let remedy = "another interface has its number: delete the pod";
                add(Guarantee::Numbers, format!("interface {ifindex}: {why}"), remedy);
            }
            (Some(link), _) if !link.up => {
                let remedy = "`volvox endpoint regenerate` sets it up";
                add(Guarantee::Ready, format!("its interface {name} is down"), remedy);
            }
            _ => {}
        }
        if link.is_some() {
            hooks(endpoint, kernel, &mut add);
            routes(endpoint, kernel, *ifindex, &mut add);
        }
    }
    rows(endpoint, kernel, &mut add);
}

fn hooks(
    endpoint: &DesiredEndpoint,
    kernel: &KernelSnapshot,
    add: &mut impl FnMut(Guarantee, String, &str),
) {
    let Attachment { from_container, to_container } =
        kernel.attachments.get(&endpoint.id).copied().unwrap_or_default();
    for (hook, state) in [("from the pod", from_container), ("to the pod", to_container)] {
        match state {
            HookState::Link | HookState::Filter => {}
            HookState::Empty => add(
                Guarantee::Attached,
                format!("no program of ours runs for packets {hook}"),
                "`volvox endpoint regenerate` attaches it",
            ),
            HookState::Stale => add(
                Guarantee::Clean,
                format!("more than one program of ours runs for packets {hook}"),
                "a restart of the agent leaves one",
            ),
            HookState::Foreign(who) | HookState::Behind(who) => add(
                Guarantee::Clean,
                format!("{who} runs before ours for packets {hook}"),
                "find out who attached it (`bpftool net`), and remove it there",
            ),
        }
    }
}

fn routes(
    endpoint: &DesiredEndpoint,
    kernel: &KernelSnapshot,
    ifindex: u32,
    add: &mut impl FnMut(Guarantee, String, &str),
) {
    for address in endpoint.lxc.keys().filter(|_| endpoint.routed) {
        let remedy = "`volvox endpoint regenerate` sets it";
        match kernel.routes.get(address) {
            None => add(Guarantee::Numbers, format!("no route leads to {address}"), remedy),
            Some(to) if *to != ifindex => add(
                Guarantee::Numbers,
                format!("the route to {address} leads to interface {to}, not {ifindex}"),
                remedy,
            ),
            Some(_) => {}
        }
    }
}

fn rows(
    endpoint: &DesiredEndpoint,
    kernel: &KernelSnapshot,
    add: &mut impl FnMut(Guarantee, String, &str),
) {
    // Slot and generation are each build's.
    let plain = |row: &ConfigRow| ConfigRow { generation: 0, policy_slot: 0, ..*row };
    let wanted = &endpoint.config;
    match kernel.config.get(&wanted.ifindex) {
        None => {
            let what = format!("volvox_config has no row at interface {}", wanted.ifindex);
            add(Guarantee::Numbers, what, WRITTEN_AGAIN);
        }
        Some(row) if plain(row) != plain(wanted) => {
            let what = format!(
                "volvox_config has endpoint {} with identity {}, flags {:#x} and {:?}, wanted are {}, {}, \
                 {:#x} and {:?}",
                row.endpoint,
                row.identity,
                row.flags,
                row.addresses,
                wanted.endpoint,
                wanted.identity,
                wanted.flags,
                wanted.addresses
            );
            add(Guarantee::Numbers, what, WRITTEN_AGAIN);
        }
        Some(_) => {}
    }
    for (address, wanted) in &endpoint.lxc {
        match kernel.lxc.get(address) {
            None => {
                let what = format!("cilium_lxc has no row of {address}");
                add(Guarantee::Numbers, what, WRITTEN_AGAIN);
            }
            Some(row) if row != wanted => {
                let what = format!(
                    "cilium_lxc has {address} as endpoint {} at interface {} with identity {}",
                    row.endpoint, row.ifindex, row.identity
                );
                add(Guarantee::Numbers, what, WRITTEN_AGAIN);
            }
            Some(_) => {}
        }
        let identity = kernel.ipcache.get(&IpNet::from(*address)).map(|row| row.identity);
        if identity != Some(wanted.identity) {
            let has = identity.map_or("no row of".to_owned(), |it| format!("identity {it} for"));
            let what =
                format!("cilium_ipcache_v2 has {has} {address}, wanted is {}", wanted.identity);
            add(Guarantee::Numbers, what, WRITTEN_AGAIN);
        }
    }
    if let Some(row) = kernel.endpoints.get(&endpoint.id) {
        // Its identity is the one that it had when it was written.
        if row.addresses != wanted.addresses {
            let (has, wanted) = (row.addresses, wanted.addresses);
            let what = format!("volvox_endpoint has {has:?}, wanted are {wanted:?}");
            add(Guarantee::Numbers, what, WRITTEN_AGAIN);
        }
    }
}

/// What its policy map has, against what it is to have.
pub(super) fn compare_policy(
    endpoint: &DesiredEndpoint,
    has: Option<PolicyDigest>,
    found: &mut Vec<NodeDifference>,
) {
    let what = match has {
        Some(has) if has == endpoint.policy => return,
        Some(has) if has.rows != endpoint.policy.rows => {
            format!("its policy map has {} rows, wanted are {}", has.rows, endpoint.policy.rows)
        }
        Some(_) => "its policy map has other rows than are wanted".to_owned(),
        None => "it has no policy map: all its packets are dropped".to_owned(),
    };
    found.push(NodeDifference {
        guarantee: Guarantee::Enforced,
        about: endpoint.name(),
        found: what,
        remedy: format!("`volvox endpoint rows {}` shows each; {WRITTEN_AGAIN}", endpoint.id),
    });
}

/// Addresses and interfaces that more than one endpoint has.
pub(super) fn shared(all: &[DesiredEndpoint], found: &mut Vec<NodeDifference>) {
    let mut owners: BTreeMap<String, Vec<&DesiredEndpoint>> = BTreeMap::new();
    for endpoint in all.iter().filter(|endpoint| !endpoint.leaving) {
        for address in endpoint.lxc.keys() {
            owners.entry(format!("address {address}")).or_default().push(endpoint);
        }
        if let Some((ifindex, name)) = &endpoint.interface {
            owners.entry(format!("interface {name} ({ifindex})")).or_default().push(endpoint);
        }
    }
    for (about, several) in owners.into_iter().filter(|(_, all)| all.len() > 1) {
        let names: Vec<_> = several.iter().map(|endpoint| endpoint.name()).collect();
        found.push(NodeDifference {
            guarantee: Guarantee::Numbers,
            about,
            found: format!("{} have it", names.join(" and ")),
            remedy: "delete the pod whose it is not".to_owned(),
        });
    }
}

/// Each address of an endpoint is handed out to it, and what pods have is an endpoint's.
pub(super) fn compare_leases(desired: &DesiredNode, found: &mut Vec<NodeDifference>) {
    let used: BTreeMap<IpAddr, &DesiredEndpoint> = desired
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.lxc.keys().map(move |address| (*address, endpoint)))
        .collect();
    for (address, endpoint) in used.iter().filter(|(_, endpoint)| !endpoint.leaving) {
        if !desired.leases.contains_key(address) && !desired.claimable.contains_key(address) {
            found.push(NodeDifference {
                guarantee: Guarantee::Numbers,
                about: endpoint.name(),
                found: format!("its address {address} is not handed out: another pod may get it"),
                remedy: "restart the agent, which reserves it; and report it".to_owned(),
            });
        }
    }
    // A pod's name has a slash; the router and its like have none, and need no endpoint.
    let of_pods = desired.leases.iter().filter(|(_, owner)| owner.contains('/'));
    for (address, owner) in of_pods.filter(|(address, _)| !used.contains_key(address)) {
        if desired.restored {
            found.push(NodeDifference {
                guarantee: Guarantee::Clean,
                about: format!("address {address}"),
                found: format!("it is handed out to {owner}, and no endpoint has it"),
                remedy: format!("`volvox ipam release {address}` if that pod is gone"),
            });
        }
    }
}
