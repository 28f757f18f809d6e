//! The kernel's state at start, read as one snapshot, for the restore to compare with: rows, pins,
//! hooks, interfaces and routes. It changes nothing.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    thread::{self, ScopedJoinHandle},
};

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, HOST_IFINDEX, Hook, HookState, KernelError, KernelSnapshot, Link},
};
use volvox_maps::{
    error::{netlink, refused},
    pins::Pins,
    rows::{config_row, endpoint_from_raw, ipcache_row, lxc_row},
};
use volvox_system::netlink::Socket;

use super::{
    filter::AttachMode,
    generation::Generation,
    hooks::{Hooks, Place, linked_ifindex, standing},
    maps::Maps,
    running::Standing,
    writes::Writes,
};

/// An endpoint's interface and what the links alone say of its hooks.
struct Linked {
    ifindex: u32,
    from_container: Standing,
    to_container: Standing,
}

/// Interfaces by number, and the endpoints' routes.
type Network = (BTreeMap<u32, Link>, BTreeMap<IpAddr, u32>);

/// Reads all that restoring compares with. Network, pins and the ipcache are read side by side.
pub(super) fn read(
    pins: &Pins,
    maps: &Maps,
    generation: &Generation,
    (writes, mode): (&Writes, AttachMode),
) -> Result<KernelSnapshot, KernelError> {
    let (mut snapshot, linked) = thread::scope(|scope| {
        let network = scope.spawn(read_network);
        let ipcache = scope.spawn(|| maps.ipcache.collect(ipcache_row));
        let mut snapshot = read_rows(maps)?;
        snapshot.policy_pins = pins.policies()?;
        let linked = read_links(pins, (generation, mode), &snapshot)?;
        snapshot.ipcache = join(ipcache)?;
        (snapshot.links, snapshot.routes) = join(network)?;
        Ok((snapshot, linked))
    })?;
    let mut netlink = Socket::open().map_err(netlink)?;
    let mut hooks = Hooks::new(pins, generation, &mut netlink, (writes, mode));
    for (endpoint, linked) in linked {
        let known = snapshot.links.contains_key(&linked.ifindex);
        let mut state = |hook, found: Standing| match found.linked {
            Some(state) => Ok(state),
            None if known => hooks.state(Place { endpoint, ifindex: linked.ifindex }, hook),
            None => Ok(HookState::Empty),
        };
        let attachment = Attachment {
            from_container: state(Hook::FromContainer, linked.from_container)?,
            to_container: state(Hook::ToContainer, linked.to_container)?,
        };
        if attachment != Attachment::default() {
            snapshot.attachments.insert(endpoint, attachment);
        }
    }
    // With an interface go its hooks, but not the pins of links that ran there.
    for endpoint in pins.linked_endpoints()? {
        snapshot.attachments.entry(endpoint).or_default();
    }
    Ok(snapshot)
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T, KernelError>>) -> Result<T, KernelError> {
    thread.join().unwrap_or_else(|_| {
        let panicked = io::Error::other("the thread that read it panicked");
        Err(refused("read", "the kernel's state", &panicked))
    })
}

fn read_network() -> Result<Network, KernelError> {
    let mut socket = Socket::open().map_err(netlink)?;
    Ok((socket.links().map_err(netlink)?, socket.routes().map_err(netlink)?))
}

fn read_rows(maps: &Maps) -> Result<KernelSnapshot, KernelError> {
    let (lxc, config) = (maps.lxc.collect(lxc_row)?, maps.config.collect(config_row)?);
    let mut snapshot = KernelSnapshot { lxc, config, ..KernelSnapshot::default() };
    maps.endpoint.for_each(|id, row| {
        let Ok(endpoint) = u16::try_from(id).map(EndpointId) else { return };
        match endpoint_from_raw(&row) {
            Some(row) => drop(snapshot.endpoints.insert(endpoint, row)),
            None => snapshot.torn_rows.push(endpoint),
        }
    })?;
    snapshot.torn_rows.sort_unstable();
    Ok(snapshot)
}

/// What links say of the hooks of every endpoint that has rows or links.
fn read_links(
    pins: &Pins,
    (generation, mode): (&Generation, AttachMode),
    rows: &KernelSnapshot,
) -> Result<BTreeMap<EndpointId, Linked>, KernelError> {
    let mut places: BTreeMap<EndpointId, u32> =
        rows.endpoints.iter().map(|(endpoint, row)| (*endpoint, row.ifindex)).collect();
    let at_interfaces = rows.config.iter().filter(|(ifindex, _)| **ifindex != HOST_IFINDEX);
    places.extend(at_interfaces.map(|(ifindex, row)| (row.endpoint, *ifindex)));
    for endpoint in pins.linked_endpoints()? {
        if !places.contains_key(&endpoint)
            && let Some(ifindex) = linked_ifindex(pins, endpoint)?
        {
            places.insert(endpoint, ifindex);
        }
    }
    let read = |(endpoint, ifindex)| {
        let place = Place { endpoint, ifindex };
        let linked = Linked {
            ifindex,
            from_container: standing(pins, generation, place, (Hook::FromContainer, mode))?,
            to_container: standing(pins, generation, place, (Hook::ToContainer, mode))?,
        };
        Ok((endpoint, linked))
    };
    places.into_iter().map(read).collect()
}
