//! Makes the veth pair of a pod, in one request, with each side in its namespace.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REQUEST};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage},
};
use volvox_actors::{model::Mac, ports::Link};

use super::{NetlinkError, Socket, link, socket::Call};

/// A pair of virtual Ethernet interfaces to be made, both down.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// Name of the side in the socket's namespace.
    pub name: &'a str,
    /// Name of the other side.
    pub peer: &'a str,
    /// Namespace of the other side; `None` for the socket's.
    pub peer_netns: Option<BorrowedFd<'a>>,
    /// Maximum transmission unit of both, bytes.
    pub mtu: u32,
    /// Ethernet address of this side. It is given, not left to the kernel, because systemd-udevd
    /// replaces an address that the kernel chose, at a moment of its own.
    pub mac: Mac,
    /// Ethernet address of the other side.
    pub peer_mac: Mac,
}

impl Socket {
    /// Makes a veth pair in one step: no half of it is ever visible under another name or in
    /// another namespace than desired. Answers the side in the socket's namespace; `None` if it is
    /// gone already.
    pub fn create_veth(&mut self, veth: &Veth<'_>) -> Result<Option<Link>, NetlinkError> {
        let mut peer = LinkMessage::default();
        peer.attributes = side(veth.peer, veth.mtu, veth.peer_mac);
        if let Some(netns) = veth.peer_netns {
            peer.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        }
        let mut request = LinkMessage::default();
        request.attributes = side(veth.name, veth.mtu, veth.mac);
        request.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let call = Call::new("create the veth pair", format!("{} and {}", veth.name, veth.peer));
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ECHO;
        match self.ask(&call, RouteNetlinkMessage::NewLink(request), flags, link::parse)? {
            Some(made) => Ok(Some(made)),
            // Linux says what it made since 6.2.
            None => self.link_by_name(veth.name),
        }
    }
}

fn side(name: &str, mtu: u32, mac: Mac) -> Vec<LinkAttribute> {
    vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::Address(mac.0.to_vec()),
        // As many as it uses at first in any case. Else the kernel makes one for each processor, gives up all but
        // one, and holds its lock over all interfaces (RTNL) for a grace period meanwhile.
        LinkAttribute::NumTxQueues(1),
        LinkAttribute::NumRxQueues(1),
    ]
}
