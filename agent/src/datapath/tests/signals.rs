//! Tests: a flow for which the translation finds no port is told by the ring of signals.

use std::{
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsFd,
    time::Duration,
};

use ipnet::IpNet;
use volvox_actors::{
    model::{Addresses, Families, Mac},
    node::conntrack::FullTable,
    ports::{DeviceKind, DeviceRow},
};
use volvox_bpf_progs::layouts::{Ct4Key, CtRow, Nat4Key, Nat4Row, TupleFlags};
use volvox_maps::rows::device_to_raw;
use volvox_system::{
    netlink::{Socket, Veth},
    netns::Netns,
};

use super::sandbox::Sandbox;
use crate::{datapath::Datapath, ports::SignalWatch};

const UDP: u8 = 17;
const POD: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
/// The only port that the node's address has.
const PORT: u16 = 40_000;

/// A device of the node that leads to another machine.
fn device(other: &Netns) -> u32 {
    let mut netlink = Socket::open().unwrap();
    let veth = Veth {
        name: "up0",
        peer: "eth0",
        peer_netns: Some(other.as_fd()),
        mtu: 1500,
        mac: Mac([2, 0, 0, 0, 0, 1]),
        peer_mac: Mac([2, 0, 0, 0, 0, 2]),
    };
    netlink.create_veth(&veth).unwrap();
    other.run(|| give("eth0", FAR)).unwrap();
    give("up0", NODE)
}

fn give(name: &str, address: Ipv4Addr) -> u32 {
    let mut netlink = Socket::open().unwrap();
    let ifindex = netlink.link_by_name(name).unwrap().unwrap().ifindex;
    netlink.add_address(ifindex, IpNet::new(address.into(), 24).unwrap()).unwrap();
    netlink.set_link_up(ifindex).unwrap();
    ifindex
}

/// A pod's flow to the other machine that lives on, and has the port.
fn take_port(datapath: &Datapath) {
    let back = Nat4Key {
        daddr: NODE.octets(),
        saddr: FAR.octets(),
        dport: PORT.into(),
        sport: 53.into(),
        protocol: UDP,
        flags: TupleFlags::IN,
    };
    let row = Nat4Row { address: POD.octets(), port: 1.into(), ..Nat4Row::default() };
    datapath.maps.nat4.put(&back, &row).unwrap();
    let opener = Ct4Key {
        daddr: POD.octets(),
        saddr: FAR.octets(),
        dport: 53.into(),
        sport: 1.into(),
        protocol: UDP,
        flags: TupleFlags::OUT,
    };
    let row = CtRow { lifetime: u32::MAX, ..CtRow::default() };
    datapath.maps.ct4[1].put(&opener, &row).unwrap();
}

#[test]
fn a_flow_without_a_port_is_heard_of() {
    Sandbox::run(|sandbox| {
        let mut config = sandbox.config();
        config.features.nat_ports = (PORT, PORT);
        let datapath = Datapath::open(&config).unwrap();
        let other = Netns::create().unwrap();
        let ifindex = device(&other);
        let addresses = Addresses { ipv4: Some(NODE), ipv6: None };
        let row = DeviceRow { addresses, ..DeviceRow::default() };
        datapath.maps.device.put(&ifindex, &device_to_raw(ifindex, &row)).unwrap();
        datapath.devices(|all| all.attach(ifindex, "up0", DeviceKind::Native)).unwrap();
        take_port(&datapath);
        let mut watch = SignalWatch::start(sandbox.root()).unwrap();
        let socket = UdpSocket::bind((NODE, PORT)).unwrap();
        // Whether a sender hears of a drop is the kernel's affair.
        drop(socket.send_to(b"anybody?", (FAR, 53)));
        let patience = Duration::from_secs(10);
        let reported = actix::System::new()
            .block_on(async { tokio::time::timeout(patience, watch.next()).await });
        let full = (FullTable::Translations, Families { ipv4: true, ipv6: false });
        assert_eq!(reported.expect("a signal comes"), Some(full));
    });
}

#[test]
fn where_nothing_is_pinned_the_error_names_the_rings() {
    Sandbox::run(|sandbox| {
        let error = SignalWatch::start(sandbox.root()).err().unwrap().to_string();
        assert!(error.contains("cilium_signals"), "{error}");
    });
}
