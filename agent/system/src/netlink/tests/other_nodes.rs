//! Devices and routes that lead to other nodes.

use ipnet::IpNet;
use volvox_actors::ports::Hop;

use super::{MAC, PEER_MAC, in_netns, linked_pair};
use crate::netlink::{Device, NodeRoutes, Socket};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn direct(gateway: &str, ifindex: u32) -> Hop {
    Hop::Direct { gateway: gateway.parse().unwrap(), ifindex }
}

fn tunnel(node: &str, ifindex: u32, source: &str) -> Hop {
    let source = Some(source.parse().unwrap());
    Hop::Tunnel { node: node.parse().unwrap(), ifindex, source, mtu: 1450 }
}

fn device(socket: &mut Socket, name: &str) -> Device {
    socket.device(name).unwrap().unwrap()
}

/// An overlay that is up; its number.
fn overlay(socket: &mut Socket) -> u32 {
    socket.create_overlay("cilium_vxlan", 8472, 1500, MAC).unwrap();
    let ifindex = device(socket, "cilium_vxlan").ifindex;
    socket.set_link_up(ifindex).unwrap();
    ifindex
}

#[test]
fn devices_are_ours_from_the_moment_they_are_made() {
    in_netns(|socket| {
        assert_eq!(socket.device("cilium_vxlan").unwrap(), None);
        let ifindex = overlay(socket);
        let found = device(socket, "cilium_vxlan");
        let expected = Device {
            ifindex,
            ours: true,
            kind: "vxlan".into(),
            noarp: true,
            peer_ifindex: 0,
            port: 8472,
            external: true,
        };
        assert_eq!(found, expected);
        assert_eq!(socket.link_by_index(ifindex).unwrap().unwrap().mac, MAC);

        socket.create_pair(["cilium_host", "cilium_net"], 1400, [MAC, PEER_MAC]).unwrap();
        let [host, peer] = ["cilium_host", "cilium_net"].map(|name| device(socket, name));
        assert_eq!((host.peer_ifindex, peer.peer_ifindex), (peer.ifindex, host.ifindex));
        for side in [&host, &peer] {
            assert!(side.ours && side.noarp && side.kind == "veth", "{side:?}");
        }
        let taken = socket.create_pair(["cilium_host", "x"], 1400, [MAC, PEER_MAC]).unwrap_err();
        assert!(taken.is_taken(), "{taken}");
        // Those of somebody else are not.
        let (pod, _) = linked_pair(socket);
        let pod = socket.link_by_index(pod).unwrap().unwrap();
        assert!(!device(socket, &pod.name).ours);
    });
}

#[test]
fn routes_to_other_nodes_are_read_as_they_were_put() {
    in_netns(|socket| {
        let (_, eth) = linked_pair(socket);
        for own in ["192.0.2.1/24", "2001:db8::1/64", "10.1.0.254/32", "fd01::fe/128"] {
            socket.add_address(eth, net(own)).unwrap();
        }
        let vxlan = overlay(socket);
        let all = [
            (net("10.2.0.0/24"), tunnel("192.0.2.2", vxlan, "10.1.0.254")),
            (net("fd02::/64"), tunnel("192.0.2.2", vxlan, "fd01::fe")),
            (net("10.3.0.0/24"), direct("192.0.2.3", eth)),
            (net("fd03::/64"), direct("2001:db8::3", eth)),
            (net("10.4.0.0/24"), tunnel("2001:db8::4", vxlan, "10.1.0.254")),
            (net("10.5.0.7/32"), direct("192.0.2.5", eth)),
        ];
        for (prefix, hop) in all {
            socket.put_node_route(prefix, hop, false).unwrap();
        }
        let expected = NodeRoutes { hops: all.into(), odd: Default::default() };
        assert_eq!(socket.node_routes().unwrap(), expected);
        // None of them is an endpoint's, and no endpoint's is one of them.
        assert!(socket.routes().unwrap().is_empty());
        socket.put_route("10.1.0.9".parse().unwrap(), eth).unwrap();
        assert_eq!(socket.routes().unwrap().len(), 1);
        assert_eq!(socket.node_routes().unwrap(), expected);
        // From a tunnel to a neighbour and back, at one stroke.
        for (prefix, hop) in [
            (net("10.2.0.0/24"), direct("192.0.2.2", eth)),
            (net("fd02::/64"), direct("2001:db8::2", eth)),
            (net("10.2.0.0/24"), tunnel("192.0.2.2", vxlan, "10.1.0.254")),
            (net("fd02::/64"), tunnel("192.0.2.2", vxlan, "fd01::fe")),
        ] {
            socket.put_node_route(prefix, hop, true).unwrap();
            let now = socket.node_routes().unwrap();
            assert_eq!((now.hops.len(), now.hops[&prefix]), (all.len(), hop));
        }
        for (prefix, _) in all {
            assert!(socket.delete_node_route(prefix).unwrap(), "{prefix}");
            assert!(!socket.delete_node_route(prefix).unwrap(), "{prefix}");
        }
        assert_eq!(socket.node_routes().unwrap(), NodeRoutes::default());
    });
}

#[test]
fn a_route_of_somebody_else_stays() {
    in_netns(|socket| {
        let (_, eth) = linked_pair(socket);
        for own in ["192.0.2.1/24", "2001:db8::1/64"] {
            socket.add_address(eth, net(own)).unwrap();
        }
        let ip = |words: &str| {
            let status = std::process::Command::new("ip").args(words.split(' ')).status();
            assert!(status.unwrap().success(), "{words}");
        };
        ip("route add 10.2.0.0/24 via 192.0.2.9 proto static");
        ip("-6 route add fd02::/64 via 2001:db8::9 proto static");
        for (prefix, gateway) in [("10.2.0.0/24", "192.0.2.2"), ("fd02::/64", "2001:db8::2")] {
            let taken =
                socket.put_node_route(net(prefix), direct(gateway, eth), false).unwrap_err();
            assert!(taken.is_taken(), "{taken}");
            assert!(taken.to_string().contains(&format!("{prefix} via {gateway}")), "{taken}");
            assert!(!socket.delete_node_route(net(prefix)).unwrap(), "it is not ours");
        }
        assert_eq!(socket.node_routes().unwrap(), NodeRoutes::default());
    });
}

#[test]
fn a_route_of_ours_that_leads_otherwise_is_odd() {
    in_netns(|socket| {
        let (_, eth) = linked_pair(socket);
        socket.add_address(eth, net("192.0.2.1/24")).unwrap();
        for words in ["blackhole 10.2.0.0/24", "10.3.0.0/24 dev eth0"] {
            let words = format!("route add {words} proto 155");
            let status = std::process::Command::new("ip").args(words.split(' ')).status();
            assert!(status.unwrap().success(), "{words}");
        }
        let odd = ["10.2.0.0/24", "10.3.0.0/24"].map(net).into();
        assert_eq!(socket.node_routes().unwrap(), NodeRoutes { hops: Default::default(), odd });
        socket.put_node_route(net("10.2.0.0/24"), direct("192.0.2.2", eth), true).unwrap();
        assert!(socket.delete_node_route(net("10.3.0.0/24")).unwrap());
        assert_eq!(socket.node_routes().unwrap().hops.len(), 1);
    });
}
