//! Programs, rows and rules at interfaces to other machines.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use volvox_actors_simulated::{
    model::{Addresses, IdentityId},
    ports::{
        DeviceKind, DeviceRow, DeviceTables, HookState, LOCAL_RULE_PRIORITY, OVERLAY, lxc_flags,
    },
    testing::KernelState,
};

use crate::{
    model::{
        devices::{devices, global, row, rules},
        services::host,
    },
    world::node::Node,
};

impl Node {
    /// At rest: programs and rows are at the devices that there are, and the node's addresses are
    /// known to be its own.
    pub(crate) fn devices_lack(&self) -> Option<String> {
        let unmasqueraded = &self.world.settings.devices.unmasqueraded;
        let router = self.world.settings.node.router;
        self.world.kernel.with(|state| {
            if state.routing.rules != rules(LOCAL_RULE_PRIORITY) {
                return Some(format!("own addresses are looked up by {:?}", state.routing.rules));
            }
            if state.devices.unmasqueraded != *unmasqueraded {
                let found = &state.devices.unmasqueraded;
                return Some(format!("not masqueraded is what goes to {found:?}"));
            }
            device_programs_lack(state).or_else(|| own_addresses_lack(state, router))
        })
    }
}

fn device_programs_lack(state: &KernelState) -> Option<String> {
    let DeviceTables { rows, links, gone, .. } = &state.devices;
    let expected: BTreeMap<u32, DeviceRow> =
        devices(state).filter_map(|link| Some((link.ifindex, row(link)?))).collect();
    if *rows != expected {
        return Some(format!("rows of devices are {rows:?}, not {expected:?}"));
    }
    // Pins of a device of tunnels that somebody removed wait for the next one.
    if let Some(name) = gone.iter().find(|name| *name != OVERLAY) {
        return Some(format!("programs of {name}, which is gone, are left"));
    }
    let native = links.iter().filter(|(_, links)| links.kind == DeviceKind::Native);
    let native: BTreeMap<_, _> =
        native.map(|(ifindex, links)| (*ifindex, (links.name.as_str(), links.state))).collect();
    let expected: BTreeMap<_, _> = devices(state)
        .filter(|link| expected.contains_key(&link.ifindex))
        .map(|link| (link.ifindex, (link.name.as_str(), HookState::Link)))
        .collect();
    (native != expected).then(|| format!("programs run at {native:?}, not {expected:?}"))
}

fn own_addresses_lack(state: &KernelState, router: Addresses) -> Option<String> {
    let mut expected: BTreeSet<IpAddr> = devices(state).flat_map(global).collect();
    expected.insert(host());
    let is_host = |flags: u32| flags & lxc_flags::HOST != 0;
    let rows = state.rows.lxc.iter().filter(|(_, row)| is_host(row.flags));
    let rows: BTreeSet<IpAddr> = rows.map(|(address, _)| *address).collect();
    if rows != expected {
        return Some(format!("the node's addresses are {expected:?}, its rows are {rows:?}"));
    }
    expected.extend(router.iter());
    let mapped = state.rows.ipcache.iter().filter(|(_, row)| row.identity == IdentityId::HOST);
    let mapped: BTreeSet<IpAddr> = mapped.map(|(prefix, _)| prefix.addr()).collect();
    (mapped != expected)
        .then(|| format!("the node's addresses are {expected:?}, the ipcache has {mapped:?}"))
}
