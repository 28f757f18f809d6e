//! Tests: a packet that a policy denies is told by the ring and counted in the metrics.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use volvox_actors::model::{EndpointId, Mac};
use volvox_bpf_progs::{DropReason, layouts::Record};
use volvox_maps::{Dump, Event, Rings, rows::config_to_raw};
use volvox_system::{
    netlink::{Socket, Veth},
    netns::Netns,
};

use super::{
    hooks::settle,
    policies::flip,
    sandbox::{Sandbox, addresses, config_row, policy},
};
use crate::datapath::hooks::Place;

#[test]
fn a_drop_is_heard_and_counted() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        datapath.set_router(addresses(254), Mac([2, 0, 0, 0, 0, 254])).unwrap();
        let container = Netns::create().unwrap();
        let mut netlink = Socket::open().unwrap();
        let veth = Veth {
            name: "lxc1",
            peer: "eth0",
            peer_netns: Some(std::os::fd::AsFd::as_fd(&container)),
            mtu: 1500,
            mac: Mac([2, 0, 0, 0, 1, 1]),
            peer_mac: Mac([2, 0, 0, 0, 2, 1]),
        };
        netlink.create_veth(&veth).unwrap();
        let ifindex = netlink.link_by_name("lxc1").unwrap().unwrap().ifindex;
        let row = config_row(1, ifindex);
        // A policy in which nothing lets this packet go.
        flip(&datapath, row.policy_slot, &policy([80]));
        datapath.maps.config.put(&ifindex, &config_to_raw(&row)).unwrap();
        let place = Place { endpoint: EndpointId(1), ifindex };
        settle(&datapath, place).unwrap();
        netlink.set_link_up(ifindex).unwrap();

        let mut events = Rings::events(sandbox.root()).unwrap();
        container.run(|| send_one(addresses(1).ipv4.unwrap())).unwrap();
        let mut drops = Vec::new();
        while drops.is_empty() {
            assert!(events.wait(Duration::from_secs(10)).unwrap(), "no record came");
            events.drain(|event| {
                if let Event::Sample { bytes, .. } = event
                    && let Some(Record::Drop(record, packet)) = Record::parse(&bytes)
                    && packet.get(12..14) == Some(&[8, 0])
                {
                    drops.push((record.header.subtype, record.header.source));
                }
            });
        }
        let denied = DropReason::PolicyDenied as u8;
        assert_eq!(drops[0], (denied, 1));
        let metrics = Dump::at(sandbox.root()).metrics().unwrap();
        let counted = metrics.iter().find(|(key, _)| key.reason == denied).unwrap().1;
        assert!(counted.packets >= 1 && counted.bytes >= 51, "{counted:?}");
    });
}

/// Sends a datagram to a neighbour, from inside the container.
fn send_one(from: Ipv4Addr) {
    let mut netlink = Socket::open().unwrap();
    let eth0 = netlink.link_by_name("eth0").unwrap().unwrap().ifindex;
    netlink.add_address(eth0, ipnet::IpNet::new(from.into(), 24).unwrap()).unwrap();
    netlink.set_link_up(eth0).unwrap();
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.send_to(b"what for?", (Ipv4Addr::new(10, 9, 0, 2), 9)).unwrap();
}
