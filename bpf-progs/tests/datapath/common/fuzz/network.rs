//! Who there is: endpoints with policies, their node, other nodes with theirs, strangers, and services. Both the
//! rows of the programs and what the oracle knows are made of it.

use super::super::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

pub const TUNNEL_PORT: u16 = 8472;
/// A service of the cluster, one of the node's address with a backend here, and one with a backend elsewhere.
pub const SERVED: u16 = 80;
pub const NODE_PORT: u16 = 30_080;
pub const NODE_PORT_AWAY: u16 = 30_081;
pub const BACKEND_PORT: u16 = 8080;

pub const HOST: u32 = 1;
pub const REMOTE_NODE: u32 = 6;

/// Places of endpoints in [`Network::pods`].
pub const OPEN: usize = 0;
pub const SERVER: usize = 1;
pub const CLIENT: usize = 2;
pub const JAILED: usize = 3;

/// Where a frame is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// An endpoint sends it.
    Pod(usize),
    /// It comes by the node's device.
    Wire,
    /// It comes by the overlay, in a packet of this source, and with this identity.
    Overlay { carrier: IpAddr, identity: u32 },
    /// The node's stack forwards it, from nobody whom a mark names.
    Stack(usize),
}

impl At {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod(_) => "endpoint",
            Self::Wire => "wire",
            Self::Overlay { .. } => "overlay",
            Self::Stack(_) => "stack",
        }
    }
}

/// What an endpoint may do: a direction, whom it names, a protocol and a port of it. None is any.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub pod: usize,
    pub way: Direction,
    pub peer: Option<u32>,
    pub protocol: Option<(u8, Option<u16>)>,
}

impl Rule {
    fn row(&self) -> (PolicyKey, PolicyRow) {
        let peer = self.peer.unwrap_or_default();
        let key = match self.protocol {
            None => PolicyKey::any(self.way, peer),
            Some((protocol, None)) => PolicyKey::protocol(self.way, peer, protocol),
            Some((protocol, Some(port))) => PolicyKey::ports(self.way, peer, protocol, port, 16),
        };
        (key, PolicyRow::allow(&key, 1))
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub address: IpAddr,
    pub identity: u32,
    /// The node behind which it lives.
    pub node: Option<[u8; 4]>,
}

#[derive(Clone, Debug)]
pub struct Network {
    pub pods: Vec<Endpoint>,
    pub rules: Vec<Rule>,
    /// Addresses of the node itself.
    pub own: Vec<IpAddr>,
    /// All others that the ipcache has.
    pub known: Vec<Known>,
    pub nodes: [[u8; 4]; 2],
    pub strangers: Vec<IpAddr>,
    pub up: Uplink,
}

impl Network {
    /// Makes all rows.
    pub fn build(node: &mut Node, up: Uplink) -> Self {
        let pods: Vec<_> = (1..=4).map(|id| node.endpoint(id)).collect();
        let nodes = [[192, 0, 2, 77], [192, 0, 2, 78]];
        let parse =
            |all: &[&str]| all.iter().map(|it| it.parse().unwrap()).collect::<Vec<IpAddr>>();
        let mut known = Vec::new();
        for (address, identity, behind) in [
            ("192.0.2.77", REMOTE_NODE, None),
            ("2001:db8::77", REMOTE_NODE, None),
            ("192.0.2.78", REMOTE_NODE, None),
            ("10.2.0.7", 777, Some(nodes[0])),
            ("f00d:2::7", 777, Some(nodes[0])),
            ("10.3.0.7", 778, Some(nodes[1])),
            ("f00d:3::7", 778, Some(nodes[1])),
            ("10.2.0.1", REMOTE_NODE, Some(nodes[0])),
        ] {
            known.push(Known { address: address.parse().unwrap(), identity, node: behind });
        }
        let rules = rules(&pods);
        let own = vec![UPLINK.0.into(), UPLINK.1.into(), GATEWAY.0.into(), GATEWAY.1.into()];
        let strangers =
            parse(&["198.51.100.7", "203.0.113.9", "2001:db8:7::7", "2001:db8:9::9", "10.2.0.99"]);
        let network = Self { pods, rules, own, known, nodes, strangers, up };
        network.fill(node);
        network
    }

    fn fill(&self, node: &mut Node) {
        for (nth, pod) in self.pods.iter().enumerate() {
            let of = self.rules.iter().filter(|rule| rule.pod == nth);
            node.rules(pod, &of.map(Rule::row).collect::<Vec<_>>());
        }
        for known in &self.known {
            let mut row = IpcacheRow { identity: known.identity, ..IpcacheRow::default() };
            if let Some(at) = known.node {
                row.flags = IpcacheFlags::HAS_TUNNEL_ENDPOINT;
                row.tunnel_endpoint[..4].copy_from_slice(&at);
            }
            node.ipcache_row(known.address, row);
        }
        for address in [IpAddr::from(GATEWAY.0), GATEWAY.1.into()] {
            node.host_address(address);
        }
        node.node(NodeRow {
            router_ipv4: GATEWAY.0.octets(),
            router_ipv6: GATEWAY.1.octets(),
            tunnel_ifindex: self.up.ifindex,
            tunnel_port: Be16::new(TUNNEL_PORT),
            ..NodeRow::default()
        });
        for (nth, like) in [self.pods[0].v4(), self.pods[0].v6()].into_iter().enumerate() {
            self.serve(node, 10 * nth as u32, like);
        }
    }

    fn serve(&self, node: &mut Node, id: u32, like: IpAddr) {
        let (near, there) = (self.pods[SERVER].ip(like), self.pods[OPEN].ip(like));
        let away = self
            .known
            .iter()
            .find(|it| it.identity == 777 && it.address.is_ipv4() == like.is_ipv4());
        let away = away.unwrap().address;
        let own = self.up.ip(like);
        for (id, to, port) in
            [(id + 1, near, SERVED), (id + 2, there, BACKEND_PORT), (id + 3, away, BACKEND_PORT)]
        {
            node.backend(id, (to, port).into(), 0, BackendState::Active);
        }
        for protocol in [TCP, UDP] {
            node.service(
                (service_address(like), SERVED).into(),
                protocol,
                random_service(SERVICE),
                &[id + 1],
            );
            let open = |nth| outside::open_service(SERVICE + nth);
            node.service((own, NODE_PORT).into(), protocol, open(1), &[id + 2]);
            node.service((own, NODE_PORT_AWAY).into(), protocol, open(2), &[id + 3]);
        }
    }

    /// Which endpoint of the node has an address.
    pub fn pod_of(&self, address: IpAddr) -> Option<usize> {
        self.pods.iter().position(|pod| pod.ip(address) == address)
    }

    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    pub fn known(&self, address: IpAddr) -> Option<&Known> {
        self.known.iter().find(|it| it.address == address)
    }

    /// Who an address is.
    pub fn identity(&self, address: IpAddr) -> u32 {
        if let Some(pod) = self.pod_of(address) {
            return self.pods[pod].identity;
        }
        if self.is_own(address) || stays_on_link(address) {
            return HOST;
        }
        let world = if address.is_ipv4() { 9 } else { 10 };
        self.known(address).map_or(world, |it| it.identity)
    }

    /// Whether an endpoint's policy lets it.
    pub fn permits(
        &self,
        pod: usize,
        way: Direction,
        peer: u32,
        protocol: u8,
        port: Option<u16>,
    ) -> bool {
        self.rules.iter().any(|rule| {
            let is_covered = match rule.protocol {
                None => true,
                Some((its, None)) => its == protocol,
                Some((its, its_port)) => its == protocol && its_port == port,
            };
            rule.pod == pod
                && rule.way as u8 == way as u8
                && rule.peer.is_none_or(|its| its == peer)
                && is_covered
        })
    }
}

/// Whether an address leads no further than a link.
pub fn stays_on_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => {
            let [first, second] = v6.segments()[0].to_be_bytes();
            (first == 0xfe && second & 0xc0 == 0x80) || (first == 0xff && second & 0xf <= 2)
        }
    }
}

/// Whether an address is for many.
pub fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] >= 224,
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Whether nobody elsewhere can have sent a packet from an address.
pub fn is_no_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_loopback() || v4.octets()[0] >= 224,
        IpAddr::V6(v6) => {
            v6.is_multicast()
                || v6.is_loopback()
                || v6.is_unspecified()
                || v6.to_ipv4_mapped().is_some()
                || stays_on_link(address)
        }
    }
}

/// One may do everything, one serves another one, and one may do nothing.
fn rules(pods: &[Endpoint]) -> Vec<Rule> {
    let [server, client] = [SERVER, CLIENT].map(|nth| pods[nth].identity);
    let (out, into) = (Direction::Egress, Direction::Ingress);
    let mut rules = Vec::new();
    let mut rule = |pod, way, peer, protocol| rules.push(Rule { pod, way, peer, protocol });
    rule(OPEN, out, None, None);
    rule(OPEN, into, None, None);
    for protocol in [TCP, UDP] {
        rule(SERVER, into, Some(client), Some((protocol, Some(SERVED))));
        rule(CLIENT, out, Some(server), Some((protocol, Some(SERVED))));
    }
    for world in [9, 10] {
        rule(CLIENT, out, Some(world), Some((TCP, Some(443))));
        rule(CLIENT, out, Some(world), Some((UDP, None)));
    }
    rule(CLIENT, out, Some(777), None);
    rule(SERVER, into, Some(777), Some((UDP, None)));
    rule(SERVER, into, Some(client), Some((ICMP, Some(8))));
    rule(CLIENT, out, Some(server), Some((ICMP, Some(8))));
    rules
}
