//! The number that the kernel has for another network namespace here, as interfaces show it of their peer.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::{
    RouteNetlinkMessage,
    nsid::{NsidAttribute, NsidMessage},
};

use super::{
    NetlinkError, Socket,
    socket::{Call, decode},
};

impl Socket {
    /// That number; `None` if the kernel never needed one: then no interface here has its peer there.
    pub fn netns_id(&mut self, netns: BorrowedFd<'_>) -> Result<Option<i32>, NetlinkError> {
        let Ok(fd) = u32::try_from(netns.as_raw_fd()) else { return Ok(None) };
        let mut request = NsidMessage::default();
        request.attributes.push(NsidAttribute::Fd(fd));
        let call = Call::new("ask for the number of", "a network namespace");
        let found = self.get(&call, RouteNetlinkMessage::GetNsId(request), number)?;
        Ok(found.filter(|number| *number >= 0))
    }
}

fn number(kind: u16, bytes: &[u8]) -> Option<i32> {
    let Some(RouteNetlinkMessage::NewNsId(message)) = decode(kind, bytes) else { return None };
    message.attributes.iter().find_map(|attribute| match attribute {
        NsidAttribute::Id(number) => Some(*number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use volvox_actors::model::Mac;

    use crate::{
        netlink::{Socket, Veth},
        netns::Netns,
    };

    #[test]
    fn a_peer_elsewhere_is_known_by_its_namespace() {
        let (pod, other) = (Netns::create().unwrap(), Netns::create().unwrap());
        let test = || {
            let mut socket = Socket::open().unwrap();
            assert_eq!(socket.netns_id(pod.as_fd()).unwrap(), None);
            let mut make = |name, peer, peer_netns| {
                let (mac, peer_mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
                let veth = Veth { name, peer, peer_netns, mtu: 1500, mac, peer_mac };
                socket.create_veth(&veth).unwrap();
                socket.link_by_name(name).unwrap().unwrap().peer_netns
            };
            let of_pod = make("a", "eth0", Some(pod.as_fd()));
            let of_other = make("b", "eth0", Some(other.as_fd()));
            assert_eq!(make("c", "d", None), None);
            assert!(of_pod.is_some() && of_pod != of_other);
            assert_eq!(socket.netns_id(pod.as_fd()).unwrap(), of_pod);
            assert_eq!(socket.netns_id(other.as_fd()).unwrap(), of_other);
        };
        Netns::create().unwrap().run(test).unwrap();
    }
}
