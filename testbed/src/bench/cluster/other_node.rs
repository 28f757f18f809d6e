//! A namespace that is another node to this one: packets come from there by the host's stack.

use std::{
    net::{IpAddr, Ipv4Addr},
    os::fd::AsFd,
};

use anyhow::{Context, Result};
use volvox_actors::model::Mac;
use volvox_system::netlink::{Socket, Veth};

use crate::lab::Netns;

/// Where it reaches this node.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);

/// Another node.
pub(super) struct OtherNode {
    pub(super) netns: Netns,
    /// Of both sides.
    here: u32,
    there: u32,
}

impl OtherNode {
    pub(super) fn connect() -> Result<Self> {
        let netns = Netns::create("other-node")?;
        let mut host = Socket::open()?;
        host.create_veth(&Veth {
            name: "other-node",
            peer: "eth0",
            peer_netns: Some(netns.as_fd()),
            mtu: 1500,
            mac: Mac([0x0e, 0, 0, 0, 0, 1]),
            peer_mac: Mac([0x0a, 0, 0, 0, 0, 1]),
        })?;
        let here = host.link_by_name("other-node")?.context("the interface has gone")?.ifindex;
        host.add_address(here, IpAddr::from(ROUTER).into())?;
        host.set_link_up(here)?;
        let there = netns.run(|| {
            let mut socket = Socket::open()?;
            let there = socket.link_by_name("eth0")?.context("no interface there")?.ifindex;
            socket.set_link_up(there)?;
            socket.put_route(ROUTER.into(), there)?;
            socket.add_default_via(ROUTER.into(), there)?;
            Ok(there)
        })?;
        Ok(Self { netns, here, there })
    }

    /// Gives it one more address.
    pub(super) fn add(&self, address: Ipv4Addr) -> Result<()> {
        let address = IpAddr::from(address);
        Socket::open()?.put_route(address, self.here)?;
        self.netns.run(|| Ok(Socket::open()?.add_address(self.there, address.into())?))
    }
}
