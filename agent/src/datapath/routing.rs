//! Devices and routes that lead to other nodes.

use std::{collections::BTreeMap, fs::File, io, io::Read};

use volvox_actors::{
    model::Mac,
    ports::{
        HOST_DEVICE, HOST_PEER, KernelError, LOCAL_RULE_PRIORITY, LocalRule, OVERLAY, Routing,
        RoutingDevice, RoutingOp,
    },
};
use volvox_maps::{
    crash,
    error::{netlink, refused},
};
use volvox_system::{
    netlink::{Device, NetlinkError, NodeRoutes, Socket},
    sysctl::Sysctl,
};

/// All of ours, in the order in which they go.
const DEVICES: [&str; 3] = [OVERLAY, HOST_DEVICE, HOST_PEER];

/// Reads what leads to other nodes, as far as netlink and the kernel's parameters say it.
pub(super) fn read(socket: &mut Socket, sysctl: &Sysctl) -> Result<Routing, KernelError> {
    let links = socket.links().map_err(netlink)?;
    let mut found = BTreeMap::new();
    for name in DEVICES {
        if let Some(device) = socket.device(name).map_err(netlink)? {
            found.insert(name, device);
        }
    }
    let device = |(&name, device): (&&str, &Device)| {
        let Device { ifindex, ours, port, .. } = *device;
        let prepared = sysctl.is_prepared(name);
        let fit = is_fit(name, device, &found);
        let attached = false;
        (name.to_owned(), RoutingDevice { ifindex, ours, fit, port, prepared, attached })
    };
    let devices = found.iter().map(device).collect();
    let NodeRoutes { hops, odd } = socket.node_routes().map_err(netlink)?;
    let strict = sysctl.is_strict();
    let rules = socket.local_rules().map_err(netlink)?;
    Ok(Routing { links, devices, routes: hops, odd, rules, strict, ..Routing::default() })
}

/// Whether it is what a device of that name is to be.
fn is_fit(name: &str, device: &Device, all: &BTreeMap<&str, Device>) -> bool {
    let is_its_peer = |name| all.get(name).is_some_and(|peer| peer.ifindex == device.peer_ifindex);
    let is_of_kind = match name {
        OVERLAY => device.kind == "vxlan" && device.external,
        HOST_DEVICE => device.kind == "veth" && is_its_peer(HOST_PEER),
        _ => device.kind == "veth" && is_its_peer(HOST_DEVICE),
    };
    is_of_kind && device.noarp
}

/// Does a step at devices and routes.
pub(super) fn change(
    socket: &mut Socket,
    sysctl: &Sysctl,
    op: RoutingOp,
) -> Result<(), KernelError> {
    crash::step();
    match op {
        RoutingOp::MakeOverlay { port, mtu } => {
            socket.create_overlay(OVERLAY, port, mtu, random_mac()?)
        }
        RoutingOp::MakeHostPair { mtu } => {
            let macs = [random_mac()?, random_mac()?];
            socket.create_pair([HOST_DEVICE, HOST_PEER], mtu, macs)
        }
        RoutingOp::Prepare { name } => {
            let prepared = sysctl.prepare_device(&name);
            return prepared.map_err(|error| {
                refused("prepare", format!("interface {name}"), &io::Error::other(error))
            });
        }
        RoutingOp::SetMtu { ifindex, mtu } => socket.set_mtu(ifindex, mtu),
        RoutingOp::Assign { ifindex, address } => socket.add_address(ifindex, address.into()),
        RoutingOp::Unassign { ifindex, address } => {
            socket.remove_address(ifindex, address).map(drop)
        }
        RoutingOp::Remove { ifindex, name } => remove(socket, ifindex, &name).map(drop),
        RoutingOp::Route { prefix, hop, replaces } => socket.put_node_route(prefix, hop, replaces),
        RoutingOp::Unroute { prefix } => socket.delete_node_route(prefix).map(drop),
        RoutingOp::PutLocalRule(rule) => socket.put_local_rule(rule),
        RoutingOp::DeleteLocalRule(rule) => socket.delete_local_rule(rule).map(drop),
        RoutingOp::Tunnel { .. } => unreachable!("that is a row's step"),
    }
    .map_err(netlink)
}

/// Removes a device if it still is the one meant. False if it is not there.
fn remove(socket: &mut Socket, ifindex: u32, name: &str) -> Result<bool, NetlinkError> {
    let device = socket.device(name)?;
    match device.is_some_and(|device| device.ours && device.ifindex == ifindex) {
        true => socket.delete_link(ifindex),
        false => Ok(false),
    }
}

/// Removes all that leads to other nodes, and says what that was.
pub(super) fn uninstall(
    socket: &mut Socket,
    removed: &mut Vec<String>,
) -> Result<(), NetlinkError> {
    let NodeRoutes { hops, odd } = socket.node_routes()?;
    for prefix in hops.into_keys().chain(odd) {
        crash::step();
        if socket.delete_node_route(prefix)? {
            removed.push(format!("route to {prefix}"));
        }
    }
    for name in DEVICES {
        crash::step();
        if let Some(device) = socket.device(name)?
            && device.ours
            && socket.delete_link(device.ifindex)?
        {
            removed.push(format!("interface {name}"));
        }
    }
    for (ipv6, rules) in socket.local_rules()? {
        let priority = LOCAL_RULE_PRIORITY;
        if rules.priorities.contains(&priority) {
            crash::step();
            socket.put_local_rule(LocalRule { ipv6, priority: 0 })?;
            crash::step();
            socket.delete_local_rule(LocalRule { ipv6, priority })?;
            removed.push(format!("routing rule {priority}"));
        }
    }
    Ok(())
}

/// A locally administered address that no other node has. It stays the device's: one that the
/// kernel chose would be replaced by systemd-udevd, at a moment of its own.
fn random_mac() -> Result<Mac, KernelError> {
    let path = "/dev/urandom";
    let mut bytes = [0; 6];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| refused("read", path, &error))?;
    bytes[0] = bytes[0] & 0xfc | 0x02;
    Ok(Mac(bytes))
}
