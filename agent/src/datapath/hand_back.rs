//! Gives a node that was taken over from Cilium the ways back that Cilium's agent does not make itself: the rest
//! it does when it starts, in place.

use std::path::Path;

use volvox_actors::{
    model::EndpointId,
    ports::{HOST_DEVICE, Hook, KernelError},
};
use volvox_maps::{
    crash,
    error::DatapathError,
    pins::{Pins, bpffs, names, refused_pin, rename},
    sys::TCX_EGRESS,
};
use volvox_system::netlink::Socket;

use super::{
    filter, hooks,
    link::{PinnedLink, Spot},
    takeover::cilium_at,
};

/// Where Cilium hands on what the node itself sends to pods.
const FROM_HOST: Spot = Spot { program: "cil_from_host", attach_type: TCX_EGRESS };

/// Prepares the node for Cilium's agent, and says what was done. Packets go on, judged by our programs and where
/// they are by Cilium's. No agent may run. Killed anywhere, it is run again.
pub fn hand_back(bpf_root: &Path) -> Result<Vec<String>, DatapathError> {
    let pins = Pins::at(bpf_root);
    let (mut socket, mut done) = (Socket::open()?, Vec::new());
    let directory = pins.endpoints();
    let all = names(&directory).map_err(|e| bpffs("list", directory, e))?;
    for endpoint in all.iter().filter_map(|name| name.parse().ok()).map(EndpointId) {
        if settle(&pins, &mut socket, endpoint)? {
            done.push(format!(
                "link cil_to_container of endpoint {endpoint} has the name that Cilium removes"
            ));
        }
    }
    // Without it nothing else leads to pods, or nothing judges what does.
    let host = socket.link_by_name(HOST_DEVICE)?;
    let leads = match &host {
        Some(host) => cilium_at(&mut socket, host.ifindex, FROM_HOST)?.is_some(),
        None => false,
    };
    let routes = socket.routes()?;
    if !leads {
        if !routes.is_empty() {
            done.push(format!(
                "{} routes to pods stay: no program of Cilium runs at {HOST_DEVICE}; remove them when its \
                 agent is ready (`ip route flush proto 155`)",
                routes.len()
            ));
        }
        return Ok(done);
    }
    for (address, ifindex) in routes {
        crash::step();
        if socket.delete_route(address, ifindex)? {
            done.push(format!("route to {address} by interface {ifindex} is removed"));
        }
    }
    Ok(done)
}

/// What was not settled when the agent stopped: a link beside the filter that it is to replace.
fn settle(pins: &Pins, socket: &mut Socket, endpoint: EndpointId) -> Result<bool, KernelError> {
    let hook = Hook::ToContainer;
    let (settled, unsettled) = (pins.link(endpoint, hook), pins.unsettled_link(endpoint, hook));
    let Some(link) = PinnedLink::open(&unsettled)? else { return Ok(false) };
    if link.ifindex != 0 {
        filter::remove(socket, link.ifindex, hooks::spot(hook))?;
    }
    rename(&unsettled, &settled).map_err(|error| refused_pin("rename to", &settled, &error))?;
    Ok(true)
}
