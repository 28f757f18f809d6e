//! Reads frames, as a receiver would: by itself, with nothing of the programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::{ICMP, ICMPV6, Mac, SCTP, TCP, UDP};

#[derive(Clone, Debug)]
pub struct Frame {
    pub to: Mac,
    pub from: Mac,
    pub layer3: Layer3,
}

#[derive(Clone, Debug)]
pub enum Layer3 {
    Arp { operation: u16, sender: Ipv4Addr, target: Ipv4Addr },
    Ip(Packet),
    Other,
}

/// Ends of a packet that has some, as connections know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    pub protocol: u8,
    pub src: (IpAddr, u16),
    pub dst: (IpAddr, u16),
}

impl Ends {
    pub fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, ..self }
    }
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub hops: u8,
    pub protocol: u8,
    /// A header of extension, or an option, stands before layer 4.
    pub is_extended: bool,
    /// It goes on to others than its destination.
    pub is_routed_on: bool,
    /// Of a later fragment: that of the datagram.
    pub tail_of: Option<u32>,
    /// Of a first fragment that has others.
    pub head_of: Option<u32>,
    /// Layer 4, as far as it is there.
    pub l4: Option<Layer4>,
}

#[derive(Clone, Debug)]
pub struct Layer4 {
    pub sport: u16,
    pub dport: u16,
    /// Type of ICMP.
    pub kind: Option<u8>,
    /// The packet inside an error.
    pub inner: Option<Ends>,
    /// What neighbour discovery is about.
    pub target: Option<Ipv6Addr>,
}

impl Packet {
    /// What a policy names: port, or type.
    pub fn port(&self) -> Option<u16> {
        self.l4.as_ref().map(|l4| l4.kind.map_or(l4.dport, u16::from))
    }

    pub fn ends(&self) -> Option<Ends> {
        let l4 = self.l4.as_ref()?;
        Some(Ends { protocol: self.protocol, src: (self.src, l4.sport), dst: (self.dst, l4.dport) })
    }

    pub fn is_error(&self) -> bool {
        self.l4.as_ref().is_some_and(|l4| l4.kind.is_some_and(|kind| is_error(kind, self.src)))
    }

    /// A type of ICMPv6 from 130 on: what neighbours, and members of groups, say.
    pub fn neighbourly(&self) -> Option<u8> {
        let kind = self.l4.as_ref()?.kind?;
        (self.protocol == ICMPV6 && kind >= 130).then_some(kind)
    }
}

fn is_error(kind: u8, family: IpAddr) -> bool {
    if family.is_ipv4() { [3, 11, 12].contains(&kind) } else { (1..=4).contains(&kind) }
}

pub fn read(frame: &[u8]) -> Option<Frame> {
    let to = frame.get(..6)?.try_into().ok()?;
    let from = frame.get(6..12)?.try_into().ok()?;
    let payload = frame.get(14..)?;
    let layer3 = match frame[12..14] {
        [8, 6] => arp(payload).unwrap_or(Layer3::Other),
        [8, 0] => ipv4(payload).map_or(Layer3::Other, Layer3::Ip),
        [0x86, 0xdd] => ipv6(payload).map_or(Layer3::Other, Layer3::Ip),
        _ => Layer3::Other,
    };
    Some(Frame { to, from, layer3 })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn v4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?.into())
}

fn v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?.into())
}

fn arp(bytes: &[u8]) -> Option<Layer3> {
    let (sender, target) = (v4(bytes, 14)?, v4(bytes, 24)?);
    Some(Layer3::Arp { operation: word(bytes, 6)?, sender, target })
}

/// Whether options send a packet on.
fn options_route(mut options: &[u8]) -> bool {
    loop {
        match options {
            [] | [0, ..] => return false,
            [1, rest @ ..] => options = rest,
            [131 | 137, ..] => return true,
            [_] => return false,
            [_, length, ..] => match options.get(usize::from(*length)..) {
                _ if *length < 2 => return false,
                None => return false,
                Some(rest) => options = rest,
            },
        }
    }
}

fn ipv4(bytes: &[u8]) -> Option<Packet> {
    let header = usize::from(bytes.first()? & 0xf) * 4;
    if bytes[0] >> 4 != 4 || header < 20 || bytes.len() < header {
        return None;
    }
    let (id, fragment) = (word(bytes, 4)?, word(bytes, 6)?);
    let is_tail = fragment & 0x1fff != 0;
    let (src, dst) = (v4(bytes, 12)?.into(), v4(bytes, 16)?.into());
    let protocol = bytes[9];
    let payload = &bytes[header..];
    Some(Packet {
        src,
        dst,
        hops: bytes[8],
        protocol,
        is_extended: header > 20,
        is_routed_on: options_route(&bytes[20..header]),
        tail_of: is_tail.then_some(id.into()),
        head_of: (!is_tail && fragment & 0x2000 != 0).then_some(id.into()),
        l4: if is_tail { None } else { layer4(payload, protocol, src) },
    })
}

fn ipv6(bytes: &[u8]) -> Option<Packet> {
    if bytes.len() < 40 || bytes[0] >> 4 != 6 {
        return None;
    }
    let (src, dst): (IpAddr, IpAddr) = (v6(bytes, 8)?.into(), v6(bytes, 24)?.into());
    let (mut protocol, mut at) = (bytes[6], 40);
    let mut packet = Packet {
        src,
        dst,
        hops: bytes[7],
        protocol,
        is_extended: false,
        is_routed_on: false,
        tail_of: None,
        head_of: None,
        l4: None,
    };
    while [0, 43, 44, 51, 60].contains(&protocol) {
        let header = bytes.get(at..at + 8)?;
        packet.is_extended = true;
        packet.is_routed_on |= protocol == 43 && header[3] != 0;
        let length = match protocol {
            44 => 8,
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if protocol == 44 {
            let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let fragment = u16::from_be_bytes([header[2], header[3]]);
            packet.tail_of = (fragment & 0xfff8 != 0).then_some(id);
            packet.head_of = (packet.tail_of.is_none() && fragment & 1 != 0).then_some(id);
        }
        (protocol, at) = (header[0], at + length);
        if packet.tail_of.is_some() {
            break;
        }
    }
    packet.protocol = protocol;
    if packet.tail_of.is_none() {
        packet.l4 = layer4(bytes.get(at..)?, protocol, src);
    }
    Some(packet)
}

/// Ports; of an echo its identifier stands for the port of the side that asks.
fn ports(bytes: &[u8], protocol: u8, family: IpAddr) -> Option<(u16, u16)> {
    let echoes = if family.is_ipv4() { [8, 0] } else { [128, 129] };
    match protocol {
        TCP | UDP | SCTP => Some((word(bytes, 0)?, word(bytes, 2)?)),
        ICMP | ICMPV6 if (protocol == ICMP) == family.is_ipv4() => Some(match *bytes.first()? {
            kind if kind == echoes[0] => (word(bytes, 4)?, 0),
            kind if kind == echoes[1] => (0, word(bytes, 4)?),
            _ => (0, 0),
        }),
        _ => None,
    }
}

fn layer4(bytes: &[u8], protocol: u8, family: IpAddr) -> Option<Layer4> {
    if bytes.len() < if protocol == TCP { 20 } else { 8 } {
        return None;
    }
    let (sport, dport) = ports(bytes, protocol, family)?;
    let is_icmp = protocol == ICMP || protocol == ICMPV6;
    let kind = is_icmp.then_some(bytes[0]);
    let inner =
        kind.filter(|kind| is_error(*kind, family)).and_then(|_| inner(&bytes[8..], family));
    Some(Layer4 { sport, dport, kind, inner, target: v6(bytes, 8) })
}

/// The ends of the packet inside an error.
fn inner(bytes: &[u8], family: IpAddr) -> Option<Ends> {
    let (src, dst, protocol, l4): (IpAddr, IpAddr, u8, usize) = if family.is_ipv4() {
        let header = usize::from(bytes.first()? & 0xf) * 4;
        (v4(bytes, 12)?.into(), v4(bytes, 16)?.into(), *bytes.get(9)?, header)
    } else {
        (v6(bytes, 8)?.into(), v6(bytes, 24)?.into(), *bytes.get(6)?, 40)
    };
    let (sport, dport) = ports(bytes.get(l4..)?, protocol, family)
        .unwrap_or((word(bytes, l4)?, word(bytes, l4 + 2)?));
    Some(Ends { protocol, src: (src, sport), dst: (dst, dport) })
}
