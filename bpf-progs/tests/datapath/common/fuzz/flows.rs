//! Which connections there are, by the frames that have passed: what answers one needs no rule.

use super::reader::{Ends, Packet};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// A datagram by which later fragments are known.
type Datagram = (IpAddr, IpAddr, u32, u8);

#[derive(Debug, Default)]
pub struct Flows {
    passed: HashSet<Ends>,
    /// Ports of first fragments: all that a datagram's had, since a program may not have read the last one.
    heads: HashMap<Datagram, HashSet<(u16, u16, Option<u8>)>>,
}

impl Flows {
    /// Notes what a first fragment says; it counts even if it is refused.
    pub fn note_head(&mut self, packet: &Packet) {
        if let (Some(id), Some(l4)) = (packet.head_of, &packet.l4) {
            let datagram = (packet.src, packet.dst, id, packet.protocol);
            self.heads.entry(datagram).or_default().insert((l4.sport, l4.dport, l4.kind));
        }
    }

    /// The ends of a packet, with what a policy names of it; of a later fragment those that it may have.
    pub fn ends(&self, packet: &Packet) -> Vec<(Ends, Option<u16>)> {
        if let Some(ends) = packet.ends() {
            return vec![(ends, packet.port())];
        }
        let Some(id) = packet.tail_of else { return Vec::new() };
        let heads = self.heads.get(&(packet.src, packet.dst, id, packet.protocol));
        let of = |&(sport, dport, kind): &(u16, u16, Option<u8>)| {
            let (src, dst) = ((packet.src, sport), (packet.dst, dport));
            let ends = Ends { protocol: packet.protocol, src, dst };
            (ends, Some(kind.map_or(dport, u16::from)))
        };
        heads.into_iter().flatten().map(of).collect()
    }

    pub fn pass(&mut self, packet: &Packet) {
        if !packet.is_error() {
            let ends = self.ends(packet);
            self.passed.extend(ends.into_iter().map(|(ends, _)| ends));
        }
    }

    /// Whether a packet belongs to a connection that was opened towards its sender, or by it.
    pub fn answers(&self, packet: &Packet) -> bool {
        self.ends(packet).into_iter().any(|(ends, _)| self.passed.contains(&ends.reversed()))
    }

    /// Whether a packet was sent with these ends.
    pub fn has(&self, ends: Ends) -> bool {
        self.passed.contains(&ends)
    }
}
