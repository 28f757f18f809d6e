//! Reads addresses, ports and flags from the captured start of a packet; a cut packet is no error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
/// Extension headers of IPv6 that say their length in units of eight bytes.
const IPV6_EXTENSIONS: [u8; 3] = [0, 43, 60];
const IPV6_FRAGMENT: u8 = 44;
/// How many extension headers are looked behind.
const IPV6_EXTENSIONS_MAX: usize = 4;

/// What the first bytes of a packet say; members that cannot be read are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Packet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ethertype: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination_port: Option<u16>,
    /// Names of the TCP flags that are set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tcp_flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) icmp_code: Option<u8>,
}

impl Packet {
    /// Reads a frame, however short.
    pub(super) fn parse(frame: &[u8]) -> Self {
        let mut packet = Self { ethertype: be16(frame, 12), ..Self::default() };
        let rest = frame.get(ETHERNET_BYTES..).unwrap_or_default();
        match packet.ethertype {
            Some(ETHERTYPE_IPV4) => packet.ipv4(rest),
            Some(ETHERTYPE_IPV6) => packet.ipv6(rest),
            Some(ETHERTYPE_ARP) => packet.arp(rest),
            _ => {}
        }
        packet
    }

    fn ipv4(&mut self, header: &[u8]) {
        let Some(length) = header.first().map(|first| usize::from(first & 15) * 4) else { return };
        self.source = array(header, 12).map(|bytes| Ipv4Addr::from(bytes).into());
        self.destination = array(header, 16).map(|bytes| Ipv4Addr::from(bytes).into());
        self.protocol = header.get(9).copied();
        // A later fragment begins in the midst of what it carries.
        let is_first = be16(header, 6).is_some_and(|offset| offset & 0x1fff == 0);
        if let (Some(protocol), true) = (self.protocol, is_first && length >= 20) {
            self.transport(protocol, header.get(length..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, header: &[u8]) {
        self.source = array(header, 8).map(|bytes: [u8; 16]| Ipv6Addr::from(bytes).into());
        self.destination = array(header, 24).map(|bytes: [u8; 16]| Ipv6Addr::from(bytes).into());
        let Some(mut next) = header.get(6).copied() else { return };
        let mut rest = header.get(40..).unwrap_or_default();
        for _ in 0..IPV6_EXTENSIONS_MAX {
            let length = match next {
                IPV6_FRAGMENT if be16(rest, 2).is_some_and(|offset| offset & 0xfff8 == 0) => 8,
                IPV6_FRAGMENT => {
                    self.protocol = rest.first().copied();
                    return;
                }
                next if IPV6_EXTENSIONS.contains(&next) => match rest.get(1) {
                    Some(units) => (usize::from(*units) + 1) * 8,
                    None => break,
                },
                _ => break,
            };
            let Some(after) = rest.first() else { break };
            next = *after;
            rest = rest.get(length..).unwrap_or_default();
        }
        self.protocol = Some(next);
        self.transport(next, rest);
    }

    fn arp(&mut self, body: &[u8]) {
        self.source = array(body, 14).map(|bytes: [u8; 4]| Ipv4Addr::from(bytes).into());
        self.destination = array(body, 24).map(|bytes: [u8; 4]| Ipv4Addr::from(bytes).into());
    }

    fn transport(&mut self, protocol: u8, header: &[u8]) {
        match protocol {
            TCP | UDP | SCTP => {
                self.source_port = be16(header, 0);
                self.destination_port = be16(header, 2);
            }
            ICMP | ICMPV6 => {
                self.icmp_type = header.first().copied();
                self.icmp_code = header.get(1).copied();
            }
            _ => {}
        }
        if let (TCP, Some(flags)) = (protocol, header.get(13)) {
            let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
            let set = names.into_iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
            self.tcp_flags = set.map(|(_, name)| name).collect();
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, fragment: u16, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_IPV4.to_be_bytes());
        frame.extend([0x45, 0, 0, 40, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(transport);
        frame
    }

    #[test]
    fn reads_tcp_over_ipv4() {
        let mut tcp = vec![0; 20];
        tcp[..4].copy_from_slice(&[0x30, 0x39, 0, 80]);
        tcp[13] = 0x12;
        let packet = Packet::parse(&ipv4(TCP, 0, &tcp));
        assert_eq!(packet.source, Some("10.0.0.1".parse().unwrap()));
        assert_eq!(packet.destination, Some("10.0.0.2".parse().unwrap()));
        assert_eq!((packet.source_port, packet.destination_port), (Some(12345), Some(80)));
        assert_eq!(packet.tcp_flags, ["SYN", "ACK"]);
        let later = Packet::parse(&ipv4(TCP, 100, &tcp));
        assert_eq!((later.protocol, later.source_port), (Some(TCP), None));
    }

    #[test]
    fn looks_behind_extension_headers() {
        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_IPV6.to_be_bytes());
        frame.extend([0x60, 0, 0, 0, 0, 16, 0, 64]);
        frame.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        frame.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        frame.extend([ICMPV6, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend([128, 0, 0, 0]);
        let packet = Packet::parse(&frame);
        assert_eq!(packet.destination, Some("fd00::2".parse().unwrap()));
        assert_eq!((packet.protocol, packet.icmp_type), (Some(ICMPV6), Some(128)));
    }

    #[test]
    fn every_cut_and_every_byte_is_survived() {
        let whole = ipv4(TCP, 0, &[0xff; 20]);
        for cut in 0..whole.len() {
            Packet::parse(&whole[..cut]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x0f, 0x86, 0xdd, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                Packet::parse(&broken);
            }
        }
    }
}
