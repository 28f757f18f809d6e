//! The overlay's test world: what endpoints of other nodes say and hear through it. The other node is a
//! namespace with plain devices of the kind, one for each identity that it speaks for.

use super::frame::Mac;
use super::outside::outside;
use super::talk::*;
use super::*;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_NETDEV, FROM_OVERLAY, TO_NETDEV};
use zerocopy::IntoBytes;

/// The other node, and a client that is no node's.
pub const OTHER_NODE: [u8; 4] = [192, 0, 2, 254];
pub const CLIENT: (&str, &str) = ("198.51.100.7", "2001:db8:7::7");
/// Identities of the other node's endpoints.
pub const PEERS: [u32; 2] = [777, 778];
pub const WORLD: [u32; 2] = [9, 10];
pub const REMOTE_NODE: u32 = 6;
pub const HOST: u32 = 1;

/// The address of whom the other node gives an identity.
pub fn peer(identity: u32, like: IpAddr) -> IpAddr {
    let low = (identity % 250) as u16;
    if like.is_ipv4() {
        IpAddr::from([10, 2, 0, low as u8])
    } else {
        IpAddr::from([0xf00d, 2, 0, 0, 0, 0, 0, low])
    }
}

pub fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub struct World {
    pub node: Node,
    pub pod: (Endpoint, Namespace),
    pub other: Namespace,
}

impl World {
    pub fn new() -> Self {
        Self::with(Features::default())
    }

    pub fn with(features: Features) -> Self {
        let (mut node, _) = Node::with_uplink_and(features);
        let other = outside(&[CLIENT.0.parse().unwrap(), CLIENT.1.parse().unwrap()]);
        node.become_gateway();
        run_ip(&["link", "add", "overlay0", "type", "vxlan", "external", "dstport", "8472"]);
        run_ip(&["link", "set", "overlay0", "up"]);
        let tunnel_ifindex = ifindex("overlay0");
        node.node(NodeRow {
            router_ipv4: GATEWAY.0.octets(),
            router_ipv6: GATEWAY.1.octets(),
            tunnel_ifindex,
            tunnel_flags: DeviceFlags::DROP_NOTIFY.into(),
            ..NodeRow::default()
        });
        node.ipcache(OTHER_NODE.into(), 32, REMOTE_NODE);
        let pod = node.pod(1);
        let all = [Direction::Egress, Direction::Ingress].map(|way| PolicyKey::any(way, 0));
        node.rules(&pod.0, &all.map(|key| (key, PolicyRow::allow(&key, 1))));
        attach(&mut node, FROM_NETDEV, "up0", TcAttachType::Ingress);
        attach(&mut node, TO_NETDEV, "up0", TcAttachType::Egress);
        attach(&mut node, FROM_OVERLAY, "overlay0", TcAttachType::Ingress);
        let mut world = Self { node, pod, other };
        let own = world.pod.0.identity;
        for identity in PEERS.into_iter().chain(WORLD).chain([own, REMOTE_NODE, HOST, 0]) {
            world.speak_for(identity);
        }
        world
    }

    /// Lets the other node speak and hear for an identity, by an address of its own.
    pub fn speak_for(&mut self, identity: u32) {
        let pod = self.pod.0;
        for like in [pod.v4(), pod.v6()] {
            self.behind_overlay(peer(identity, like), identity.max(1));
        }
        self.other.run(move || {
            let (name, id) = (format!("vx{identity}"), identity.to_string());
            // What frames have that the pod sent, or that came to the node's device: a plain device
            // takes no others.
            let mac = if WORLD.contains(&identity) { ANY_MACS.1 } else { pod.node_mac };
            let hears = mac.map(|byte| format!("{byte:02x}")).join(":");
            run_ip(&[
                "link",
                "add",
                &name,
                "address",
                &hears,
                "type",
                "vxlan",
                "id",
                &id,
                "local",
                "192.0.2.254",
                "remote",
                "192.0.2.1",
                "dstport",
                "8472",
                "nolearning",
            ]);
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0").unwrap();
            run_ip(&["link", "set", &name, "up"]);
            for address in [peer(identity, pod.v4()), peer(identity, pod.v6())] {
                let address_full = format!("{address}/{}", bits(address));
                run_ip(&["address", "add", &address_full, "dev", &name]);
            }
        });
        self.reach(identity, &[pod.v4(), pod.v6()]);
    }

    /// What the other node says to these for an identity goes by the overlay.
    pub fn reach(&self, identity: u32, these: &[IpAddr]) {
        let these = these.to_vec();
        self.other.run(move || {
            let (name, table) = (format!("vx{identity}"), (1000 + identity).to_string());
            for to in these {
                let (from, family) = (peer(identity, to), if to.is_ipv4() { "-4" } else { "-6" });
                let (from, full, to) =
                    (from.to_string(), format!("{to}/{}", bits(to)), to.to_string());
                // One table for each: who speaks chooses the device.
                run_ip(&[family, "rule", "add", "from", &from, "to", &to, "table", &table]);
                run_ip(&[family, "route", "add", &full, "dev", &name, "table", &table]);
                // Whatever MAC address: the node does not look.
                run_ip(&["neighbour", "add", &to, "lladdr", "02:00:00:00:00:77", "dev", &name]);
            }
        });
    }

    /// A row of the ipcache: behind the other node.
    pub fn behind_overlay(&mut self, address: IpAddr, identity: u32) {
        self.behind(OTHER_NODE, address, identity);
    }

    /// The same behind any node.
    pub fn behind(&mut self, node: [u8; 4], address: IpAddr, identity: u32) {
        self.row(node, address, identity, IpcacheFlags::HAS_TUNNEL_ENDPOINT);
    }

    /// A row of the ipcache.
    pub fn row(&mut self, node: [u8; 4], address: IpAddr, identity: u32, flags: u8) {
        let key = IpcacheKey::new(address, bits(address));
        let mut row = IpcacheRow { identity, flags, ..IpcacheRow::default() };
        row.tunnel_endpoint[..4].copy_from_slice(&node);
        self.node.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
    }

    /// Takes an address out of the ipcache again.
    pub fn not_in_ipcache(&mut self, address: IpAddr) {
        let key = IpcacheKey::new(address, bits(address));
        self.node.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.remove(&Key::new(key.prefix_len, data)).unwrap();
        });
    }

    /// Whether what the other node says for an identity reaches the pod.
    pub fn hears(&self, identity: u32, like: IpAddr) -> bool {
        let (pod, from) = (self.pod.0.ip(like), peer(identity, like));
        let hearing = self.pod.1.run(move || udp_socket((pod, 0).into()));
        hearing.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        let to = hearing.local_addr().unwrap();
        self.other.run(move || udp_socket((from, 0).into()).send_to(b"hello", to).unwrap());
        heard(&hearing)
    }

    pub fn only_from(&mut self, identity: u32) {
        let key = PolicyKey::any(Direction::Ingress, identity);
        let pod = self.pod.0;
        self.node.rules(&pod, &[(key, PolicyRow::allow(&key, 1))]);
    }
}

pub fn heard(socket: &UdpSocket) -> bool {
    loop {
        match socket.recv(&mut [0; 16]) {
            Ok(_) => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return false;
            }
        }
    }
}

pub fn attach(node: &mut Node, program: &str, device: &str, hook: TcAttachType) {
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    node.program(program).attach_with_options(device, hook, options).unwrap();
}

/// Has the node's routes lead to an address by the overlay, as the node's own; what listens there takes
/// frames to that MAC address only.
pub fn routed(there: IpAddr, mac: Mac) {
    let family = if there.is_ipv4() { "-4" } else { "-6" };
    let to = format!("{there}/{}", bits(there));
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    for command in [
        format!("{family} route add {to} encap ip id {REMOTE_NODE} dst 192.0.2.254 dev overlay0"),
        format!("neighbour add {there} lladdr {mac} dev overlay0"),
    ] {
        run_ip(&command.split(' ').collect::<Vec<_>>());
    }
}
