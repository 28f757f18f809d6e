//! Removes from the node all that the datapath made there, and lists it. What belongs to others
//! stays; an uninstall that was interrupted can be run again.

use std::{collections::BTreeSet, os::fd::AsFd, path::Path};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::maps::{POLICY, RETIRED, by_name};
use volvox_maps::{
    crash,
    error::DatapathError,
    pins::{INCOMING, Pins, bpffs, names, remove_dir, unpin},
    programs::is_ours,
    sys,
};
use volvox_system::netlink::Socket;

use super::{
    devices, filter, generation::remove, hooks, maglev::TABLE, maps::EMPTY_POLICY, routing, sockets,
};

/// Removes all that the datapath left on this node, and says what that was: routes, the overlay,
/// filters, links, programs and maps. Interfaces of pods stay; without programs nothing filters
/// their packets.
pub fn uninstall(bpf_root: &Path) -> Result<Vec<String>, DatapathError> {
    let pins = Pins::at(bpf_root);
    let mut removed = Vec::new();
    let mut netlink = Socket::open()?;
    for (address, ifindex) in netlink.routes()? {
        crash::step();
        if netlink.delete_route(address, ifindex)? {
            removed.push(format!("route to {address} by interface {ifindex}"));
        }
    }
    routing::uninstall(&mut netlink, &mut removed)?;
    let mut interfaces = BTreeSet::new();
    for ifindex in netlink.links()?.into_keys() {
        if remove_filters(&mut netlink, ifindex, &mut removed)? {
            interfaces.insert(ifindex);
        }
    }
    interfaces.extend(remove_links(&pins, &mut removed)?);
    for ifindex in interfaces {
        crash::step();
        if netlink.clsact_del_unused(ifindex)? {
            removed.push(format!("queueing discipline clsact at interface {ifindex}"));
        }
    }
    let generations = pins.programs();
    for name in list(&generations)? {
        remove(&generations.join(&name))?;
        removed.push(format!("programs {name}"));
    }
    if pins.map("volvox_config").exists() {
        devices::remove(&pins, &mut removed)?;
        sockets::remove(&pins, &mut removed)?;
    }
    remove_maps(&pins, &mut removed)?;
    for directory in [
        pins.inherited(),
        generations.clone(),
        pins.root().join("volvox"),
        pins.endpoints(),
        pins.root().join("cilium"),
        pins.maps(),
        pins.root().join("tc"),
    ] {
        // What somebody else still has something in stays.
        let _ = remove_dir(&directory);
    }
    Ok(removed)
}

fn list(directory: &Path) -> Result<Vec<String>, DatapathError> {
    names(directory).map_err(|error| bpffs("list", directory.to_owned(), error))
}

fn remove_pin(path: &Path) -> Result<bool, DatapathError> {
    unpin(path).map_err(|error| bpffs("remove", path.to_owned(), error))
}

/// Removes links that run programs of ours; at which interfaces they did.
fn remove_links(pins: &Pins, removed: &mut Vec<String>) -> Result<Vec<u32>, DatapathError> {
    let mut interfaces = Vec::new();
    for endpoint in list(&pins.endpoints())? {
        let directory = pins.endpoints().join(&endpoint);
        let links = directory.join("links");
        for name in list(&links)? {
            let path = links.join(&name);
            let ours = sys::get(&path).and_then(|link| {
                let info = sys::link_info(link)?;
                Ok((info.ifindex, is_ours(sys::program_by_id(info.prog_id)?.as_fd())?))
            });
            let (ifindex, ours) = ours.map_err(|error| bpffs("read", path.clone(), error))?;
            if ours && pins.are_inherited() {
                let ended = sys::get(&path).and_then(sys::link_detach);
                ended.map_err(|error| bpffs("end", path.clone(), error))?;
            }
            if ours && remove_pin(&path)? {
                removed.push(format!("link {name} of endpoint {endpoint}"));
                // A link whose interface is gone has none.
                interfaces.extend((ifindex != 0).then_some(ifindex));
            }
        }
        let _ = remove_dir(&links);
        let _ = remove_dir(&directory);
    }
    Ok(interfaces)
}

/// Removes the maps, if they are ours: a running Cilium's have the same names.
fn remove_maps(pins: &Pins, removed: &mut Vec<String>) -> Result<(), DatapathError> {
    if !pins.map("volvox_config").exists() {
        return Ok(());
    }
    let is_known = |name: &str| {
        let name = name.strip_prefix(INCOMING).unwrap_or(name);
        let is_policy = name
            .strip_prefix(POLICY.name)
            .and_then(|rest| rest.strip_prefix('_'))
            .is_some_and(|digits| digits.parse::<u16>().is_ok());
        is_policy
            || [EMPTY_POLICY, TABLE].contains(&name)
            || by_name(name).is_some()
            || RETIRED.contains(&name)
    };
    // Our own marker goes last: until then, an interrupted removal is taken up again.
    let mut known: Vec<_> = list(&pins.maps())?.into_iter().filter(|name| is_known(name)).collect();
    known.sort_by_key(|name| name == "volvox_config");
    for name in known {
        if remove_pin(&pins.map(&name))? {
            removed.push(format!("map {name}"));
        }
    }
    Ok(())
}

/// Removes our filters of an interface, and nobody else's of the same names; whether there were any.
fn remove_filters(
    netlink: &mut Socket,
    ifindex: u32,
    removed: &mut Vec<String>,
) -> Result<bool, KernelError> {
    let before = removed.len();
    for spot in hooks::all().into_iter().chain(devices::all()) {
        crash::step();
        if filter::remove(netlink, ifindex, spot)? {
            removed.push(format!("filter {} at interface {ifindex}", spot.program));
        }
    }
    Ok(removed.len() > before)
}
