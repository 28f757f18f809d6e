//! Which connections there are, by the frames that have passed: what answers one needs no rule.

use super::reader::{Ends, Packet};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// A datagram by which later fragments are known.
type Datagram = (IpAddr, IpAddr, u32, u8);

#[derive(Debug, Default)]
pub struct Flows {
    passed: HashSet<Ends>,
    /// Ports of first fragments.
    heads: HashMap<Datagram, (u16, u16, Option<u8>)>,
}

impl Flows {
    /// Notes what a first fragment says; it counts even if it is refused.
    pub fn note_head(&mut self, packet: &Packet) {
        if let (Some(id), Some(l4)) = (packet.head_of, &packet.l4) {
            let datagram = (packet.src, packet.dst, id, packet.protocol);
            self.heads.insert(datagram, (l4.sport, l4.dport, l4.kind));
        }
    }

    /// Gives a later fragment what its first one had.
    pub fn complete(&self, packet: &Packet) -> Option<(Ends, Option<u16>)> {
        if let Some(ends) = packet.ends() {
            return Some((ends, packet.port()));
        }
        let datagram = (packet.src, packet.dst, packet.tail_of?, packet.protocol);
        let (sport, dport, kind) = *self.heads.get(&datagram)?;
        let ends =
            Ends { protocol: packet.protocol, src: (packet.src, sport), dst: (packet.dst, dport) };
        Some((ends, Some(kind.map_or(dport, u16::from))))
    }

    pub fn pass(&mut self, packet: &Packet) {
        if packet.is_error() {
            return;
        }
        if let Some((ends, _)) = self.complete(packet) {
            self.passed.insert(ends);
        }
    }

    /// Whether a packet belongs to a connection that was opened towards its sender, or by it.
    pub fn answers(&self, packet: &Packet) -> bool {
        self.complete(packet).is_some_and(|(ends, _)| self.passed.contains(&ends.reversed()))
    }

    /// Whether a packet was sent with these ends.
    pub fn has(&self, ends: Ends) -> bool {
        self.passed.contains(&ends)
    }
}
