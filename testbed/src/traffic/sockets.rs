//! Sockets as the streams need them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with,
    sockopt::{
        Timeout, set_socket_recv_buffer_size_force, set_socket_reuseaddr, set_socket_timeout,
        set_tcp_congestion,
    },
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
    let socket = socket_with(family(&local), SocketType::STREAM, OWN, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &local)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// A TCP connection to `target` with that congestion control from the start: what the default one began with
/// would stay.
pub(super) fn client(
    target: SocketAddr,
    congestion: &str,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = socket_with(family(&target), SocketType::STREAM, OWN, None)?;
    set_tcp_congestion(&socket, congestion)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}

fn family(of: &SocketAddr) -> AddressFamily {
    if of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Whether a receive only found nothing yet.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
