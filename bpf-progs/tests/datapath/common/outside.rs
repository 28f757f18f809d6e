//! An endpoint behind the node's device, and the world outside.

use super::*;
use aya::maps::lpm_trie::{Key, LpmTrie};
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;
use zerocopy::IntoBytes;

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

/// An endpoint that hears everybody and says nothing unasked, behind a node that serves it at a port.
pub fn serving(features: Features, port: u16) -> World {
    let mut world = World::with(features);
    route_outside();
    let a = world.a;
    world.node.rules(&a, &[everything(Direction::Ingress)]);
    for (near, own, _) in world.families() {
        let id = backend_id(own);
        world.node.backend(id, (near, 8080).into(), 0, BackendState::Active);
        for protocol in [TCP, UDP] {
            world.node.service((own, port).into(), protocol, open_service(SERVICE), &[id]);
        }
    }
    world
}

/// The number of that endpoint as a backend, of the family that `like` has.
pub fn backend_id(like: IpAddr) -> u32 {
    if like.is_ipv4() { 7 } else { 1007 }
}

impl Node {
    /// Lets clients of a prefix use a service that only some may.
    pub fn source_range(&mut self, id: u16, address: IpAddr, bits: u8) {
        let rev_nat = Be16::new(id);
        let prefix_len = 32 + u32::from(bits);
        match address {
            IpAddr::V4(v4) => {
                let key = SourceRange4Key { rev_nat, address: v4.octets(), prefix_len, pad: 0 };
                let data: [u8; 8] = key.as_bytes()[4..].try_into().unwrap();
                self.map::<LpmTrie<_, [u8; 8], u8>>("cilium_lb4_source_range", |mut map| {
                    map.insert(&Key::new(prefix_len, data), 0, 0).unwrap()
                });
            }
            IpAddr::V6(v6) => {
                let key = SourceRange6Key { rev_nat, address: v6.octets(), prefix_len, pad: 0 };
                let data: [u8; 20] = key.as_bytes()[4..].try_into().unwrap();
                self.map::<LpmTrie<_, [u8; 20], u8>>("cilium_lb6_source_range", |mut map| {
                    map.insert(&Key::new(prefix_len, data), 0, 0).unwrap()
                });
            }
        }
    }
}

/// Gives the device its addresses and the node routes, so that it may forward.
pub fn route_outside() {
    for device in ["up0", "wire0"] {
        switch_on(device);
    }
    route_by_device();
}

fn switch_on(device: &str) {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/accept_dad"), "0").unwrap();
    run_ip(&["link", "set", device, "up"]);
}

/// Where clients are, and what the node cannot see of its own: a namespace at the device's other end
/// with these addresses.
pub fn outside(addresses: &[IpAddr]) -> Namespace {
    let (namespace, addresses) = (Namespace::new(), addresses.to_vec());
    run_ip(&["link", "set", "wire0", "netns", &namespace.path]);
    switch_on("up0");
    route_by_device();
    namespace.run(move || {
        run_ip(&["link", "set", "lo", "up"]);
        switch_on("wire0");
        run_ip(&["address", "add", "192.0.2.254/24", "dev", "wire0"]);
        run_ip(&["address", "add", "2001:db8::fe/64", "dev", "wire0", "nodad"]);
        for address in addresses {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            run_ip(&["address", "add", &format!("{address}/{bits}"), "dev", "lo"]);
        }
        run_ip(&["route", "add", "default", "via", &UPLINK.0.to_string()]);
        run_ip(&["route", "add", "default", "via", &UPLINK.1.to_string()]);
    });
    namespace
}

fn route_by_device() {
    for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{path}"), "1").unwrap();
    }
    run_ip(&["address", "add", &format!("{}/24", UPLINK.0), "dev", "up0"]);
    run_ip(&["address", "add", &format!("{}/64", UPLINK.1), "dev", "up0", "nodad"]);
    run_ip(&["route", "add", "default", "via", "192.0.2.254"]);
    run_ip(&["route", "add", "default", "via", "2001:db8::fe"]);
}

/// A service that is reached from outside, without its counts.
pub fn open_service(id: u16) -> LbRow {
    LbRow { flags: LbFlags::NODE_PORT | LbFlags::ROUTABLE, ..random_service(id) }
}

/// An error without the checksum of what is inside it, which nobody corrects, and its own, which
/// follows from that.
pub fn comparable(frame: &[u8]) -> Vec<u8> {
    let v4 = frame[12..14] == [8, 0];
    let mut bytes = frame[14..].to_vec();
    let (icmp, inner) = if v4 { (22, 48) } else { (42, 88) };
    bytes[icmp..icmp + 2].fill(0);
    let protocol = bytes[if v4 { 37 } else { 54 }];
    let place = match protocol {
        UDP => 6,
        TCP => 16,
        _ => 2,
    };
    bytes[inner + place..inner + place + 2].fill(0);
    bytes
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
