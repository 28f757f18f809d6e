//! Echo requests by the kernel's own sockets for them, which need no rights.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket as BlockingSocket},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use tokio::net::UdpSocket;

use super::{
    answer::{Answer, Fault, Trouble},
    ask::{length, pattern, same},
    target::Size,
};

/// Type, code, checksum, identifier and number.
const HEAD: usize = 8;

/// Sends one echo request and waits for its reply.
pub(super) async fn echo(to: IpAddr, size: Size, answer: &mut Answer) -> Result<(), Trouble> {
    let (family, protocol, request, reply) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket =
        socket_with(family, SocketType::DGRAM, flags, Some(protocol)).map_err(|error| {
            let words = "the groups in net.ipv4.ping_group_range are others";
            match io::Error::from(error) {
                error if error.kind() == io::ErrorKind::PermissionDenied => {
                    Trouble::new(Fault::NotAllowed, words)
                }
                error => error.into(),
            }
        })?;
    // The calls are those of datagrams.
    let socket = UdpSocket::from_std(BlockingSocket::from(socket))?;
    socket.connect(SocketAddr::new(to, 0)).await?;
    answer.from = Some(socket.local_addr()?.ip());
    let sent = pattern(length(&socket, to, size)?);
    answer.bytes = sent.len();
    // The kernel fills in the checksum and the identifier.
    let packet = [&[request, 0, 0, 0, 0, 0, 0, 1], sent.as_slice()].concat();
    socket.send(&packet).await?;
    let mut got = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut got).await?;
    match got.get(..length).and_then(|it| it.split_at_checked(HEAD)) {
        Some((head, rest)) if head[0] == reply => same(&sent, rest),
        _ => Err(Trouble::new(Fault::WrongAnswer, "what came is no echo")),
    }
}
