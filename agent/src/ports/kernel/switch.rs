use std::collections::{BTreeMap, BTreeSet};

use volvox_actors::{
    model::EndpointId,
    ports::{HookState, KernelError},
};

use super::{
    error::{DatapathError, refused},
    generation::Generation,
    hooks::{Hooks, Place, linked_ifindex},
    maps::{Maps, copy_missing},
    pins::{HOOKS, Pins, bpffs, names},
    sys::{self, Map},
    writes::Writes,
};
use crate::ports::netlink::Socket;

/// Prefix of the connection tracking maps.
const CONNECTIONS: &str = "cilium_ct";

/// Has every hook that runs an older generation run this one. A hook where that fails goes on with
/// the older; it shows as stale when it is read next.
pub(super) fn switch(
    pins: &Pins,
    maps: &Maps,
    writes: &Writes,
    generation: &Generation,
) -> Result<(), DatapathError> {
    let mut netlink = Socket::open()?;
    let mut hooks = Hooks::new(pins, generation, &mut netlink, writes);
    let mut switched = 0;
    for place in places(pins, maps)? {
        for hook in HOOKS {
            match renew(&mut hooks, place, hook) {
                Ok(true) => switched += 1,
                Ok(false) => {}
                Err(error) => tracing::warn!(
                    endpoint = %place.endpoint,
                    ifindex = place.ifindex,
                    %error,
                    "an older program goes on serving"
                ),
            }
        }
    }
    let replaced = hooks.replaced;
    tracing::info!(hooks = switched, "program generation switched");
    let old = replaced.values().filter_map(|program| sys::program_info(program).ok());
    carry_connections(maps, &old.flat_map(|program| program.map_ids).collect())?;
    Ok(())
}

fn renew(
    hooks: &mut Hooks<'_>,
    place: Place,
    hook: volvox_actors::ports::Hook,
) -> Result<bool, KernelError> {
    let stale = hooks.state(place, hook)? == HookState::Stale;
    if stale {
        hooks.renew(place, hook)?;
    }
    Ok(stale)
}

/// Wherever a program of ours may run.
fn places(pins: &Pins, maps: &Maps) -> Result<Vec<Place>, DatapathError> {
    let mut places = BTreeMap::new();
    maps.endpoint.for_each(|id, row| {
        if let Ok(endpoint) = u16::try_from(id) {
            places.insert(EndpointId(endpoint), row.ifindex);
        }
    })?;
    maps.config.for_each(|ifindex, row| {
        places.insert(EndpointId(row.ep_id), ifindex);
    })?;
    let directory = pins.endpoints();
    for name in names(&directory).map_err(|e| bpffs("list", directory, e))? {
        let Ok(endpoint) = name.parse().map(EndpointId) else { continue };
        if let Some(ifindex) = linked_ifindex(pins, endpoint)? {
            places.insert(endpoint, ifindex);
        }
    }
    let place = |(endpoint, ifindex)| Place { endpoint, ifindex };
    Ok(places.into_iter().filter(|(_, ifindex)| *ifindex != 0).map(place).collect())
}

/// Takes over the connections that older programs tracked in maps that were since replaced.
fn carry_connections(maps: &Maps, used: &BTreeSet<u32>) -> Result<(), KernelError> {
    for id in used {
        if maps.ids.iter().any(|(_, current)| current == id) {
            continue;
        }
        let Ok(old) = Map::by_id(*id) else { continue };
        let Some((name, current)) = maps.named_like(&old) else { continue };
        if name.starts_with(CONNECTIONS) {
            let failed = |e| refused("copy connections to", format!("map {name}"), &e);
            let new = Map::by_id(current).map_err(failed)?;
            let copied = copy_missing(&old, &new).map_err(failed)?;
            tracing::info!(map = name, copied, "connections taken over");
        }
    }
    Ok(())
}
