//! Sockets that are connected to a backend which is no more.

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
    ports::netlink::{Connected, Protocol, SockDiag},
};

/// Of a backend: whoever asks for it.
const ANY_PROTOCOL: u8 = 0;

/// Sockets that are stale if they are of that protocol, by the kernel's number of each: to which
/// backends they were led.
type Noted = BTreeSet<(u64, SocketAddr, Protocol)>;

/// Ends those sockets of these protocols, of this namespace and of those that these files name, and
/// counts them. A namespace that is gone has none.
pub(super) fn end(
    maps: &ServiceMaps,
    namespaces: &BTreeSet<String>,
    protocols: &[Protocol],
) -> Result<u64, KernelError> {
    let stale = stale(maps, protocols)?;
    if stale.is_empty() {
        return Ok(0);
    }
    let failed = |error: io::Error| refused("end sockets of", "network namespaces", &error);
    let mut ended = end_here(&stale, protocols).map_err(failed)?;
    for path in namespaces {
        let Ok(netns) = Netns::open(Path::new(path)) else { continue };
        match netns.run(|| end_here(&stale, protocols)) {
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

/// Which sockets are noted to be led to what is no backend of their protocol. Notes do not say of which
/// protocol a socket is: another's backend at the same place is none of it.
fn stale(maps: &ServiceMaps, protocols: &[Protocol]) -> Result<Noted, KernelError> {
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
    let mut backends: BTreeSet<(SocketAddr, u8)> = BTreeSet::new();
    if !noted.is_empty() {
        let mut note = |at: SocketAddr, protocol| {
            if noted.contains_key(&at) {
                backends.insert((at, protocol));
            }
        };
        maps.backends4.for_each(|_, row| {
            note(SocketAddr::from((row.address, row.port.get())), row.protocol);
        })?;
        maps.backends6.for_each(|_, row| {
            note(SocketAddr::from((row.address, row.port.get())), row.protocol);
        })?;
    }
    let is_there = |at, protocol: Protocol| {
        [ANY_PROTOCOL, protocol.number()].iter().any(|number| backends.contains(&(at, *number)))
    };
    let mut stale = Noted::new();
    for (at, cookies) in noted {
        for &protocol in protocols.iter().filter(|protocol| !is_there(at, **protocol)) {
            stale.extend(cookies.iter().map(|cookie| (*cookie, at, protocol)));
        }
    }
    Ok(stale)
}

/// Ends those of the calling thread's namespace.
fn end_here(stale: &Noted, protocols: &[Protocol]) -> io::Result<Vec<(u64, SocketAddr)>> {
    let mut diag = SockDiag::open()?;
    let mut ended = Vec::new();
    for &protocol in protocols {
        let all = diag.connected(protocol)?.into_iter();
        let is_stale = |it: &Connected| stale.contains(&(it.cookie, it.peer, protocol));
        for socket in all.filter(is_stale).collect::<Vec<_>>() {
            if diag.end(&socket)? {
                ended.push((socket.cookie, socket.peer));
            }
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
