//! Tests: interfaces, addresses, routes and filters of the real kernel, each test in a network
//! namespace of its own.

mod other_nodes;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
};

use rustix::io::Errno;
use volvox_actors::model::Mac;

use super::{DefaultRoute, Direction, NetlinkError, Socket, Veth};
use crate::netns::Netns;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 7));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7));

/// Runs a test in a namespace of its own, which goes with the test.
fn in_netns(test: impl FnOnce(&mut Socket) + Send) {
    Netns::create().unwrap().run(|| test(&mut Socket::open().unwrap())).unwrap();
}

fn pair<'a>(name: &'a str, peer: &'a str) -> Veth<'a> {
    Veth { name, peer, peer_netns: None, mtu: 1400, mac: MAC, peer_mac: PEER_MAC }
}

/// Makes `lxc1` and `eth0` in the namespace, both up; answers their numbers.
fn linked_pair(socket: &mut Socket) -> (u32, u32) {
    socket.create_veth(&pair("lxc1", "eth0")).unwrap();
    let host = socket.link_by_name("lxc1").unwrap().unwrap().ifindex;
    let container = socket.link_by_name("eth0").unwrap().unwrap().ifindex;
    socket.set_link_up(host).unwrap();
    socket.set_link_up(container).unwrap();
    (host, container)
}

#[test]
fn a_veth_pair_has_what_it_was_given() {
    in_netns(|socket| {
        socket.create_veth(&pair("lxc1", "eth0")).unwrap();
        let links = socket.links().unwrap();
        let host = links.values().find(|link| link.name == "lxc1").unwrap();
        let container = &links[&host.peer_ifindex];
        assert_eq!((host.mac, host.mtu, host.up), (MAC, 1400, false));
        assert_eq!(host.kind.as_deref(), Some("veth"));
        assert_eq!((container.name.as_str(), container.mac), ("eth0", PEER_MAC));
        assert_eq!(container.peer_ifindex, host.ifindex);
        assert_eq!(links.values().find(|link| link.name == "lo").unwrap().peer_ifindex, 0);
    });
}

#[test]
fn a_veth_peer_is_born_in_its_namespace() {
    let container = Netns::create().unwrap();
    in_netns(|socket| {
        let veth = Veth { peer_netns: Some(container.as_fd()), ..pair("lxc1", "eth0") };
        socket.create_veth(&veth).unwrap();
        assert_eq!(socket.link_by_name("eth0").unwrap(), None);
        let host = socket.link_by_name("lxc1").unwrap().unwrap();
        let peer = container
            .run(|| Socket::open().unwrap().link_by_name("eth0").unwrap().unwrap())
            .unwrap();
        assert_eq!(peer.mac, PEER_MAC);
        assert_eq!(peer.ifindex, host.peer_ifindex);
        assert!(socket.delete_link(host.ifindex).unwrap());
        assert!(!socket.delete_link(host.ifindex).unwrap(), "a second delete finds nothing");
        let left = container.run(|| Socket::open().unwrap().link_by_name("eth0").unwrap()).unwrap();
        assert_eq!(left, None);
    });
}

#[test]
fn an_interface_changes_state_name_address_and_namespace() {
    let elsewhere = Netns::create().unwrap();
    in_netns(|socket| {
        let (host, container) = linked_pair(socket);
        assert!(socket.link_by_index(host).unwrap().unwrap().up);
        socket.set_link_down(host).unwrap();
        socket.rename(host, "lxc2").unwrap();
        socket.set_mac(host, PEER_MAC).unwrap();
        socket.set_mtu(host, 9000).unwrap();
        let link = socket.link_by_index(host).unwrap().unwrap();
        assert_eq!(
            (link.name.as_str(), link.mac, link.mtu, link.up),
            ("lxc2", PEER_MAC, 9000, false)
        );
        socket.move_to_netns(container, elsewhere.as_fd()).unwrap();
        assert_eq!(socket.link_by_name("eth0").unwrap(), None);
    });
}

#[test]
fn addresses_are_joined_to_their_interfaces() {
    in_netns(|socket| {
        let (host, _) = linked_pair(socket);
        for net in ["10.9.0.1/32", "fd00::1/128"] {
            socket.add_address(host, net.parse().unwrap()).unwrap();
            socket.add_address(host, net.parse().unwrap()).unwrap();
        }
        let addresses = &socket.links().unwrap()[&host].addresses;
        for net in ["10.9.0.1/32", "fd00::1/128"] {
            let count = addresses.iter().filter(|found| **found == net.parse().unwrap()).count();
            assert_eq!(count, 1, "{net} in {addresses:?}");
        }
    });
}

#[test]
fn routes_are_put_moved_listed_and_removed_by_their_owner() {
    in_netns(|socket| {
        let (one, two) = linked_pair(socket);
        socket.add_address(one, "192.0.2.1/24".parse().unwrap()).unwrap();
        for address in [V4, V6] {
            socket.put_route(address, one).unwrap();
            socket.put_route(address, two).unwrap();
        }
        let routes = socket.routes().unwrap();
        assert_eq!(routes.into_iter().collect::<Vec<_>>(), [(V4, two), (V6, two)]);
        for address in [V4, V6] {
            assert!(!socket.delete_route(address, one).unwrap(), "it leads elsewhere");
            assert!(socket.delete_route(address, two).unwrap());
        }
        assert!(socket.routes().unwrap().is_empty());
    });
}

#[test]
fn a_fresh_namespace_has_no_routes() {
    in_netns(|socket| assert!(socket.routes().unwrap().is_empty()));
}

#[test]
fn a_default_route_leads_through_the_router() {
    in_netns(|socket| {
        let (_, container) = linked_pair(socket);
        for (own, router) in [("10.9.0.7/32", V4), ("fd00::8/128", V6)] {
            let early = socket.add_default_via(router, container).unwrap_err();
            assert!(
                matches!(early.errno(), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)),
                "{early}"
            );
            socket.add_address(container, own.parse().unwrap()).unwrap();
            socket.put_route(router, container).unwrap();
            socket.add_default_via(router, container).unwrap();
        }
        let v4 = std::fs::read_to_string("/proc/thread-self/net/route").unwrap();
        assert!(v4.contains("eth0\t00000000\t0700090A"), "{v4}");
        let v6 = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap();
        assert!(v6.contains("fd000000000000000000000000000007 00000400"), "{v6}");
    });
}

#[test]
fn default_routes_come_by_metric_and_with_their_sources() {
    in_netns(|socket| {
        let (lxc, eth) = linked_pair(socket);
        let ip = |words: &str| {
            let status = std::process::Command::new("ip").args(words.split(' ')).status();
            assert!(status.unwrap().success(), "ip {words}");
        };
        for net in ["192.0.2.1/24", "192.0.2.2/24"] {
            socket.add_address(eth, net.parse().unwrap()).unwrap();
        }
        ip("route add default dev lxc1 metric 300");
        ip("route add default via 192.0.2.9 dev eth0 metric 100 src 192.0.2.2");
        ip("route add default dev lxc1 table 7 metric 1");
        ip("-6 route add default dev lxc1 metric 200");
        let way = |ifindex, is_ipv4, metric, source: Option<&str>| {
            let source = source.map(|it| it.parse().unwrap());
            DefaultRoute { ifindex, is_ipv4, metric, source }
        };
        let expected = [
            way(eth, true, 100, Some("192.0.2.2")),
            way(lxc, false, 200, None),
            way(lxc, true, 300, None),
        ];
        assert_eq!(socket.default_routes().unwrap(), expected);
    });
}

#[test]
fn ipv6_addresses_that_do_not_last_are_told_from_those_that_do() {
    in_netns(|socket| {
        let (_, eth) = linked_pair(socket);
        socket.add_address(eth, "fd00::1/64".parse().unwrap()).unwrap();
        socket.add_address(eth, "192.0.2.1/24".parse().unwrap()).unwrap();
        socket.add_address(eth, "192.0.2.2/24".parse().unwrap()).unwrap();
        let words = "-6 addr add fd00::2/64 dev eth0 nodad preferred_lft 0";
        let status = std::process::Command::new("ip").args(words.split(' ')).status();
        assert!(status.unwrap().success());
        let passing = socket.passing_addresses().unwrap();
        assert!(passing.contains(&"fd00::2".parse().unwrap()), "{passing:?}");
        assert!(!passing.contains(&"fd00::1".parse().unwrap()), "{passing:?}");
    });
}

#[test]
fn an_interface_without_clsact_has_no_filters() {
    in_netns(|socket| {
        let (host, _) = linked_pair(socket);
        assert_eq!(socket.filter_show(host, Direction::Ingress).unwrap(), []);
        assert!(!socket.filter_del(host, Direction::Egress, "cil_to_container").unwrap());
        socket.clsact_add(host).unwrap();
        socket.clsact_add(host).unwrap();
        assert_eq!(socket.filter_show(host, Direction::Ingress).unwrap(), []);
        assert!(socket.clsact_del_unused(host).unwrap());
        assert!(!socket.clsact_del_unused(host).unwrap());
    });
}

#[test]
fn an_error_names_the_interface_the_reason_and_the_remedy() {
    in_netns(|socket| {
        let (host, _) = linked_pair(socket);
        let taken = socket.create_veth(&pair("lxc1", "x")).unwrap_err();
        assert!(taken.is_taken());
        assert!(taken.to_string().contains("lxc1 and x"), "{taken}");
        assert!(taken.to_string().contains("remove or rename"), "{taken}");

        let absent = socket.set_link_up(4711).unwrap_err();
        assert!(absent.is_absent());
        assert!(absent.to_string().contains("interface 4711"), "{absent}");

        let long = socket.set_mtu(host, u32::MAX).unwrap_err();
        assert!(long.to_string().contains("(lxc1)"), "{long}");
        assert!(
            matches!(&long, NetlinkError::Refused { words, .. } if !words.is_empty()),
            "{long}"
        );
    });
}

#[test]
fn a_thousand_interfaces_are_read_in_one_dump() {
    in_netns(|socket| {
        for number in 0..500 {
            let (name, peer) = (format!("lxc{number}"), format!("p{number}"));
            socket.create_veth(&pair(&name, &peer)).unwrap();
        }
        let links = socket.links().unwrap();
        assert_eq!(
            links.values().filter(|link| link.kind.as_deref() == Some("veth")).count(),
            1000
        );
    });
}
