//! Whether datagrams get from here to there, and answers back.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context, Result};
use volvox_testbed::lab::{Netns, wait_for};

/// How long an answer may take before it counts as lost.
const LONGEST: Duration = Duration::from_millis(200);

/// Whether a datagram gets to that address, which is in `to`, and an answer comes back; the address
/// from which it came.
pub(crate) fn exchange(from: &Netns, to: &Netns, address: IpAddr) -> Result<Option<IpAddr>> {
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let open = |port| {
        let socket = UdpSocket::bind(SocketAddr::new(any, port)).context("cannot bind")?;
        socket.set_read_timeout(Some(LONGEST))?;
        Ok(socket)
    };
    let (server, client) = (to.run(|| open(5000))?, from.run(|| open(0))?);
    client.connect((address, 5000))?;
    // The kernel refuses what is dropped on the way out.
    let _ = client.send(b"?");
    let mut buffer = [0; 8];
    let Ok((_, asker)) = server.recv_from(&mut buffer) else { return Ok(None) };
    server.send_to(b"!", asker)?;
    Ok(client.recv(&mut buffer).is_ok().then(|| asker.ip()))
}

/// Waits until it does, or does not any more.
pub(crate) fn wait(what: &str, from: &Netns, to: &Netns, at: IpAddr, wanted: bool) -> Result<()> {
    wait_for(&format!("{what}: reaching {at} is {wanted}"), || {
        Ok(exchange(from, to, at)?.is_some() == wanted)
    })
}
