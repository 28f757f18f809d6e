//! What may stand on a wire: packets of everybody to everybody, answers and errors about what has passed, what
//! neighbours say, and all of it made odd.

use super::super::*;
use super::network::*;
use super::random::Random;
use super::reader::{self, Layer3, Packet};
use super::runner::Way;
use super::{Shot, decorate};
use std::net::{IpAddr, Ipv6Addr};

/// Few, so that connections meet.
const PORTS: [u16; 9] =
    [SERVED, BACKEND_PORT, 443, 53, TUNNEL_PORT, NODE_PORT, NODE_PORT_AWAY, 5000, 40_000];
/// How many of the frames that passed are answered, or complained about.
const RECENT: usize = 256;

pub struct Grammar {
    network: Network,
    dice: Random,
    /// As their receivers had them.
    recent: Vec<Vec<u8>>,
}

impl Grammar {
    pub fn new(network: Network, dice: Random) -> Self {
        Self { network, dice, recent: Vec::new() }
    }

    /// Notes what has passed.
    pub fn learn(&mut self, shot: &Shot, way: &Way) {
        let Some((_, last)) = way.last().filter(|(_, seen)| seen.action != SHOT) else { return };
        let frame = if self.dice.one_in(4) { &shot.frame } else { &last.frame };
        if self.recent.len() < RECENT {
            self.recent.push(frame.clone());
        } else {
            let at = self.dice.below(RECENT);
            self.recent[at].clone_from(frame);
        }
    }

    pub fn next(&mut self) -> Shot {
        let choice = if self.recent.is_empty() { 9 } else { self.dice.below(12) };
        let mut shot = match choice {
            0..=2 => self.answer(),
            3 | 4 => self.complaint(),
            5 => self.neighbour(),
            _ => self.fresh(),
        };
        let is_ip = matches!(shot.frame[12..14], [8, 0] | [0x86, 0xdd]);
        while is_ip && self.dice.one_in(3) && shot.frame.len() > 62 - 20 {
            decorate::decorate(&mut shot.frame, &mut self.dice);
            shot.is_plain = false;
        }
        if self.dice.one_in(6) {
            decorate::damage(&mut shot.frame, &mut self.dice);
            shot.is_plain = false;
        }
        if let At::Pod(pod) = shot.at {
            let pod = &self.network.pods[pod];
            shot.frame[..6].copy_from_slice(&pod.node_mac);
            shot.frame[6..12].copy_from_slice(&pod.mac);
        } else {
            shot.frame[..6].copy_from_slice(&ANY_MACS.1);
            shot.frame[6..12].copy_from_slice(&ANY_MACS.0);
        }
        shot
    }

    fn at(&mut self) -> At {
        match self.dice.below(20) {
            0..=10 => At::Pod(self.dice.below(self.network.pods.len())),
            11..=14 => At::Wire,
            15..=18 => self.overlay(),
            _ => At::Stack(self.dice.below(self.network.pods.len())),
        }
    }

    fn overlay(&mut self) -> At {
        let nodes = self.network.nodes.map(IpAddr::from);
        let others = [self.network.pods[0].v4(), UPLINK.0.into(), self.network.strangers[0]];
        let carrier =
            self.dice.of(&[nodes[0], nodes[0], nodes[1], others[0], others[1], others[2]]);
        let identities = [
            777,
            777,
            778,
            self.network.pods[CLIENT].identity,
            HOST,
            0,
            REMOTE_NODE,
            9,
            10,
            2,
            0xff_ffff,
        ];
        At::Overlay { carrier, identity: self.dice.of(&identities) }
    }

    /// Any address of a family.
    fn address(&mut self, v4: bool) -> IpAddr {
        let odd: [&str; 14] = [
            "127.0.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "239.1.1.1",
            "255.255.255.255",
            "169.254.42.1",
            "192.0.2.255",
            "::1",
            "::",
            "ff02::1",
            "ff05::1",
            "fe80::1",
            "fe80::2",
            "::ffff:10.1.0.2",
        ];
        let all: Vec<IpAddr> = match self.dice.below(8) {
            0..=3 => self.network.pods.iter().flat_map(|pod| [pod.v4(), pod.v6()]).collect(),
            4 => self.network.own.clone(),
            5 => self.network.known.iter().map(|it| it.address).collect(),
            6 => {
                let services = [service_address(UPLINK.0.into()), service_address(UPLINK.1.into())];
                self.network.strangers.iter().copied().chain(services).collect()
            }
            _ => odd.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let all: Vec<_> = all.into_iter().filter(|it| it.is_ipv4() == v4).collect();
        if all.is_empty() { self.address(v4) } else { self.dice.of(&all) }
    }

    /// Who sends there, mostly by the right name.
    fn source(&mut self, at: At, v4: bool) -> IpAddr {
        if self.dice.one_in(8) {
            return self.address(v4);
        }
        let strangers = |network: &Network| -> Vec<IpAddr> {
            network.strangers.iter().copied().filter(|it| it.is_ipv4() == v4).collect()
        };
        match at {
            At::Pod(pod) => {
                let pod = &self.network.pods[pod];
                if v4 { pod.v4() } else { pod.v6() }
            }
            At::Overlay { .. } => {
                let known: Vec<_> = self.network.known.iter().map(|it| it.address).collect();
                let known: Vec<_> = known.into_iter().filter(|it| it.is_ipv4() == v4).collect();
                self.dice.of(&known)
            }
            At::Wire | At::Stack(_) => self.dice.of(&strangers(&self.network)),
        }
    }

    fn fresh(&mut self) -> Shot {
        let (at, v4) = (self.at(), self.dice.one_in(2));
        let src = self.source(at, v4);
        let dst = match at {
            At::Stack(pod) if v4 => self.network.pods[pod].v4(),
            At::Stack(pod) => self.network.pods[pod].v6(),
            _ => self.address(v4),
        };
        let (protocol, l4) = self.l4(v4);
        let is_plain =
            self.is_usual(at, src) && (protocol == UDP || (protocol == TCP && l4[13] == SYN));
        Shot { at, frame: ip(src, dst, protocol, &l4), is_plain }
    }

    fn is_usual(&self, at: At, src: IpAddr) -> bool {
        matches!(at, At::Pod(pod) if self.network.pods[pod].ip(src) == src)
    }

    fn l4(&mut self, v4: bool) -> (u8, Vec<u8>) {
        let (sport, dport) = (self.dice.of(&PORTS), self.dice.of(&PORTS));
        let icmp = if v4 { ICMP } else { ICMPV6 };
        match self.dice.below(12) {
            0..=3 => (UDP, udp_header(sport, dport)),
            4..=6 => (
                TCP,
                tcp_header(
                    sport,
                    dport,
                    self.dice.of(&[SYN, SYN, SYN | ACK, ACK, RST, FIN | ACK, 0]),
                ),
            ),
            7 => {
                let chunks = [SCTP_INIT, SCTP_INIT, SCTP_DATA, SCTP_ABORT];
                (SCTP, sctp_header(sport, dport, self.dice.of(&chunks)))
            }
            8 | 9 => {
                let kinds: [u8; 2] = if v4 { [8, 0] } else { [128, 129] };
                (icmp, icmp_header(self.dice.of(&kinds), 0, self.dice.of(&[1, 2, 7])))
            }
            10 => (icmp, icmp_header(self.dice.byte(), self.dice.of(&[0, 0, 1, 4]), 7)),
            _ => (self.dice.byte(), vec![0; 20]),
        }
    }

    /// The packet of a recent frame.
    fn passed(&mut self) -> Option<(Packet, Vec<u8>)> {
        let frame = self.recent[self.dice.below(self.recent.len())].clone();
        match reader::read(&frame)?.layer3 {
            Layer3::Ip(packet) => Some((packet, frame)),
            _ => None,
        }
    }

    /// Where somebody with that address sends.
    fn place_of(&mut self, address: IpAddr) -> At {
        let behind = self.network.known(address).and_then(|it| Some((it.node?, it.identity)));
        match (self.network.pod_of(address), behind) {
            (Some(pod), _) => At::Pod(pod),
            (_, Some((node, identity))) => At::Overlay { carrier: node.into(), identity },
            _ => At::Wire,
        }
    }

    fn answer(&mut self) -> Shot {
        let Some((packet, _)) = self.passed() else { return self.fresh() };
        let Some(l4) = packet.l4 else { return self.fresh() };
        let at = if self.dice.one_in(6) { self.at() } else { self.place_of(packet.dst) };
        let payload = match packet.protocol {
            TCP => tcp_header(l4.dport, l4.sport, self.dice.of(&[SYN | ACK, ACK, RST, FIN | ACK])),
            UDP => udp_header(l4.dport, l4.sport),
            SCTP => {
                let chunk = self.dice.of(&[SCTP_INIT_ACK, SCTP_DATA, SCTP_ABORT]);
                sctp_header(l4.dport, l4.sport, chunk)
            }
            _ => {
                let reply = match l4.kind {
                    Some(8) if packet.src.is_ipv4() => 0,
                    Some(128) => 129,
                    _ => self.dice.byte(),
                };
                icmp_header(reply, 0, l4.sport)
            }
        };
        Shot { at, frame: ip(packet.dst, packet.src, packet.protocol, &payload), is_plain: false }
    }

    fn complaint(&mut self) -> Shot {
        let Some((packet, frame)) = self.passed() else { return self.fresh() };
        let at = if self.dice.one_in(2) { self.at() } else { self.place_of(packet.dst) };
        let v4 = packet.src.is_ipv4();
        let src = if self.dice.one_in(2) { packet.dst } else { self.source(at, v4) };
        let (protocol, kind) = if v4 {
            (ICMP, self.dice.of(&[3, 3, 11, 12]))
        } else {
            (ICMPV6, self.dice.of(&[1, 2, 3, 4]))
        };
        let mut message = icmp_header(kind, self.dice.of(&[0, 1, 3, 4]), 0);
        message.extend(&frame[14..frame.len().min(14 + 80)]);
        Shot { at, frame: ip(src, packet.src, protocol, &message), is_plain: false }
    }

    fn neighbour(&mut self) -> Shot {
        let at = self.at();
        let src = self.source(at, true);
        if let (IpAddr::V4(src), true) = (src, self.dice.one_in(4)) {
            let IpAddr::V4(target) = self.address(true) else { unreachable!("it is of IPv4") };
            let operation = self.dice.of(&[1, 1, 2, 3]);
            let message = arp(operation, ([2; 6], src), ([0; 6], target));
            return Shot { at, frame: ethernet(ANY_MACS, 0x0806, &message), is_plain: false };
        }
        let kinds = [130, 131, 132, 133, 134, 135, 135, 135, 136, 136, 136, 137, 143];
        let mut message = vec![self.dice.of(&kinds), 0, 0, 0, 0, 0, 0, 0];
        let mut some = || loop {
            if let IpAddr::V6(address) = self.address(false) {
                return address;
            }
        };
        let (target, dst, other): (Ipv6Addr, Ipv6Addr, Ipv6Addr) = (some(), some(), some());
        message.extend(target.octets());
        let src = match self.source(at, false) {
            IpAddr::V6(src) if self.dice.one_in(2) => src,
            _ => other,
        };
        let hops = self.dice.of(&[255, 255, 255, 1, 64]);
        let packet = ipv6(src, dst, ICMPV6, hops, &message);
        Shot { at, frame: ethernet(ANY_MACS, 0x86dd, &packet), is_plain: false }
    }
}
