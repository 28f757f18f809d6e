//! Sockets that are connected to a backend which serves their service no more.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::Path,
};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::layouts::{BackendState, ReverseSk4Key, ReverseSk6Key};
use volvox_maps::error::refused;
use volvox_system::{
    netlink::{Connected, Protocol, SockDiag},
    netns::Netns,
};

use super::services::ServiceMaps;

/// Of a backend: whoever asks for it.
const ANY_PROTOCOL: u8 = 0;

/// A backend, and the number of the service by which somebody was led there.
type Led = (SocketAddr, u16);

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

/// Which sockets are noted to be led to what their service has as no backend of their protocol, or has no
/// datagrams for. Notes do not say of which protocol a socket is: another's backend at the same place is
/// none of it.
fn stale(maps: &ServiceMaps, protocols: &[Protocol]) -> Result<Noted, KernelError> {
    let mut noted: BTreeMap<Led, Vec<u64>> = BTreeMap::new();
    for (cookie, at, service) in maps.notes.all()? {
        noted.entry((at, service.get())).or_default().push(cookie);
    }
    maps.sockets4.for_each(|key, row| {
        let at = SocketAddr::from((key.address, key.port.get()));
        noted.entry((at, row.rev_nat.get())).or_default().push(key.cookie);
    })?;
    maps.sockets6.for_each(|key, row| {
        let at = SocketAddr::from((key.address, key.port.get()));
        noted.entry((at, row.rev_nat.get())).or_default().push(key.cookie);
    })?;
    let mut members: BTreeSet<(Led, u8)> = BTreeSet::new();
    if !noted.is_empty() {
        let mut note = |led: Led, protocol, state| {
            let keeps =
                protocol == Protocol::Tcp.number() || state != BackendState::Maintenance as u8;
            if keeps && noted.contains_key(&led) {
                members.insert((led, protocol));
            }
        };
        maps.members4.for_each(|key, row| {
            note((row.socket().into(), key.rev_nat.get()), row.protocol, row.state);
        })?;
        maps.members6.for_each(|key, row| {
            note((row.socket().into(), key.rev_nat.get()), row.protocol, row.state);
        })?;
    }
    let is_there = |led, protocol: Protocol| {
        [ANY_PROTOCOL, protocol.number()].iter().any(|number| members.contains(&(led, *number)))
    };
    let mut stale = Noted::new();
    for (led, cookies) in noted {
        for &protocol in protocols.iter().filter(|protocol| !is_there(led, **protocol)) {
            stale.extend(cookies.iter().map(|cookie| (*cookie, led.0, protocol)));
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
