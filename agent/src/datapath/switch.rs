//! Moves every hook from an older program generation to the current one, one by one.

use std::collections::BTreeMap;

use volvox_actors::{
    model::EndpointId,
    ports::{HOST_IFINDEX, HookState, KernelError},
};
use volvox_maps::{
    error::DatapathError,
    pins::{HOOKS, Pins, bpffs, names},
};
use volvox_system::netlink::Socket;

use super::{
    filter::AttachMode,
    generation::Generation,
    hooks::{Hooks, Place, linked_ifindex},
    maps::Maps,
    writes::Writes,
};

/// Has every hook that runs an older generation run this one. A hook where that fails goes on with
/// the older; it shows as stale when it is read next. Answers whether there is none such.
pub(super) fn switch(
    pins: &Pins,
    maps: &Maps,
    (writes, mode): (&Writes, AttachMode),
    generation: &Generation,
) -> Result<bool, DatapathError> {
    let mut netlink = Socket::open()?;
    let mut hooks = Hooks::new(pins, generation, &mut netlink, (writes, mode));
    let (mut switched, mut all) = (0, true);
    for place in places(pins, maps)? {
        for hook in HOOKS {
            match renew(&mut hooks, place, hook) {
                Ok(true) => switched += 1,
                Ok(false) => {}
                Err(error) => {
                    all = false;
                    tracing::warn!(
                        endpoint = %place.endpoint,
                        ifindex = place.ifindex,
                        %error,
                        "an older program goes on serving"
                    );
                }
            }
        }
    }
    tracing::info!(hooks = switched, "program generation switched");
    Ok(all)
}

fn renew(
    hooks: &mut Hooks<'_>,
    place: Place,
    hook: volvox_actors::ports::Hook,
) -> Result<bool, KernelError> {
    // What Cilium left is not: it is taken over when all rows are there.
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
        if ifindex != HOST_IFINDEX {
            places.insert(EndpointId(row.ep_id), ifindex);
        }
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
