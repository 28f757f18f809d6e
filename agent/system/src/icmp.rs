//! Sockets for ICMP echo: a raw one where that is allowed, else one of the kernel's own echo sockets
//! (`net.ipv4.ping_group_range`).

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recvfrom, sendto,
        socket_with,
    },
};

/// Length of an echo request here: its head and a moment of ours.
const LENGTH: usize = 16;
/// Longest answer that is read: the head of an IPv4 packet with all its options, and an echo.
const LENGTH_MAX: usize = 60 + LENGTH;
/// Types of requests and answers, of IPv4 and of IPv6.
const REQUESTS: [u8; 2] = [8, 128];
const ANSWERS: [u8; 2] = [0, 129];
/// The option that says which types a raw socket does not want, of IPv4 and of IPv6 (`linux/icmp.h`,
/// `linux/icmpv6.h`).
const FILTERS: [(libc::c_int, libc::c_int); 2] = [(libc::SOL_RAW, 1), (libc::IPPROTO_ICMPV6, 1)];

/// A socket that sends echo requests and reads what answers them, without waiting.
#[derive(Debug)]
pub struct EchoSocket {
    fd: OwnedFd,
    is_ipv4: bool,
    is_raw: bool,
    /// By which a raw socket knows its own.
    identifier: u16,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoAnswer {
    /// Who answered.
    pub from: IpAddr,
    /// Which request.
    pub sequence: u16,
}

impl EchoSocket {
    /// Opens one of a family in the calling thread's network namespace.
    ///
    /// # Errors
    /// The system's: without CAP_NET_RAW, and where the namespace allows no echo sockets either.
    pub fn open(is_ipv4: bool, identifier: u16) -> io::Result<Self> {
        let (family, protocol) = match is_ipv4 {
            true => (AddressFamily::INET, ipproto::ICMP),
            false => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |kind| socket_with(family, kind, flags, Some(protocol));
        let (fd, is_raw) = match open(SocketType::RAW) {
            Err(Errno::PERM | Errno::ACCESS) => (open(SocketType::DGRAM)?, false),
            raw => (raw?, true),
        };
        let socket = Self { fd, is_ipv4, is_raw, identifier };
        if is_raw {
            socket.filter()?;
        }
        Ok(socket)
    }

    /// Has the kernel hand over answers alone, not all the ICMP that the node gets.
    fn filter(&self) -> io::Result<()> {
        let (level, option) = FILTERS[usize::from(!self.is_ipv4)];
        // One bit for each type, set for those that are not wanted.
        let mut unwanted = [u32::MAX; 8];
        let wanted = usize::from(ANSWERS[usize::from(!self.is_ipv4)]);
        unwanted[wanted / 32] &= !(1 << (wanted % 32));
        let length = if self.is_ipv4 { 4 } else { 32 };
        // SAFETY: the option's value is `length` bytes at the beginning of `unwanted`, which outlives the call.
        let outcome = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                unwanted.as_ptr().cast(),
                length as libc::socklen_t,
            )
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a request of that number.
    ///
    /// # Errors
    /// The system's: there may be no route.
    pub fn send(&self, to: IpAddr, sequence: u16) -> io::Result<()> {
        let mut request = [0; LENGTH];
        request[0] = REQUESTS[usize::from(!self.is_ipv4)];
        request[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        request[6..8].copy_from_slice(&sequence.to_be_bytes());
        // Of IPv6 the kernel reckons it, for the addresses are part of it.
        if self.is_ipv4 {
            let sum = checksum(&request);
            request[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        sendto(&self.fd, &request, SendFlags::empty(), &SocketAddr::new(to, 0))?;
        Ok(())
    }

    /// The next answer to a request of this socket; `None` if none has come.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self) -> io::Result<Option<EchoAnswer>> {
        let mut buffer = [0; LENGTH_MAX];
        loop {
            let (length, _, from) = match recvfrom(&self.fd, &mut buffer, RecvFlags::empty()) {
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(None),
                // It is said of a request that was sent before: nobody is there.
                Err(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::CONNREFUSED) => continue,
                Err(error) => return Err(error.into()),
            };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|from| from.ip());
            let answer = from.and_then(|from| self.read(from, buffer.get(..length)?));
            if answer.is_some() {
                return Ok(answer);
            }
        }
    }

    /// What a message says, if it answers a request of this socket.
    fn read(&self, from: IpAddr, message: &[u8]) -> Option<EchoAnswer> {
        let echo = match self.is_ipv4 && self.is_raw {
            // The head of the packet says how long it is.
            true => message.get(usize::from(message.first()? & 0xf) * 4..)?,
            false => message,
        };
        let word = |at: usize| Some(u16::from_be_bytes(*echo.get(at..at + 2)?.first_chunk()?));
        let is_answer = *echo.first()? == ANSWERS[usize::from(!self.is_ipv4)];
        // The kernel's own echo sockets have numbers of their own.
        let is_own = !self.is_raw || word(4)? == self.identifier;
        (is_answer && is_own).then_some(EchoAnswer { from, sequence: word(6)? })
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for EchoSocket {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// The Internet's checksum.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, Ipv6Addr},
        thread::sleep,
        time::Duration,
    };

    use super::*;
    use crate::netns::Netns;

    #[test]
    fn the_kernel_answers_a_request_and_others_are_not_heard() {
        let netns = Netns::create().unwrap();
        let heard = netns.run(|| {
            let mut netlink = crate::netlink::Socket::open().unwrap();
            let lo = netlink.link_by_name("lo").unwrap().unwrap();
            netlink.set_link_up(lo.ifindex).unwrap();
            let own = |address: IpAddr, sequence| {
                let [one, other] =
                    [7, 8].map(|id| EchoSocket::open(address.is_ipv4(), id).unwrap());
                one.send(address, sequence).unwrap();
                let answer = (0..500).find_map(|_| {
                    sleep(Duration::from_millis(10));
                    one.receive().unwrap()
                });
                (answer, other.receive().unwrap())
            };
            let (four, six) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
            [(four, own(four, 300)), (six, own(six, 301))]
        });
        for ((address, heard), sequence) in heard.unwrap().into_iter().zip([300, 301]) {
            assert_eq!(heard, (Some(EchoAnswer { from: address, sequence }), None));
        }
    }

    #[test]
    fn what_is_cut_short_is_no_answer() {
        let socket = |is_ipv4, is_raw| EchoSocket {
            fd: std::fs::File::open("/dev/null").unwrap().into(),
            is_ipv4,
            is_raw,
            identifier: 7,
        };
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut packet = vec![0x45; 1];
        packet.resize(20, 0);
        packet.extend([0, 0, 0, 0, 0, 7, 1, 2]);
        let answer = EchoAnswer { from, sequence: 0x102 };
        assert_eq!(socket(true, true).read(from, &packet), Some(answer));
        assert_eq!(socket(true, false).read(from, &packet[20..]), Some(answer));
        for length in 0..packet.len() {
            assert_eq!(socket(true, true).read(from, &packet[..length]), None, "{length}");
        }
        packet[25] = 8;
        assert_eq!(socket(true, true).read(from, &packet), None, "another's");
    }
}
