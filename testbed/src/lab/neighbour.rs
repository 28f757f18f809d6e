//! Another machine on the node's network.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use anyhow::Result;

use super::{Netns, Pod, ip, netns};

/// Another machine, one hop away from the node. It is there as long as its namespace is.
#[derive(Debug)]
pub struct Neighbour {
    netns: Netns,
}

impl Neighbour {
    /// Its address, by which the node sees it.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    /// Its address, and the node's on the same link.
    pub fn addresses(ipv6: bool) -> [IpAddr; 2] {
        match ipv6 {
            true => ["2001:db8:1::7", "2001:db8:1::1"],
            false => ["198.51.100.7", "198.51.100.1"],
        }
        .map(|text| text.parse().expect("it is an address"))
    }

    /// Where it is.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Connects one to the lab's node, which is its way to everywhere.
    pub fn connect() -> Result<Self> {
        let netns = Netns::create("neighbour")?;
        ip("link add uplink type veth peer name eth0 netns neighbour")?;
        netns::is_up_for_long("uplink")?;
        netns.run(|| netns::is_up_for_long("eth0"))?;
        for words in [
            "addr add 198.51.100.1/24 dev uplink",
            "addr add 2001:db8:1::1/64 dev uplink nodad",
            "link set uplink up",
            "-n neighbour addr add 198.51.100.7/24 dev eth0",
            "-n neighbour addr add 2001:db8:1::7/64 dev eth0 nodad",
            "-n neighbour link set eth0 up",
            "-n neighbour route add default via 198.51.100.1",
            "-n neighbour route add default via 2001:db8:1::1",
        ] {
            ip(words)?;
        }
        Ok(Self { netns })
    }

    /// Whether one of a few datagrams gets through to a pod.
    pub fn reaches(&self, pod: &Pod) -> Result<bool> {
        Ok(arrives(&self.netns, &pod.netns, pod.address(false)?, 5000)?.is_some())
    }

    /// Whether one of a few of a pod's datagrams gets through to that port.
    pub fn hears(&self, pod: &Pod, port: u16) -> Result<bool> {
        Ok(arrives(&pod.netns, &self.netns, Self::ADDRESS.into(), port)?.is_some())
    }

    /// From which address a pod's datagrams come, if one gets through.
    pub fn sees(&self, pod: &Pod, ipv6: bool) -> Result<Option<IpAddr>> {
        arrives(&pod.netns, &self.netns, Self::addresses(ipv6)[0], 5000)
    }
}

/// The sender of a datagram that gets through.
fn arrives(from: &Netns, to: &Netns, address: IpAddr, port: u16) -> Result<Option<IpAddr>> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let receiver = to.run(|| Ok(UdpSocket::bind((any, port))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = from.run(|| Ok(UdpSocket::bind((any, 0))?))?;
    for _ in 0..5 {
        // The kernel refuses what is dropped on the way out.
        let _ = sender.send_to(b"?", (address, port));
    }
    Ok(receiver.recv_from(&mut [0]).ok().map(|(_, from)| from.ip()))
}
