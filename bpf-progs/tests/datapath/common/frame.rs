//! Frames, built by hand so that a test shows every byte that matters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub type Mac = [u8; 6];

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;
pub const ICMP: u8 = 1;
pub const ICMPV6: u8 = 58;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// MAC addresses of a frame whose layer 2 does not matter.
pub const ANY_MACS: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

/// An Ethernet frame from the first to the second MAC address.
pub fn ethernet(macs: (Mac, Mac), ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&macs.1[..], &macs.0, &ethertype.to_be_bytes(), payload].concat()
}

/// An IP packet in a frame, with hop limit 64.
pub fn ip(src: IpAddr, dst: IpAddr, protocol: u8, l4: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ethernet(ANY_MACS, 0x0800, &ipv4(src, dst, protocol, 0, l4))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, protocol, 64, l4))
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}

/// An IPv4 packet; `fragment` is the word of flags and offset.
pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, fragment: u16, l4: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header.extend(src.octets());
    header.extend(dst.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend(l4);
    header
}

pub fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, next, hop_limit];
    header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    header.extend(src.octets());
    header.extend(dst.octets());
    header.extend(payload);
    header
}

/// The Internet checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ports(src: u16, dst: u16) -> Vec<u8> {
    [src.to_be_bytes(), dst.to_be_bytes()].concat()
}

pub fn udp_header(sport: u16, dport: u16) -> Vec<u8> {
    [&ports(sport, dport)[..], &[0, 8, 0, 0]].concat()
}

pub fn tcp_header(sport: u16, dport: u16, flags: u8) -> Vec<u8> {
    let mut header = ports(sport, dport);
    header.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    header
}

/// With one chunk of this type, without what is in it.
pub fn sctp_header(sport: u16, dport: u16, chunk: u8) -> Vec<u8> {
    [&ports(sport, dport)[..], &[0; 8], &[chunk, 0, 0, 4]].concat()
}

/// Types of chunks: what opens an association, and what goes on.
pub const SCTP_INIT: u8 = 1;
pub const SCTP_INIT_ACK: u8 = 2;
pub const SCTP_DATA: u8 = 0;
pub const SCTP_ABORT: u8 = 6;

pub fn icmp_header(kind: u8, code: u8, identifier: u16) -> Vec<u8> {
    let id = identifier.to_be_bytes();
    vec![kind, code, 0, 0, id[0], id[1], 0, 1]
}

pub fn udp(src: IpAddr, dst: IpAddr, sport: u16, dport: u16) -> Vec<u8> {
    ip(src, dst, UDP, &udp_header(sport, dport))
}

pub fn tcp(src: IpAddr, dst: IpAddr, sport: u16, dport: u16, flags: u8) -> Vec<u8> {
    ip(src, dst, TCP, &tcp_header(sport, dport, flags))
}

/// An ICMP echo request, or its reply.
pub fn echo(src: IpAddr, dst: IpAddr, identifier: u16, reply: bool) -> Vec<u8> {
    let (protocol, kind) = match (src, reply) {
        (IpAddr::V4(_), false) => (ICMP, 8),
        (IpAddr::V4(_), true) => (ICMP, 0),
        (IpAddr::V6(_), false) => (ICMPV6, 128),
        (IpAddr::V6(_), true) => (ICMPV6, 129),
    };
    ip(src, dst, protocol, &icmp_header(kind, 0, identifier))
}

/// An ICMP error about the packet in `frame` (without its Ethernet header): port unreachable.
pub fn unreachable(src: IpAddr, dst: IpAddr, frame: &[u8]) -> Vec<u8> {
    let (protocol, kind, code) = if src.is_ipv4() { (ICMP, 3, 3) } else { (ICMPV6, 1, 4) };
    let mut message = icmp_header(kind, code, 0);
    message.extend(&frame[14..]);
    ip(src, dst, protocol, &message)
}

/// An ARP message for IPv4 over Ethernet.
pub fn arp(operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4];
    message.extend(operation.to_be_bytes());
    message.extend(sender.0);
    message.extend(sender.1.octets());
    message.extend(target.0);
    message.extend(target.1.octets());
    message
}

/// A neighbour solicitation with the sender's link-layer address.
pub fn solicitation(mac: Mac, src: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([1, 1]);
    message.extend(mac);
    ethernet((mac, [0x33, 0x33, 0xff, 0, 0, 1]), 0x86dd, &ipv6(src, target, ICMPV6, 255, &message))
}
