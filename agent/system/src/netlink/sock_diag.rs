//! Sockets of a network namespace: `linux/sock_diag.h`, `linux/inet_diag.h`.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use netlink_sys::{Socket as RawSocket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Messages of this protocol.
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Of a datagram socket: it is connected.
const ESTABLISHED: u32 = 1 << 1;
/// Of a TCP socket: it has a peer, and is not just waiting for the last of its packets to be gone.
/// `TCP_ESTABLISHED`, `TCP_SYN_SENT`, `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`, `TCP_CLOSE_WAIT`,
/// `TCP_LAST_ACK`, `TCP_CLOSING`.
const WITH_PEER: u32 = ESTABLISHED | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// The kernel fills a dump's datagrams up to 32 KiB.
const BUFFER: usize = 64 * 1024;

/// `struct nlmsghdr`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Header {
    length: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
}

/// `struct inet_diag_sockid`. Ports and addresses are in network order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Id {
    sport: [u8; 2],
    dport: [u8; 2],
    src: [u8; 16],
    dst: [u8; 16],
    ifindex: u32,
    cookie: [u32; 2],
}

/// `struct inet_diag_req_v2`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Request {
    family: u8,
    protocol: u8,
    extensions: u8,
    pad: u8,
    states: u32,
    id: Id,
}

/// The beginning of `struct inet_diag_msg`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Answer {
    family: u8,
    state: u8,
    timer: u8,
    retransmits: u8,
    id: Id,
}

/// What a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
}

impl Protocol {
    /// Its number in packets.
    pub fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }

    fn states(self) -> u32 {
        match self {
            Self::Udp => ESTABLISHED,
            Self::Tcp => WITH_PEER,
        }
    }
}

/// A socket that is connected.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// The kernel's number of it, that of `bpf_get_socket_cookie`.
    pub cookie: u64,
    /// Whom it is connected to; IPv4 within IPv6 is IPv4.
    pub peer: SocketAddr,
    protocol: Protocol,
    family: u8,
    id: Id,
}

impl Connected {
    fn new(protocol: Protocol, Answer { family, id, .. }: Answer) -> Self {
        let [a, b, c, d, ..] = id.dst;
        let address = match family {
            AF_INET => IpAddr::from([a, b, c, d]),
            _ => Ipv6Addr::from(id.dst).to_canonical(),
        };
        let peer = SocketAddr::new(address, u16::from_be_bytes(id.dport));
        let [low, high] = id.cookie;
        Self { cookie: u64::from(high) << 32 | u64::from(low), peer, protocol, family, id }
    }
}

/// A socket that speaks of sockets of the namespace in which it was opened.
pub struct SockDiag {
    raw: RawSocket,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens it in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let mut raw = RawSocket::new(NETLINK_SOCK_DIAG)?;
        raw.bind_auto()?;
        raw.connect(&NetlinkAddr::new(0, 0))?;
        Ok(Self { raw, buffer: Vec::with_capacity(BUFFER) })
    }

    /// All sockets of a protocol that are connected, of both families.
    pub fn connected(&mut self, protocol: Protocol) -> io::Result<Vec<Connected>> {
        let mut all = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let request = Request {
                family,
                protocol: protocol.number(),
                states: protocol.states(),
                ..Request::default()
            };
            self.send(BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, request)?;
            self.collect(|answer| all.push(Connected::new(protocol, answer)))?;
        }
        Ok(all)
    }

    /// Ends a socket: who waits at it or writes to it hears `ECONNABORTED`. False if it is gone.
    pub fn end(&mut self, socket: &Connected) -> io::Result<bool> {
        let Connected { protocol, family, id, .. } = *socket;
        let protocol = protocol.number();
        let request = Request { family, protocol, id, ..Request::default() };
        self.send(DESTROY, NLM_F_REQUEST | NLM_F_ACK, request)?;
        match self.collect(|_| {}) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send(&self, kind: u16, flags: u16, request: Request) -> io::Result<()> {
        let length = size_of::<Header>() + size_of::<Request>();
        let length = u32::try_from(length).expect("it is short");
        let header = Header { length, kind, flags, sequence: 0, port: 0 };
        self.raw.send(&[header.as_bytes(), request.as_bytes()].concat(), 0).map(drop)
    }

    /// Reads answers until the last one.
    fn collect(&mut self, mut each: impl FnMut(Answer)) -> io::Result<()> {
        loop {
            self.buffer.clear();
            self.raw.recv(&mut self.buffer, 0)?;
            let mut rest = &self.buffer[..];
            while !rest.is_empty() {
                let short = || io::Error::new(io::ErrorKind::InvalidData, "a message is cut off");
                let (header, _) = Header::read_from_prefix(rest).map_err(|_| short())?;
                let length = header.length as usize;
                let body = rest.get(size_of::<Header>()..length).ok_or_else(short)?;
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                match header.kind {
                    BY_FAMILY => {
                        each(Answer::read_from_prefix(body).map_err(|_| short())?.0);
                    }
                    NLMSG_ERROR | NLMSG_DONE => {
                        let (code, _) = i32::read_from_prefix(body).map_err(|_| short())?;
                        return match code {
                            0.. => Ok(()),
                            refused => Err(io::Error::from_raw_os_error(-refused)),
                        };
                    }
                    _ => {}
                }
            }
        }
    }
}
