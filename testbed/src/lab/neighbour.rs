//! Another machine on the node's network.

use std::{
    net::{Ipv4Addr, UdpSocket},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{Netns, Pod};

/// Another machine, one hop away from the node. It is there as long as its namespace is.
#[derive(Debug)]
pub struct Neighbour {
    netns: Netns,
}

impl Neighbour {
    /// Its address, by which the node sees it.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    /// Connects one to the lab's node, which is its way to everywhere.
    pub fn connect() -> Result<Self> {
        let netns = Netns::create("neighbour")?;
        for words in [
            "link add uplink type veth peer name eth0 netns neighbour",
            "addr add 198.51.100.1/24 dev uplink",
            "link set uplink up",
            "-n neighbour addr add 198.51.100.7/24 dev eth0",
            "-n neighbour link set eth0 up",
            "-n neighbour route add default via 198.51.100.1",
        ] {
            let status = Command::new("ip").args(words.split(' ')).status()?;
            ensure!(status.success(), "ip {words}: {status}");
        }
        Ok(Self { netns })
    }

    /// Whether one of a few datagrams gets through to a pod.
    pub fn reaches(&self, pod: &Pod) -> Result<bool> {
        const PORT: u16 = 5000;
        let any = Ipv4Addr::UNSPECIFIED;
        let receiver = pod.netns.run(|| Ok(UdpSocket::bind((any, PORT))?))?;
        receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
        let sender = self.netns.run(|| Ok(UdpSocket::bind((any, 0))?))?;
        for _ in 0..5 {
            let _ = sender.send_to(b"?", (pod.address(false)?, PORT));
        }
        Ok(receiver.recv(&mut [0]).is_ok())
    }
}
