//! Reads the captured start of a packet: addresses, ports, flags and types. A cut packet is no error: what
//! is not there is not said.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::messages::{Ethernet, Icmp, Igmp, Layer4, Ports, Protocol, Tcp, TcpFlagSet, Vrrp};

const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const VRRP: u8 = 112;
const SCTP: u8 = 132;
/// Extension headers of IPv6 that say their length in units of eight bytes.
const IPV6_EXTENSIONS: [u8; 3] = [0, 43, 60];
const IPV6_FRAGMENT: u8 = 44;
/// How many extension headers are looked behind.
const IPV6_EXTENSIONS_MAX: usize = 4;

/// What a packet says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packet {
    pub(crate) ethernet: Option<Ethernet>,
    pub(crate) addresses: Option<(IpAddr, IpAddr)>,
    pub(crate) l4: Option<Layer4>,
    /// A line for people.
    pub(crate) summary: String,
}

impl Packet {
    /// Reads a frame, or a packet of a device that has no Ethernet addresses.
    pub(crate) fn parse(bytes: &[u8], has_ethernet: bool) -> Self {
        let mut packet = Self::default();
        let (kind, rest) = if has_ethernet {
            packet.ethernet = bytes
                .get(..12)
                .map(|all| Ethernet { source: mac(&all[6..]), destination: mac(&all[..6]) });
            (be16(bytes, 12), bytes.get(ETHERNET_BYTES..).unwrap_or_default())
        } else {
            let version = bytes.first().map(|first| first >> 4);
            let kind = match version {
                Some(4) => Some(ETHERTYPE_IPV4),
                Some(6) => Some(ETHERTYPE_IPV6),
                _ => None,
            };
            (kind, bytes)
        };
        match kind {
            Some(ETHERTYPE_IPV4) => packet.ipv4(rest),
            Some(ETHERTYPE_IPV6) => packet.ipv6(rest),
            _ => {}
        }
        packet
    }

    /// Ports of sender and receiver.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        let (source, destination) = self.l4.as_ref()?.protocol.as_ref()?.ports()?;
        Some((u16::try_from(source).ok()?, u16::try_from(destination).ok()?))
    }

    fn ipv4(&mut self, header: &[u8]) {
        let Some(length) = header.first().map(|first| usize::from(first & 15) * 4) else { return };
        let address = |at| array(header, at).map(|bytes: [u8; 4]| Ipv4Addr::from(bytes).into());
        self.addresses = address(12).zip(address(16));
        // A later fragment begins in the midst of what it carries.
        let is_first = be16(header, 6).is_some_and(|offset| offset & 0x1fff == 0);
        if let (Some(protocol), true) = (header.get(9).copied(), is_first && length >= 20) {
            self.transport(protocol, header.get(length..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, header: &[u8]) {
        let address = |at| array(header, at).map(|bytes: [u8; 16]| Ipv6Addr::from(bytes).into());
        self.addresses = address(8).zip(address(24));
        let Some(mut next) = header.get(6).copied() else { return };
        let mut rest = header.get(40..).unwrap_or_default();
        for _ in 0..IPV6_EXTENSIONS_MAX {
            let length = match next {
                IPV6_FRAGMENT if be16(rest, 2).is_some_and(|offset| offset & 0xfff8 == 0) => 8,
                IPV6_FRAGMENT => return,
                next if IPV6_EXTENSIONS.contains(&next) => match rest.get(1) {
                    Some(units) => (usize::from(*units) + 1) * 8,
                    None => return,
                },
                _ => break,
            };
            let Some(after) = rest.first() else { return };
            next = *after;
            rest = rest.get(length..).unwrap_or_default();
        }
        self.transport(next, rest);
    }

    fn transport(&mut self, protocol: u8, header: &[u8]) {
        let ports = || {
            let (source, destination) = be16(header, 0).zip(be16(header, 2))?;
            Some(Ports { source_port: source.into(), destination_port: destination.into() })
        };
        let icmp = || {
            let (kind, code) = header.first().zip(header.get(1))?;
            Some(Icmp { kind: (*kind).into(), code: (*code).into() })
        };
        let found = match protocol {
            TCP => ports().map(|ports| {
                let flags = header.get(12..14).map(|it| flags(it[0], it[1]));
                Protocol::Tcp(Tcp {
                    source_port: ports.source_port,
                    destination_port: ports.destination_port,
                    flags,
                })
            }),
            UDP => ports().map(Protocol::Udp),
            SCTP => ports().map(Protocol::Sctp),
            ICMP => icmp().map(Protocol::IcmpV4),
            ICMPV6 => icmp().map(Protocol::IcmpV6),
            VRRP => header.get(..3).map(|it| {
                let (kind, vrid, priority) = ((it[0] & 15).into(), it[1].into(), it[2].into());
                Protocol::Vrrp(Vrrp { kind, vrid, priority })
            }),
            IGMP => header.get(..8).map(|it| {
                let group_address = Ipv4Addr::new(it[4], it[5], it[6], it[7]).to_string();
                Protocol::Igmp(Igmp { kind: it[0].into(), group_address })
            }),
            _ => None,
        };
        let Some(found) = found else { return };
        self.summary = summary(&found);
        self.l4 = Some(Layer4 { protocol: Some(found) });
    }
}

fn flags(first: u8, second: u8) -> TcpFlagSet {
    let bit = |number: u8| second >> number & 1 == 1;
    TcpFlagSet {
        fin: bit(0),
        syn: bit(1),
        rst: bit(2),
        psh: bit(3),
        ack: bit(4),
        urg: bit(5),
        ece: bit(6),
        cwr: bit(7),
        ns: first & 1 == 1,
    }
}

/// The names of the flags that are set, as Hubble orders them.
pub fn flag_names(flags: &TcpFlagSet) -> Vec<&'static str> {
    let all = [
        (flags.syn, "SYN"),
        (flags.ack, "ACK"),
        (flags.rst, "RST"),
        (flags.fin, "FIN"),
        (flags.psh, "PSH"),
        (flags.urg, "URG"),
        (flags.ece, "ECE"),
        (flags.cwr, "CWR"),
        (flags.ns, "NS"),
    ];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

fn summary(protocol: &Protocol) -> String {
    match protocol {
        Protocol::Tcp(tcp) => {
            let names = tcp.flags.as_ref().map(flag_names).unwrap_or_default();
            format!("TCP Flags: {}", names.join(", "))
        }
        Protocol::Udp(_) => "UDP".to_owned(),
        Protocol::Sctp(_) => "SCTP".to_owned(),
        Protocol::Vrrp(_) => "VRRP".to_owned(),
        Protocol::Igmp(_) => "IGMP".to_owned(),
        Protocol::IcmpV4(icmp) => format!("ICMPv4 {}", icmp_v4(icmp)),
        Protocol::IcmpV6(icmp) => format!("ICMPv6 {}", icmp_v6(icmp)),
    }
}

fn icmp_v4(icmp: &Icmp) -> String {
    let name = match icmp.kind {
        0 => "EchoReply",
        3 => match icmp.code {
            0 => "DestinationUnreachable(Net)",
            1 => "DestinationUnreachable(Host)",
            2 => "DestinationUnreachable(Protocol)",
            3 => "DestinationUnreachable(Port)",
            4 => "DestinationUnreachable(FragmentationNeeded)",
            _ => return format!("DestinationUnreachable({})", icmp.code),
        },
        5 => "Redirect",
        8 => "EchoRequest",
        9 => "RouterAdvertisement",
        10 => "RouterSolicitation",
        11 => "TimeExceeded",
        12 => "ParameterProblem",
        13 => "TimestampRequest",
        14 => "TimestampReply",
        _ => return format!("{}({})", icmp.kind, icmp.code),
    };
    name.to_owned()
}

fn icmp_v6(icmp: &Icmp) -> String {
    let name = match icmp.kind {
        1 => return format!("DestinationUnreachable({})", icmp.code),
        2 => "PacketTooBig",
        3 => "TimeExceeded",
        4 => "ParameterProblem",
        128 => "EchoRequest",
        129 => "EchoReply",
        133 => "RouterSolicitation",
        134 => "RouterAdvertisement",
        135 => "NeighborSolicitation",
        136 => "NeighborAdvertisement",
        137 => "Redirect",
        143 => "MLDv2MulticastListenerReportMessageV2",
        _ => return format!("{}({})", icmp.kind, icmp.code),
    };
    name.to_owned()
}

fn mac(bytes: &[u8]) -> String {
    let all: Vec<_> = bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    all.join(":")
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame of IPv4 with that behind its header.
    pub(crate) fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        frame.extend(ETHERTYPE_IPV4.to_be_bytes());
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(from);
        frame.extend(to);
        frame.extend(transport);
        frame
    }

    /// A TCP header.
    pub(crate) fn tcp(from: u16, to: u16, flags: u8) -> Vec<u8> {
        let mut header = [from.to_be_bytes(), to.to_be_bytes()].concat();
        header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        header
    }

    #[test]
    fn tcp_and_its_flags_are_read() {
        let frame = ipv4([10, 0, 0, 1], [10, 0, 0, 2], TCP, &tcp(40000, 80, 0x12));
        let packet = Packet::parse(&frame, true);
        let addresses = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert_eq!(packet.addresses, Some(addresses));
        assert_eq!(packet.ports(), Some((40000, 80)));
        assert_eq!(packet.summary, "TCP Flags: SYN, ACK");
        let ethernet = packet.ethernet.clone().unwrap();
        assert_eq!(ethernet.source, "02:00:00:00:00:01");
        assert_eq!(ethernet.destination, "02:00:00:00:00:02");
        let bare = Packet::parse(&frame[ETHERNET_BYTES..], false);
        assert_eq!((bare.addresses, &bare.l4, bare.ethernet), (packet.addresses, &packet.l4, None));
    }

    #[test]
    fn other_protocols_are_read() {
        let of = |protocol, rest: &[u8]| {
            Packet::parse(&ipv4([1, 0, 0, 1], [1, 0, 0, 2], protocol, rest), true).summary
        };
        assert_eq!(of(UDP, &[0, 53, 0, 54]), "UDP");
        assert_eq!(of(ICMP, &[8, 0]), "ICMPv4 EchoRequest");
        assert_eq!(of(ICMP, &[3, 4]), "ICMPv4 DestinationUnreachable(FragmentationNeeded)");
        assert_eq!(of(ICMPV6, &[135, 0]), "ICMPv6 NeighborSolicitation");
        assert_eq!(of(VRRP, &[0x21, 7, 100]), "VRRP");
        assert_eq!(of(IGMP, &[0x16, 0, 0, 0, 224, 0, 0, 1]), "IGMP");
        assert_eq!(of(SCTP, &[0, 1, 0, 2]), "SCTP");
        assert_eq!(of(99, &[0, 1, 0, 2]), "");
        assert_eq!(of(TCP, &[0, 1]), "", "cut off");
    }

    #[test]
    fn every_cut_and_every_byte_is_survived() {
        let whole = ipv4([10, 0, 0, 1], [10, 0, 0, 2], TCP, &tcp(1, 2, 0xff));
        for cut in 0..=whole.len() {
            Packet::parse(&whole[..cut], true);
            Packet::parse(&whole[cut..], false);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x0f, 0x45, 0x60, 0x86, 0xdd, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                Packet::parse(&broken, true);
            }
        }
    }
}
