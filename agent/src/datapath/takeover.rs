//! Takes over what a living Cilium left: its links are given our programs, one after the other, while
//! packets go on.
//!
//! Cilium's programs and ours may stand side by side for a while: they have the same maps of
//! connections, translations, services and identities, and whoever sends asks the receiver's policy,
//! too. So the order is:
//!
//! 1. rows of every endpoint that only we have: until then nothing of ours runs, and Cilium may as well
//!    go on. The policy that an endpoint starts with is Cilium's own map of it, so that no verdict
//!    changes by the takeover;
//! 2. what endpoints send: each link is updated, with the program named that it runs. An endpoint that
//!    still has Cilium's asks the others' policy by tail calls, as before;
//! 3. what the stack sends to endpoints, and at once the route by which it does. Before, that came by
//!    Cilium's programs at `cilium_host`, which asked the policy. With a program at this hook any
//!    earlier, an answer that Cilium has just translated for a service would be judged again, as one
//!    that nobody asked for.
//!
//! Devices and sockets follow, when their owners have written their rows. Killed anywhere, the next
//! start goes on, or Cilium's: no pin and no map that its programs use is removed.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
    path::Path,
};

use volvox_actors::{
    model::Addresses,
    ports::{ConfigRow, HOST_DEVICE, HOST_IFINDEX, HOST_PEER, Hook, KernelError, OVERLAY},
};
use volvox_bpf_progs::layouts::NodeRow;
use volvox_maps::{
    crash,
    error::{CILIUM_PROGRAMS, DatapathError, netlink, refused},
    pins::{Pins, names},
    programs::is_ours_by_id,
    rows::{config_from_raw, config_to_raw},
    sys::{self, Map},
};
use volvox_system::netlink::Socket;
use zerocopy::IntoBytes;

use super::{
    devices,
    filter::AttachMode,
    generation::Generation,
    hooks::{self, Hooks, Place, spot},
    link::Spot,
    maps::Maps,
    services,
    writes::Writes,
};

/// Pin of the map by which Cilium's programs reach each other's policies. No version of ours made it.
pub(super) const CILIUM_MARK: &str = "cilium_call_policy";

/// What is to be taken over, as Cilium's records say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    /// A row for each endpoint, the node's own among them; slot and generation are chosen here.
    pub endpoints: Vec<ConfigRow>,
    /// Whether pods of other nodes are reached by tunnels, whose device is taken, too.
    pub tunnel: bool,
}

/// A program of Cilium at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CiliumProgram {
    /// Its number.
    pub(super) id: u32,
    /// Its name, of which the kernel keeps 15 bytes.
    pub(super) name: String,
}

/// The program of Cilium that runs at a hook, by a link or a filter, if one does.
pub(super) fn cilium_at(
    socket: &mut Socket,
    ifindex: u32,
    spot: Spot,
) -> Result<Option<CiliumProgram>, KernelError> {
    let linked = match sys::running(ifindex, spot.attach_type) {
        Ok(running) => running.into_iter().map(|running| running.program).collect(),
        // The interface is gone, or this kernel has no TCX.
        Err(error) if [Some(libc::ENODEV), Some(libc::EINVAL)].contains(&error.raw_os_error()) => {
            Vec::new()
        }
        Err(error) => {
            return Err(refused("ask what runs at", format!("interface {ifindex}"), &error));
        }
    };
    let filters = socket.filter_show(ifindex, spot.direction()).unwrap_or_default();
    for id in linked.into_iter().chain(filters.into_iter().map(|filter| filter.prog_id)) {
        if let Some(found) = cilium_program(id)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The program of that number, if it is Cilium's.
pub(super) fn cilium_program(id: u32) -> Result<Option<CiliumProgram>, KernelError> {
    let name = sys::program_by_id(id).and_then(sys::program_info).map(|info| info.text());
    match name {
        // It is gone meanwhile.
        Err(_) => Ok(None),
        Ok(name) if name.starts_with(CILIUM_PROGRAMS) && !is_ours_by_id(id)? => {
            Ok(Some(CiliumProgram { id, name }))
        }
        Ok(_) => Ok(None),
    }
}

/// Whether maps are Cilium's, too: its programs run by links that are to run ours, or its agent is to be able to
/// have the node back. Then they stay as they are.
pub(super) fn is_shared_with_cilium(pins: &Pins) -> bool {
    // What is asked first is there nowhere else.
    let any = || [pins.endpoints(), pins.devices()].iter().any(|all| any_cilium_below(all));
    pins.map(CILIUM_MARK).exists() && (pins.take_over() || any())
}

fn any_cilium_below(directory: &Path) -> bool {
    let all = names(directory).unwrap_or_default();
    let spots: Vec<Spot> = hooks::all().into_iter().chain(devices::all()).collect();
    all.iter().any(|name| {
        let links = directory.join(name).join("links");
        spots.iter().any(|spot| {
            let info = sys::get(&links.join(spot.program)).and_then(sys::link_info);
            info.is_ok_and(|info| matches!(cilium_program(info.prog_id), Ok(Some(_))))
        })
    })
}

/// What the work is done with.
pub(super) struct Takeover<'a> {
    pub(super) pins: &'a Pins,
    pub(super) maps: &'a Maps,
    pub(super) generation: &'a Generation,
    pub(super) writes: &'a Writes,
    pub(super) mode: AttachMode,
}

impl Takeover<'_> {
    /// Takes over all endpoints that run programs of Cilium. Fails, with nothing that a packet can see
    /// done, if the rows of one cannot be made. Where there is nothing to take, nothing is written.
    pub(super) fn take(&self, inheritance: &Inheritance) -> Result<(), DatapathError> {
        let mut socket = Socket::open()?;
        let mut left = Vec::new();
        for row in inheritance.endpoints.iter().filter(|row| row.ifindex != HOST_IFINDEX) {
            if cilium_at(&mut socket, row.ifindex, spot(Hook::FromContainer))?.is_some() {
                left.push(row);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(endpoints = left.len(), "taking over from Cilium");
        services::complete(self.maps)?;
        self.tell_router(&mut socket)?;
        for row in &left {
            self.make_rows(row)?;
        }
        let host = inheritance.endpoints.iter().filter(|row| row.ifindex == HOST_IFINDEX);
        for row in host {
            // The node's own policy is built anew where there was none.
            if let Err(error) = self.make_rows(row) {
                tracing::warn!(%error, "the node's policy is not taken over");
            }
        }
        if inheritance.tunnel {
            adopt_devices(&mut socket)?;
        }
        self.swap(&left)?;
        tracing::info!(endpoints = left.len(), "taken over from Cilium");
        Ok(())
    }

    /// The programs answer for the router before the agent has its settings together.
    fn tell_router(&self, socket: &mut Socket) -> Result<(), DatapathError> {
        let row = self.maps.node.get(&0)?.unwrap_or_default();
        let Some(host) = socket.link_by_name(HOST_DEVICE)? else { return Ok(()) };
        let held: Addresses =
            host.addresses.iter().map(ipnet::IpNet::addr).filter(is_routable).collect();
        let desired = NodeRow {
            router_ipv4: held.ipv4.map_or(row.router_ipv4, |address| address.octets()),
            router_ipv6: held.ipv6.map_or(row.router_ipv6, |address| address.octets()),
            ..row
        };
        if desired != row {
            self.maps.node.put(&0, &desired)?;
        }
        Ok(())
    }

    /// An endpoint's policy, in the slot that is not in use, and its configuration. Rows of an earlier
    /// life may be there, from before Cilium had the node back.
    fn make_rows(&self, row: &ConfigRow) -> Result<(), KernelError> {
        let path = self.pins.policy(row.endpoint);
        let failed = |error: io::Error| {
            refused("take over the policy of", format!("endpoint {}", row.endpoint), &error)
        };
        let policy = Map::pinned(&path).map_err(failed)?;
        let before = self.maps.config.get(&row.ifindex)?.map(|row| config_from_raw(&row));
        let before = before.filter(|before| before.endpoint == row.endpoint);
        let slot = before.map_or(row.endpoint.slot(0), |before| before.policy_slot ^ 1);
        let descriptor = policy.as_fd().as_raw_fd();
        self.maps.slots.update(slot.as_bytes(), descriptor.as_bytes()).map_err(failed)?;
        let generation = before.map_or(1, |before| before.generation.wrapping_add(1));
        let desired = ConfigRow { policy_slot: slot, generation, ..*row };
        self.maps.config.put(&row.ifindex, &config_to_raw(&desired))
    }

    /// A hook where that fails goes on with Cilium's program, and its endpoint says why.
    fn swap(&self, left: &[&ConfigRow]) -> Result<(), DatapathError> {
        let mut socket = Socket::open()?;
        let mut hooks =
            Hooks::new(self.pins, self.generation, &mut socket, (self.writes, self.mode));
        let place = |row: &ConfigRow| Place { endpoint: row.endpoint, ifindex: row.ifindex };
        for row in left {
            if let Err(error) = hooks.renew(place(row), Hook::FromContainer) {
                tracing::warn!(endpoint = %row.endpoint, %error, "Cilium's program goes on serving");
            }
        }
        for row in left {
            let attached = hooks.attach(place(row)).and_then(|()| {
                let mut addresses = row.addresses.iter();
                addresses.try_for_each(|address| {
                    crash::step();
                    hooks.netlink.put_route(address, row.ifindex).map_err(netlink)
                })
            });
            // The endpoint does it again, and says what is wrong.
            if let Err(error) = attached {
                tracing::warn!(endpoint = %row.endpoint, %error, "not taken over yet");
            }
        }
        Ok(())
    }
}

fn is_routable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// The devices of tunnels are taken as they are, not made again: they get our mark.
fn adopt_devices(socket: &mut Socket) -> Result<(), DatapathError> {
    if socket.device(OVERLAY)?.is_none() {
        return Ok(());
    }
    for name in [OVERLAY, HOST_DEVICE, HOST_PEER] {
        if let Some(device) = socket.device(name)?.filter(|device| !device.ours) {
            crash::step();
            socket.adopt_device(device.ifindex)?;
            tracing::info!(name, "the device is taken over");
        }
    }
    Ok(())
}
