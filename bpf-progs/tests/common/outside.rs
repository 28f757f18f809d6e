//! An endpoint behind the node's device, and the world outside.

use super::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

/// An endpoint that may talk to everybody and hears nobody who was not asked.
pub struct World {
    pub node: Node,
    pub up: Uplink,
    pub a: Endpoint,
}

impl World {
    pub fn new() -> Self {
        Self::with(Features::default())
    }

    pub fn with(features: Features) -> Self {
        let (mut node, up) = Node::with_uplink_and(features);
        let a = node.endpoint(1);
        let key = PolicyKey::any(Direction::Egress, 0);
        node.rules(&a, &[(key, PolicyRow::allow(&key, 1))]);
        Self { node, up, a }
    }

    /// The endpoint's address, the device's, and one outside, of each family.
    pub fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        ["198.51.100.7", "2001:db8:7::7"].map(|far| {
            let far: IpAddr = far.parse().unwrap();
            (self.a.ip(far), self.up.ip(far), far)
        })
    }

    /// What becomes of a frame of the endpoint on its way out, by both programs.
    pub fn out(&mut self, frame: &[u8]) -> Outcome {
        let stacked = self.node.send(&self.a, frame);
        assert_eq!(stacked.action, OK, "{:?}", self.node.drops());
        self.node.emit(&self.up, stacked.mark, &stacked.frame)
    }

    /// The frame that goes to the wire.
    pub fn sent(&mut self, frame: &[u8]) -> Vec<u8> {
        let got = self.out(frame);
        assert_eq!(got.action, OK, "{:?}", self.node.drops());
        got.frame
    }

    /// Waits until the programs' clock, which may be a quarter of a second late, shows another second.
    pub fn next_second(&self) {
        std::thread::sleep(std::time::Duration::from_millis(1300));
    }

    /// What the endpoint gets of a frame from the wire.
    pub fn got(&mut self, frame: &[u8]) -> Vec<u8> {
        let got = self.node.receive(&self.up, frame);
        assert_eq!(got.action, REDIRECT, "{:?}", self.node.drops());
        got.frame
    }
}

/// The ends of a frame, as its headers have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub from: (IpAddr, u16),
    pub to: (IpAddr, u16),
    /// Of an ICMP echo; of others it is nothing.
    pub identifier: u16,
}

pub fn ends_of(frame: &[u8]) -> Ends {
    let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap());
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
    let (from, to, l4) =
        if frame[12..14] == [8, 0] { (v4(26), v4(30), 34) } else { (v6(22), v6(38), 54) };
    Ends { from: (from, number(l4)), to: (to, number(l4 + 2)), identifier: number(l4 + 4) }
}
