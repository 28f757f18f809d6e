//! The overlay: what endpoints of other nodes say and hear through it. The other node is a namespace
//! with plain devices of the kind, one for each identity that it speaks for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use aya::maps::HashMap;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use common::outside::{open_service, outside};
use common::talk::*;
use common::*;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_NETDEV, FROM_OVERLAY, TO_NETDEV};
use zerocopy::IntoBytes;

/// The other node, and a client that is no node's.
const OTHER_NODE: [u8; 4] = [192, 0, 2, 254];
const CLIENT: (&str, &str) = ("198.51.100.7", "2001:db8:7::7");
/// Identities of the other node's endpoints.
const PEERS: [u32; 2] = [777, 778];
const WORLD: [u32; 2] = [9, 10];
const REMOTE_NODE: u32 = 6;
const HOST: u32 = 1;

/// The address of whom the other node gives an identity.
fn peer(identity: u32, like: IpAddr) -> IpAddr {
    let low = (identity % 250) as u16;
    if like.is_ipv4() {
        IpAddr::from([10, 2, 0, low as u8])
    } else {
        IpAddr::from([0xf00d, 2, 0, 0, 0, 0, 0, low])
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

struct World {
    node: Node,
    pod: (Endpoint, Namespace),
    other: Namespace,
}

impl World {
    fn new() -> Self {
        let (mut node, _) = Node::with_uplink();
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
        let pod = node.pod(1);
        let all = [Direction::Egress, Direction::Ingress].map(|way| PolicyKey::any(way, 0));
        node.rules(&pod.0, &all.map(|key| (key, PolicyRow::allow(&key, 1))));
        attach(&mut node, 0, FROM_NETDEV, "up0", TcAttachType::Ingress);
        attach(&mut node, 0, TO_NETDEV, "up0", TcAttachType::Egress);
        attach(&mut node, 1, FROM_OVERLAY, "overlay0", TcAttachType::Ingress);
        let mut world = Self { node, pod, other };
        let own = world.pod.0.identity;
        for identity in PEERS.into_iter().chain(WORLD).chain([own, REMOTE_NODE, HOST, 0]) {
            world.speak_for(identity);
        }
        world
    }

    /// Lets the other node speak and hear for an identity, by an address of its own.
    fn speak_for(&mut self, identity: u32) {
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
    fn reach(&self, identity: u32, these: &[IpAddr]) {
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
    fn behind_overlay(&mut self, address: IpAddr, identity: u32) {
        let key = IpcacheKey::new(address, bits(address));
        let mut row = IpcacheRow {
            identity,
            flags: IpcacheFlags::HAS_TUNNEL_ENDPOINT,
            ..IpcacheRow::default()
        };
        row.tunnel_endpoint[..4].copy_from_slice(&OTHER_NODE);
        self.node.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
    }

    /// Whether what the other node says for an identity reaches the pod.
    fn hears(&self, identity: u32, like: IpAddr) -> bool {
        let (pod, from) = (self.pod.0.ip(like), peer(identity, like));
        let hearing = self.pod.1.run(move || udp_socket((pod, 0).into()));
        hearing.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        let to = hearing.local_addr().unwrap();
        self.other.run(move || udp_socket((from, 0).into()).send_to(b"hello", to).unwrap());
        heard(&hearing)
    }

    fn only_from(&mut self, identity: u32) {
        let key = PolicyKey::any(Direction::Ingress, identity);
        let pod = self.pod.0;
        self.node.rules(&pod, &[(key, PolicyRow::allow(&key, 1))]);
    }
}

fn heard(socket: &UdpSocket) -> bool {
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

fn attach(node: &mut Node, object: usize, program: &str, device: &str, hook: TcAttachType) {
    let program: &mut SchedClassifier =
        node.others[object].program_mut(program).unwrap().try_into().unwrap();
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    program.attach_with_options(device, hook, options).unwrap();
}

#[test]
fn the_other_node_hears_the_pod_itself_with_its_identity() {
    let mut world = World::new();
    let pod = world.pod.0;
    for near in [pod.v4(), pod.v6()] {
        // The device of the pod's identity is the only one that takes its packets.
        let there = peer(pod.identity, near);
        let asking = world.pod.1.run(move || udp_socket((near, 0).into()));
        let answering = world.other.run(move || udp_socket((there, 5300).into()));
        for bytes in [1, 1000] {
            assert_eq!(ask(&asking, (there, 5300).into(), &answering, bytes), near);
        }
    }
    assert_eq!(world.node.drops(), [].into());
    assert_eq!(world.node.translations(), [], "nothing of the overlay is translated");
}

#[test]
fn policy_sees_the_identity_that_the_overlay_tells() {
    let mut world = World::new();
    let pod = world.pod.0;
    world.only_from(PEERS[0]);
    for like in [pod.v4(), pod.v6()] {
        assert!(world.hears(PEERS[0], like));
        let before = world.node.drops().get(&133).copied().unwrap_or(0);
        // The ipcache would have said otherwise.
        world.behind_overlay(peer(PEERS[1], like), PEERS[0]);
        assert!(!world.hears(PEERS[1], like));
        assert_eq!(world.node.drops().get(&133), Some(&(before + 1)));
    }
}

#[test]
fn a_node_that_claims_to_be_this_one_or_nobody_is_a_remote_node() {
    let mut world = World::new();
    let pod = world.pod.0;
    for claimed in [HOST, 0] {
        for like in [pod.v4(), pod.v6()] {
            world.only_from(HOST);
            assert!(!world.hears(claimed, like), "{claimed} is not this node");
            world.only_from(REMOTE_NODE);
            assert!(world.hears(claimed, like), "{claimed} is another one");
        }
    }
}

#[test]
fn an_address_of_this_node_does_not_come_by_the_overlay() {
    let mut world = World::new();
    let pod = world.pod.0;
    let forged = peer(PEERS[0], pod.v4());
    assert!(world.hears(PEERS[0], pod.v4()));
    world.node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
        map.insert(LxcKey::new(forged), LxcRow { lxc_id: 9, ..LxcRow::default() }, 0).unwrap()
    });
    assert!(!world.hears(PEERS[0], pod.v4()));
    assert_eq!(world.node.drops(), [(132, 1)].into());
}

#[test]
fn a_client_outside_is_served_by_an_endpoint_behind_the_overlay() {
    let mut world = World::new();
    for (number, client) in [CLIENT.0, CLIENT.1].into_iter().enumerate() {
        let client: IpAddr = client.parse().unwrap();
        let own: IpAddr = if client.is_ipv4() { UPLINK.0.into() } else { UPLINK.1.into() };
        // What the world says arrives by the device of that identity.
        let backend = peer(WORLD[number], client);
        let id = 100 + number as u32;
        world.node.backend(id, (backend, 8080).into(), 0, BackendState::Active);
        world.node.service((own, 30_080).into(), UDP, open_service(SERVICE), &[id]);
        let asking = world.other.run(move || udp_socket((client, 0).into()));
        let answering = world.other.run(move || udp_socket((backend, 8080).into()));
        assert_eq!(ask(&asking, (own, 30_080).into(), &answering, 500), own);
        // Its answers may come by the overlay as well.
        world.reach(WORLD[number], &[own]);
        assert_eq!(ask(&asking, (own, 30_080).into(), &answering, 500), own);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn the_node_itself_hears_the_overlay() {
    let mut world = World::new();
    let gateway = [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)];
    world.reach(PEERS[0], &gateway);
    for own in gateway {
        let hearing = udp_socket((own, 0).into());
        let (from, to) = (peer(PEERS[0], own), hearing.local_addr().unwrap());
        world.other.run(move || udp_socket((from, 0).into()).send_to(b"hello", to).unwrap());
        let (_, heard) = receive(&hearing, &mut [0; 16], "what the other node says");
        assert_eq!(heard.ip(), from);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn rows_that_skip_the_overlay_and_nodes_without_one_use_the_stack() {
    let (mut node, _) = Node::with_uplink();
    let pod = node.endpoint(1);
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&pod, &[(key, PolicyRow::allow(&key, 1))]);
    let there = peer(PEERS[0], pod.v4());
    for (tunnel_ifindex, flags, action) in [
        (1, IpcacheFlags::HAS_TUNNEL_ENDPOINT, REDIRECT),
        (0, IpcacheFlags::HAS_TUNNEL_ENDPOINT, OK),
        (1, IpcacheFlags::HAS_TUNNEL_ENDPOINT | IpcacheFlags::SKIP_TUNNEL, OK),
        (1, 0, OK),
    ] {
        node.node(NodeRow { tunnel_ifindex, ..NodeRow::default() });
        let key = IpcacheKey::new(there, 32);
        let row = IpcacheRow { identity: 777, flags, ..IpcacheRow::default() };
        node.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
        let sent = sealed(udp(pod.v4(), there, 1000, 53));
        let got = node.send(&pod, &sent);
        assert_eq!((got.action, got.frame), (action, sent), "{tunnel_ifindex} {flags}");
        let mark = if action == OK { pod.identity << 16 | 0x0f00 } else { 0x0400 };
        assert_eq!(got.mark, mark);
    }
}
