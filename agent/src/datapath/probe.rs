//! What is at endpoints' interfaces, asked of the kernel.

use std::collections::BTreeMap;

use volvox_actors::{
    model::EndpointId,
    ports::{KernelError, Link, Probe},
};
use volvox_maps::error::netlink;

use super::hooks::{Hooks, Place};

/// Of more endpoints than these all interfaces are listed, rather than each asked for.
const FEW: usize = 8;

/// Looks at these endpoints' interfaces: two questions a hook, and what netlink says.
pub(super) fn probe(
    hooks: &mut Hooks<'_>,
    places: &[(EndpointId, u32)],
) -> Result<BTreeMap<EndpointId, Probe>, KernelError> {
    let links = links(hooks, places)?;
    let routes = hooks.netlink.routes().map_err(netlink)?;
    let mut probes = BTreeMap::new();
    for &(endpoint, ifindex) in places {
        let mut probe = Probe { link: links.get(&ifindex).cloned(), ..Probe::default() };
        if probe.link.is_some() {
            probe.attachment = hooks.read(Place { endpoint, ifindex })?;
        }
        let to_it = routes.iter().filter(|(_, to)| **to == ifindex);
        probe.routes = to_it.map(|(address, _)| *address).collect();
        probes.insert(endpoint, probe);
    }
    Ok(probes)
}

fn links(
    hooks: &mut Hooks<'_>,
    places: &[(EndpointId, u32)],
) -> Result<BTreeMap<u32, Link>, KernelError> {
    if places.len() > FEW {
        return hooks.netlink.links().map_err(netlink);
    }
    let mut links = BTreeMap::new();
    for &(_, ifindex) in places {
        let link = hooks.netlink.link_by_index(ifindex).map_err(netlink)?;
        links.extend(link.map(|link| (ifindex, link)));
    }
    Ok(links)
}
