//! Datagram sockets that are connected to a backend which is no more.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::Path,
};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::layouts::{ReverseSk4Key, ReverseSk6Key};

use super::{error::refused, services::ServiceMaps};
use crate::{
    netns::Netns,
    ports::netlink::{Connected, SockDiag},
};

/// What is noted of sockets, by the kernel's number of each: to which backends it was led.
type Noted = BTreeSet<(u64, SocketAddr)>;

/// Ends those sockets of this namespace and of those that these files name, and counts them. A
/// namespace that is gone has none.
pub(super) fn end(maps: &ServiceMaps, namespaces: &BTreeSet<String>) -> Result<u64, KernelError> {
    let stale = stale(maps)?;
    if stale.is_empty() {
        return Ok(0);
    }
    let failed = |error: io::Error| refused("end sockets of", "network namespaces", &error);
    let mut ended = end_here(&stale).map_err(failed)?;
    for path in namespaces {
        let Ok(netns) = Netns::open(Path::new(path)) else { continue };
        match netns.run(|| end_here(&stale)) {
            Ok(here) => ended.extend(here.map_err(failed)?),
            Err(error) => tracing::debug!(path, %error, "sockets are not looked at"),
        }
    }
    forget(maps, &ended)?;
    if !ended.is_empty() {
        let all: BTreeSet<_> = ended.iter().map(|(_, backend)| backend.to_string()).collect();
        tracing::info!(sockets = ended.len(), backends = ?all, "ended: their backends are gone");
    }
    Ok(ended.len() as u64)
}

/// Which sockets are noted to be led to what is no backend.
fn stale(maps: &ServiceMaps) -> Result<Noted, KernelError> {
    let mut noted: BTreeMap<SocketAddr, Vec<u64>> = BTreeMap::new();
    for (cookie, at) in maps.notes.all()? {
        noted.entry(at).or_default().push(cookie);
    }
    maps.sockets4.for_each(|key, _| {
        let at = SocketAddr::from((key.address, key.port.get()));
        noted.entry(at).or_default().push(key.cookie);
    })?;
    maps.sockets6.for_each(|key, _| {
        let at = SocketAddr::from((key.address, key.port.get()));
        noted.entry(at).or_default().push(key.cookie);
    })?;
    if !noted.is_empty() {
        maps.backends4.for_each(|_, row| {
            noted.remove(&SocketAddr::from((row.address, row.port.get())));
        })?;
        maps.backends6.for_each(|_, row| {
            noted.remove(&SocketAddr::from((row.address, row.port.get())));
        })?;
    }
    let each = noted.into_iter();
    Ok(each.flat_map(|(at, all)| all.into_iter().map(move |cookie| (cookie, at))).collect())
}

/// Ends those of the calling thread's namespace.
fn end_here(stale: &Noted) -> io::Result<Vec<(u64, SocketAddr)>> {
    let mut diag = SockDiag::open()?;
    let is_stale = |it: &Connected| stale.contains(&(it.cookie, it.peer));
    let all: Vec<_> = diag.connected()?.into_iter().filter(is_stale).collect();
    let mut ended = Vec::new();
    for socket in all {
        if diag.end(&socket)? {
            ended.push((socket.cookie, socket.peer));
        }
    }
    Ok(ended)
}

/// Nobody asks any more what these asked for.
fn forget(maps: &ServiceMaps, ended: &[(u64, SocketAddr)]) -> Result<(), KernelError> {
    maps.notes.forget(ended)?;
    for &(cookie, at) in ended {
        let port = at.port().into();
        match at {
            SocketAddr::V4(at) => {
                let key = ReverseSk4Key { cookie, address: at.ip().octets(), port, pad: 0 };
                maps.sockets4.delete(&key)?;
            }
            SocketAddr::V6(at) => {
                let key = ReverseSk6Key { cookie, address: at.ip().octets(), port, pad: [0; 6] };
                maps.sockets6.delete(&key)?;
            }
        }
    }
    Ok(())
}
