//! The kernel's side of a node, read without an agent: maps, interfaces, routes, and what runs at hooks.

use std::path::Path;

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, HOST_IFINDEX, HookState, KernelError, KernelSnapshot},
};
use volvox_maps::{
    DatapathError, Dump,
    error::{netlink, refused},
    programs::{intruder, is_ours_by_id},
    sys::{self, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};

/// Reads all of it.
pub(super) fn read(bpf_root: &Path) -> Result<KernelSnapshot, DatapathError> {
    let dump = Dump::at(bpf_root);
    let mut snapshot = dump.snapshot()?;
    let mut socket = Socket::open().map_err(netlink)?;
    snapshot.links = socket.links().map_err(netlink)?;
    snapshot.routes = socket.routes().map_err(netlink)?;
    let places: Vec<(EndpointId, u32)> = snapshot
        .config
        .values()
        .map(|row| (row.endpoint, row.ifindex))
        .filter(|(_, ifindex)| *ifindex != HOST_IFINDEX && snapshot.links.contains_key(ifindex))
        .collect();
    for (endpoint, ifindex) in places {
        let attachment = Attachment {
            from_container: hook(&mut socket, ifindex, Direction::Ingress)?,
            to_container: hook(&mut socket, ifindex, Direction::Egress)?,
        };
        snapshot.attachments.insert(endpoint, attachment);
    }
    // With an interface go its hooks, but not the pins of links that ran there.
    for endpoint in dump.pinned_links()? {
        snapshot.attachments.entry(endpoint).or_default();
    }
    Ok(snapshot)
}

/// What runs at one hook: by links first, then by filters.
fn hook(socket: &mut Socket, ifindex: u32, direction: Direction) -> Result<HookState, KernelError> {
    let attach_type = match direction {
        Direction::Ingress => TCX_INGRESS,
        Direction::Egress => TCX_EGRESS,
    };
    // Without TCX, or at an interface that is gone meanwhile, nothing runs by it.
    let absent = [Some(libc::EINVAL), Some(libc::ENODEV)];
    let linked: Vec<u32> = match sys::running(ifindex, attach_type) {
        Ok(running) => running.into_iter().map(|it| it.program).collect(),
        Err(error) if absent.contains(&error.raw_os_error()) => Vec::new(),
        Err(error) => {
            return Err(refused("ask what runs at", format!("interface {ifindex}"), &error));
        }
    };
    let by_link = state(&linked, HookState::Link)?;
    if by_link != HookState::Empty {
        return Ok(by_link);
    }
    let mut filters = socket.filter_show(ifindex, direction).map_err(netlink)?;
    filters.sort_by_key(|filter| filter.priority);
    let filters: Vec<u32> = filters.into_iter().map(|filter| filter.prog_id).collect();
    match (state(&filters, HookState::Filter)?, linked.first()) {
        (HookState::Filter, Some(first)) => Ok(HookState::Behind(intruder(*first))),
        (by_filter, _) => Ok(by_filter),
    }
}

/// How a hook stands where these run, in that order; `right` with one of ours, first and once.
fn state(running: &[u32], right: HookState) -> Result<HookState, KernelError> {
    let mut ours = Vec::new();
    for program in running {
        ours.push(is_ours_by_id(*program)?);
    }
    Ok(match (ours.first(), ours.iter().filter(|ours| **ours).count()) {
        (_, 0) => HookState::Empty,
        (Some(true), 1) => right,
        (Some(true), _) => HookState::Stale,
        _ => HookState::Behind(intruder(running[0])),
    })
}
