//! Sockets as the streams need them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    time::Duration,
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with,
    sockopt::{set_socket_recv_buffer_size_force, set_socket_reuseaddr},
};

/// Longest block of a receive, so that threads see the stop flag.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Room for a second of packets: a reader that the scheduler forgot must not look like loss.
const BUFFER: usize = 8 << 20;

/// An agent that is started meanwhile must not inherit a stream's socket.
const OWN: SocketFlags = SocketFlags::CLOEXEC;

/// Connections that may wait for a server that the scheduler forgot.
const BACKLOG: i32 = 4096;

/// The wildcard address of the family of `like`.
pub(super) fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A UDP socket at `local` with a large receive buffer.
pub(super) fn udp(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    socket.set_read_timeout(Some(POLL))?;
    Ok(socket)
}

/// A socket for echo requests to `target`. The kernel sets identifier and checksum.
pub(super) fn ping(target: IpAddr) -> io::Result<UdpSocket> {
    let socket = echo_socket(target.is_ipv4())?;
    socket.connect((target, 0))?;
    socket.set_read_timeout(Some(POLL))?;
    Ok(socket)
}

/// A socket for echo requests over IPv4 from this address to anybody, which never waits.
pub(super) fn unconnected_ping(from: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = echo_socket(true)?;
    bind(&socket, &SocketAddr::new(from.into(), 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sending and receiving are those of a datagram socket, whatever the protocol.
fn echo_socket(ipv4: bool) -> io::Result<UdpSocket> {
    let (family, protocol) = if ipv4 {
        (AddressFamily::INET, ipproto::ICMP)
    } else {
        (AddressFamily::INET6, ipproto::ICMPV6)
    };
    let socket = socket_with(family, SocketType::DGRAM, OWN, Some(protocol))?;
    set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    Ok(UdpSocket::from(socket))
}

/// A TCP listener at `local` with a long queue.
pub(super) fn listener(local: SocketAddr) -> io::Result<TcpListener> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, OWN, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &local)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Whether a receive only found nothing yet.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
