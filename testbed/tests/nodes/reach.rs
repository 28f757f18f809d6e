//! Whether datagrams get from here to there, and answers back.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context, Result};
use volvox_testbed::{
    lab::{Netns, Pod, wait_for},
    traffic::{Kind, Plan, Stream},
};

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
pub(crate) fn wait(what: &str, from: &Netns, to: &Netns, at: IpAddr, expected: bool) -> Result<()> {
    wait_for(&format!("{what}: reaching {at} is {expected}"), || {
        Ok(exchange(from, to, at)?.is_some() == expected)
    })
}

/// Streams of both families from one pod to another, under way.
pub(crate) fn streams(from: &Pod, to: &Pod) -> Result<Vec<Stream>> {
    let stream = |ipv6, kind, port| {
        let target = SocketAddr::new(to.address(ipv6)?, port);
        let (from, to) = (from.netns.clone(), to.netns.clone());
        Stream::start(Plan { kind, from, to, target, rate: 500 })
    };
    let streams = vec![stream(false, Kind::Udp, 5001)?, stream(true, Kind::Tcp, 5002)?];
    streams.iter().try_for_each(|stream| stream.wait_for_answers(10))?;
    Ok(streams)
}
