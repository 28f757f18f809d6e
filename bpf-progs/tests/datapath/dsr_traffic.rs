//! Direct server return between two nodes in namespaces of their own, the programs attached to each.

use crate::common::outside::open_service;
use crate::common::overlay::{attach, heard};
use crate::common::talk::*;
use crate::common::*;
use aya::programs::TcAttachType;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_NETDEV, FROM_OVERLAY, TO_NETDEV};

const PORT: u16 = 30_080;
const CLIENT: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7));

/// By which the first node routes its endpoints, and answers come to it by an overlay.
const ROUTER: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 3, 0, 254), Ipv6Addr::new(0xf00d, 3, 0, 0, 0, 0, 0, 0xffff));

/// Addresses of the first or second node at its device.
fn at(number: u8) -> [IpAddr; 2] {
    [
        Ipv4Addr::new(192, 0, 2, number).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into(),
    ]
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A client, the node that it asks, and the one that has the backend.
struct Network {
    client: Namespace,
    asked: Node,
    serving: Node,
    pod: (Endpoint, Namespace),
    /// Both nodes' own namespaces.
    places: [Namespace; 2],
}

/// Sets up a node in the namespace of this thread, its device's other end with the client.
fn settle(number: u8, client: &str) -> Node {
    let (mut node, up) = Node::with_uplink_and(dsr());
    let name = format!("wire{number}");
    run_ip(&["link", "set", "wire0", "netns", client, "name", &name]);
    run_ip(&["link", "set", "up0", "address", &format!("02:00:00:00:01:{number:02x}"), "up"]);
    node.become_gateway();
    let [v4, v6] = at(number);
    run_ip(&["address", "add", &format!("{v4}/24"), "dev", "up0"]);
    run_ip(&["address", "add", &format!("{v6}/64"), "dev", "up0", "nodad"]);
    run_ip(&["route", "add", "default", "via", "192.0.2.254"]);
    run_ip(&["route", "add", "default", "via", "2001:db8::fe"]);
    for address in [IpAddr::from(UPLINK.0), UPLINK.1.into()] {
        node.remove::<_, LxcRow>("cilium_lxc", LxcKey::new(address));
    }
    let (IpAddr::V4(ipv4), IpAddr::V6(ipv6)) = (v4, v6) else { unreachable!() };
    let row = up.row(DeviceFlags::DROP_NOTIFY | MASQUERADE);
    node.device(DeviceRow { ipv4: ipv4.octets(), ipv6: ipv6.octets(), ..row });
    [v4, v6].into_iter().for_each(|address| node.host_address(address));
    for other in at(3 - number) {
        node.ipcache(other, bits(other), 6);
    }
    attach(&mut node, FROM_NETDEV, "up0", TcAttachType::Ingress);
    attach(&mut node, TO_NETDEV, "up0", TcAttachType::Egress);
    node
}

/// Has a node reach the other one by an overlay.
fn join_overlay(node: &mut Node) {
    run_ip(&["link", "add", "overlay0", "type", "vxlan", "external", "dstport", "8472"]);
    run_ip(&["link", "set", "overlay0", "up"]);
    let row = node.read_node();
    node.node(NodeRow { tunnel_ifindex: ifindex("overlay0"), ..row });
    attach(node, FROM_OVERLAY, "overlay0", TcAttachType::Ingress);
}

impl Network {
    fn new(overlay: bool) -> Self {
        let client = Namespace::new();
        let path = client.path.clone();
        let places = [Namespace::new(), Namespace::new()];
        let [mut asked, mut serving] = [0, 1].map(|n| {
            let path = path.clone();
            places[n].run(move || {
                let mut node = settle(n as u8 + 1, &path);
                if overlay {
                    join_overlay(&mut node);
                }
                node
            })
        });
        let pod;
        (serving, pod) = places[1].run(move || {
            let pod = serving.pod(1);
            serving.rules(&pod.0, &[everything(Direction::Ingress)]);
            (serving, pod)
        });
        client.run(live_between);
        let row = asked.read_node();
        let (router_ipv4, router_ipv6) = (ROUTER.0.octets(), ROUTER.1.octets());
        asked.node(NodeRow { router_ipv4, router_ipv6, ..row });
        for router in [ROUTER.0.into(), IpAddr::from(ROUTER.1)] {
            serving.behind(router, 6, [192, 0, 2, 1], overlay);
        }
        for ((own, other), (near, id)) in
            at(1).into_iter().zip(at(2)).zip([(pod.0.v4(), 7), (pod.0.v6(), 1007)])
        {
            asked.behind(near, pod.0.identity, [192, 0, 2, 2], overlay);
            for (node, address) in [(&mut asked, own), (&mut serving, other)] {
                node.backend(id, (near, 8080).into(), 0, BackendState::Active);
                for protocol in [TCP, UDP] {
                    node.service((address, PORT).into(), protocol, open_service(SERVICE), &[id]);
                }
            }
            let (near, other) = (near.to_string(), other.to_string());
            places[0].run(move || run_ip(&["route", "add", &near, "via", &other]));
        }
        Self { client, asked, serving, pod, places }
    }

    /// The pod's address, that of the node which is asked, and the client's.
    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        let [v4, v6] = at(1);
        [(self.pod.0.v4(), v4, CLIENT.0.into()), (self.pod.0.v6(), v6, CLIENT.1.into())]
    }

    /// Everything between a client and a pod that may be said.
    fn speak(&mut self) {
        for (near, own, client) in self.families() {
            let service = (own, PORT).into();
            let asking = self.client.run(move || udp_socket((client, 0).into()));
            let answering = self.pod.1.run(move || udp_socket((near, 8080).into()));
            for bytes in [1, 1000] {
                assert_eq!(ask(&asking, service, &answering, bytes), client, "the pod hears him");
            }
            drop(answering);
            asking.connect(service).unwrap();
            assert_eq!(refusal(&asking), Some(ErrorKind::ConnectionRefused), "the error is his");
            let refused = self.client.run(move || {
                TcpStream::connect_timeout(&service, PATIENCE).expect_err("nobody listens").kind()
            });
            assert_eq!(refused, ErrorKind::ConnectionRefused);
            let listener = self.pod.1.run(move || TcpListener::bind((near, 8080)).unwrap());
            assert_eq!(stream(&self.client, service, listener), client);
        }
        assert_eq!(self.asked.translations(), [], "the asked node stands in for nobody");
        assert_eq!(self.asked.drops(), [].into());
        assert_eq!(self.serving.drops(), [].into());
    }
}

/// What a connected socket hears of a place where nobody listens. A datagram may get lost, and a stack need
/// not tell of each.
fn refusal(asking: &UdpSocket) -> Option<ErrorKind> {
    asking.set_read_timeout(Some(PATIENCE / 20)).unwrap();
    let attempt = || {
        let heard = asking.send(b"hello").and_then(|_| asking.recv(&mut [0; 8]));
        heard.expect_err("nobody listens").kind()
    };
    (0..20).map(|_| attempt()).find(|heard| *heard != ErrorKind::WouldBlock)
}

/// The network between the nodes, where the client is.
fn live_between() {
    run_ip(&["link", "set", "lo", "up"]);
    run_ip(&["link", "add", "between", "type", "bridge"]);
    std::fs::write("/proc/sys/net/ipv6/conf/between/accept_dad", "0").unwrap();
    for wire in ["wire1", "wire2"] {
        run_ip(&["link", "set", wire, "master", "between", "up"]);
    }
    run_ip(&["link", "set", "between", "up"]);
    run_ip(&["address", "add", "192.0.2.254/32", "dev", "between"]);
    run_ip(&["address", "add", "2001:db8::fe/128", "dev", "between", "nodad"]);
    let (v4, v6) = (CLIENT.0.to_string(), CLIENT.1.to_string());
    for (address, net) in [(v4, "192.0.2.0/24"), (v6, "2001:db8::/64")] {
        let nodad = if net.contains(':') { &["nodad"][..] } else { &[] };
        run_ip(&[&["address", "add", &address, "dev", "lo"], nodad].concat());
        run_ip(&["route", "add", net, "dev", "between", "src", &address]);
    }
}

#[test]
fn a_pod_of_another_node_answers_the_client_itself() {
    let mut network = Network::new(false);
    network.speak();
}

#[test]
fn it_does_so_where_the_client_is_heard_by_the_overlay() {
    let mut network = Network::new(true);
    network.speak();
}

#[test]
fn what_is_too_long_is_answered_by_the_asked_node() {
    let network = Network::new(false);
    for (near, own, client) in network.families() {
        let headers = if own.is_ipv4() { 28 } else { 48 };
        let asking = network.client.run(move || udp_socket((client, 0).into()));
        let answering = network.pod.1.run(move || udp_socket((near, 8080).into()));
        for bytes in [1500 - headers, 1] {
            assert_eq!(ask(&asking, (own, PORT).into(), &answering, bytes), own);
        }
        let asking = network.client.run(move || udp_socket((client, 0).into()));
        for bytes in [1, 1500 - headers] {
            assert_eq!(ask(&asking, (own, PORT).into(), &answering, bytes), client);
        }
    }
    drop(network.places);
}

/// Connects the client to a service: his end, and the pod's.
fn connected(
    network: &Network,
    service: (IpAddr, u16),
    listener: &TcpListener,
) -> (TcpStream, TcpStream) {
    let service = service.into();
    let connect = move || TcpStream::connect_timeout(&service, PATIENCE).unwrap();
    let asking = network.client.run(connect);
    let (answering, _) = listener.accept().unwrap();
    (asking, answering)
}

fn says(from: &mut TcpStream, to: &mut TcpStream) {
    let mut heard = [0; 5];
    from.write_all(b"hello").unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

/// One port of the client's speaks with both nodes at once; the backend of both is one. The second connection
/// is heard as another port of his if it asks the backend's node, else as the node that it asks: by the overlay
/// as its router.
fn one_port(network: &Network, overlay: bool) {
    let mut port = 5000;
    for (near, first, client) in network.families() {
        let second = at(2)[usize::from(first.is_ipv6())];
        let router = if first.is_ipv4() { ROUTER.0.into() } else { IpAddr::from(ROUTER.1) };
        let node = if overlay { router } else { first };
        for (order, heard) in [([first, second], client), ([second, first], node)] {
            port += 1;
            let listener = network.pod.1.run(move || TcpListener::bind((near, 8080)).unwrap());
            network.client.run(move || {
                let range = "/proc/sys/net/ipv4/ip_local_port_range";
                std::fs::write(range, format!("{port} {port}")).unwrap();
            });
            let mut streams = order.map(|asked| connected(network, (asked, PORT), &listener));
            let peers = streams.each_ref().map(|(_, answering)| answering.peer_addr().unwrap());
            assert_eq!(peers[0], (client, port).into());
            assert_eq!(peers[1].ip(), heard);
            assert_ne!(peers[1], peers[0]);
            for _ in 0..3 {
                for (asking, answering) in &mut streams {
                    assert_eq!(asking.local_addr().unwrap().port(), port);
                    says(asking, answering);
                    says(answering, asking);
                }
            }
            let answering = network.pod.1.run(move || udp_socket((near, 8080).into()));
            let asking = network.client.run(move || udp_socket((client, port).into()));
            for _ in 0..3 {
                assert_eq!(ask(&asking, (order[0], PORT).into(), &answering, 1), client);
                assert_eq!(ask(&asking, (order[1], PORT).into(), &answering, 1), heard);
            }
        }
    }
}

#[test]
fn a_port_that_speaks_with_two_nodes_has_two_connections() {
    for overlay in [false, true] {
        let mut network = Network::new(overlay);
        one_port(&network, overlay);
        assert_eq!(network.asked.drops(), [].into());
        assert_eq!(network.serving.drops(), [].into());
    }
}

/// Checks whether the pod hears what the client says to the node that he asks, from a port of his.
fn hears(network: &Network, expected: bool, (near, own, client): (IpAddr, IpAddr, IpAddr)) -> u16 {
    let hearing = network.pod.1.run(move || udp_socket((near, 8080).into()));
    let patience = if expected { PATIENCE } else { Duration::from_millis(400) };
    hearing.set_read_timeout(Some(patience)).unwrap();
    let asking = network.client.run(move || udp_socket((client, 0).into()));
    asking.send_to(b"hello", (own, PORT)).unwrap();
    assert_eq!(heard(&hearing), expected, "from {client} by {own}");
    asking.local_addr().unwrap().port()
}

#[test]
fn policy_sees_the_client_as_the_pods_node_knows_him() {
    let mut network = Network::new(true);
    let (pod, subnet) = (network.pod.0, 1 << 24 | 5);
    for all in network.families() {
        let client = all.2;
        // The first packet waits for neighbours to be found.
        hears(&network, true, all);
        network.serving.rules(&pod, &[allowed(PolicyKey::any(Direction::Ingress, subnet))]);
        hears(&network, false, all);
        network.serving.ipcache(client, bits(client), subnet);
        hears(&network, true, all);
        // Nobody is an endpoint because a node says that he is outside.
        network.serving.ipcache(client, bits(client), 777);
        network.serving.rules(&pod, &[allowed(PolicyKey::any(Direction::Ingress, 777))]);
        hears(&network, false, all);
        network.serving.rules(&pod, &[everything(Direction::Ingress)]);
    }
    assert_eq!(network.serving.drops(), [(133, 4)].into());
}

#[test]
fn what_is_no_node_of_ours_says_nothing_by_the_overlay() {
    let mut network = Network::new(true);
    for all in network.families() {
        let (near, _, client) = all;
        for (identity, is_node) in [(6, true), (777, false)] {
            network.serving.ipcache(at(1)[0], 32, identity);
            let opener = (client, hears(&network, is_node, all));
            let connection = Connection { opener, other: (near, 8080), protocol: UDP };
            let row = network.serving.tracked(connection, TupleFlags::IN);
            let is_told = row.is_some_and(|row| row.flags & CtFlags::DSR != 0);
            assert_eq!(is_told, is_node, "{identity}");
        }
    }
}
