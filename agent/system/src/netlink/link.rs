//! Interfaces: to list and find them, to change their state, name, Ethernet address and MTU, to
//! move and to remove them.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, BorrowedFd},
};

use netlink_packet_core::NlasIterator;
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage},
};
use volvox_actors::{model::Mac, ports::Link};

use super::{
    NetlinkError, Socket,
    message::{array, text},
    socket::Call,
};

impl Socket {
    /// Every interface with its addresses, by number.
    pub fn links(&mut self) -> Result<BTreeMap<u32, Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(without_statistics());
        let call = Call::new("list", "interfaces");
        let found = self.dump(&call, &RouteNetlinkMessage::GetLink(request), parse)?;
        let mut links: BTreeMap<u32, Link> =
            found.into_iter().map(|link| (link.ifindex, link)).collect();
        for (ifindex, address) in self.addresses()? {
            if let Some(link) = links.get_mut(&ifindex) {
                link.addresses.push(address);
            }
        }
        Ok(links)
    }

    /// The same, and to which of them default routes lead.
    pub fn links_and_ways_out(&mut self) -> Result<BTreeMap<u32, Link>, NetlinkError> {
        let mut links = self.links()?;
        for route in self.default_routes()? {
            if let Some(link) = links.get_mut(&route.ifindex) {
                link.default_route = true;
            }
        }
        Ok(links)
    }

    /// The interface of that name, without its addresses.
    pub fn link_by_name(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.link(request, name.to_owned())
    }

    /// The interface of that number, without its addresses.
    pub fn link_by_index(&mut self, ifindex: u32) -> Result<Option<Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        self.link(request, format!("interface {ifindex}"))
    }

    /// Brings it up.
    pub fn set_link_up(&mut self, ifindex: u32) -> Result<(), NetlinkError> {
        self.set_link("bring up", ifindex, LinkFlags::Up, LinkFlags::Up, None)
    }

    /// Takes it down.
    pub fn set_link_down(&mut self, ifindex: u32) -> Result<(), NetlinkError> {
        self.set_link("take down", ifindex, LinkFlags::empty(), LinkFlags::Up, None)
    }

    /// Gives it another name, at most 15 bytes.
    pub fn rename(&mut self, ifindex: u32, name: &str) -> Result<(), NetlinkError> {
        self.set_attribute("rename", ifindex, LinkAttribute::IfName(name.to_owned()))
    }

    /// Gives it another Ethernet address.
    pub fn set_mac(&mut self, ifindex: u32, mac: Mac) -> Result<(), NetlinkError> {
        self.set_attribute("set the MAC of", ifindex, LinkAttribute::Address(mac.0.to_vec()))
    }

    /// Sets its maximum transmission unit, in bytes.
    pub fn set_mtu(&mut self, ifindex: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.set_attribute("set the MTU of", ifindex, LinkAttribute::Mtu(mtu))
    }

    /// Gives it a text for people, which `ip link` shows as its alias; at most 255 bytes.
    pub fn set_alias(&mut self, ifindex: u32, alias: &str) -> Result<(), NetlinkError> {
        let attribute = LinkAttribute::IfAlias(alias.to_owned());
        self.set_attribute("set the alias of", ifindex, attribute)
    }

    /// The same for the interface of that name. False if there is none.
    pub fn set_alias_of(&mut self, name: &str, alias: &str) -> Result<bool, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        request.attributes.push(LinkAttribute::IfAlias(alias.to_owned()));
        let call = Call::new("set the alias of", name);
        match self.change(&call, RouteNetlinkMessage::SetLink(request), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// That text; `None` if it has none, or is gone.
    pub fn alias(&mut self, ifindex: u32) -> Result<Option<String>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        request.attributes.push(without_statistics());
        let call = Call::new("find", format!("interface {ifindex}"));
        match self.get(&call, RouteNetlinkMessage::GetLink(request), alias) {
            Err(error) if error.is_absent() => Ok(None),
            result => result,
        }
    }

    /// Moves it to another network namespace; its addresses and routes are lost.
    pub fn move_to_netns(
        &mut self,
        ifindex: u32,
        netns: BorrowedFd<'_>,
    ) -> Result<(), NetlinkError> {
        let target = LinkAttribute::NetNsFd(netns.as_raw_fd());
        self.set_attribute("move to another namespace", ifindex, target)
    }

    /// Removes it, and with it its peer. False if it was not there.
    pub fn delete_link(&mut self, ifindex: u32) -> Result<bool, NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        let call = Call::new("delete", format!("interface {ifindex}"));
        match self.change(&call, RouteNetlinkMessage::DelLink(request), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn link(
        &mut self,
        mut request: LinkMessage,
        about: String,
    ) -> Result<Option<Link>, NetlinkError> {
        request.attributes.push(without_statistics());
        let message = RouteNetlinkMessage::GetLink(request);
        match self.get(&Call::new("find", about), message, parse) {
            Err(error) if error.is_absent() => Ok(None),
            result => result,
        }
    }

    fn set_attribute(
        &mut self,
        op: &'static str,
        ifindex: u32,
        attribute: LinkAttribute,
    ) -> Result<(), NetlinkError> {
        self.set_link(op, ifindex, LinkFlags::empty(), LinkFlags::empty(), Some(attribute))
    }

    fn set_link(
        &mut self,
        op: &'static str,
        ifindex: u32,
        flags: LinkFlags,
        mask: LinkFlags,
        attribute: Option<LinkAttribute>,
    ) -> Result<(), NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        request.header.flags = flags;
        request.header.change_mask = mask;
        request.attributes.extend(attribute);
        let call = Call::new(op, format!("interface {ifindex}"));
        let result = self.change(&call, RouteNetlinkMessage::SetLink(request), 0);
        self.with_name(result, ifindex)
    }

    /// Puts the interface's name into an error: the number alone helps nobody.
    pub(super) fn with_name<T>(
        &mut self,
        result: Result<T, NetlinkError>,
        ifindex: u32,
    ) -> Result<T, NetlinkError> {
        let mut error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if let NetlinkError::Refused { about, .. } = &mut error
            && let Ok(Some(link)) = self.link_by_index(ifindex)
        {
            *about = format!("{about} ({})", link.name);
        }
        Err(error)
    }
}

pub(super) fn without_statistics() -> LinkAttribute {
    LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])
}

/// Reads a link message as far as it is desired: there are a thousand on a full node, each of a
/// kilobyte, and a decoder for all of it costs more than the kernel's part.
pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<Link> {
    if kind != libc::RTM_NEWLINK {
        return None;
    }
    // struct ifinfomsg: family, type, index@4, flags@8, change.
    let flags = LinkFlags::from_bits_retain(u32::from_ne_bytes(array(bytes, 8)?));
    let mut link = Link {
        ifindex: u32::from_ne_bytes(array(bytes, 4)?),
        up: flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    for nla in NlasIterator::new(bytes.get(16..)?).map_while(Result::ok) {
        let value = nla.value();
        let number = || array(value, 0).map(u32::from_ne_bytes).unwrap_or_default();
        match nla.kind() {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_ADDRESS => link.mac = value.try_into().map(Mac).unwrap_or_default(),
            libc::IFLA_MTU => link.mtu = number(),
            libc::IFLA_LINK => link.peer_ifindex = number(),
            libc::IFLA_LINK_NETNSID => link.peer_netns = array(value, 0).map(i32::from_ne_bytes),
            libc::IFLA_LINKINFO => link.kind = info_kind(value),
            _ => {}
        }
    }
    Some(link)
}

fn alias(kind: u16, bytes: &[u8]) -> Option<String> {
    let attributes = bytes.get(16..).filter(|_| kind == libc::RTM_NEWLINK)?;
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    all.find(|nla| nla.kind() == libc::IFLA_IFALIAS).map(|nla| text(nla.value()))
}

fn info_kind(attributes: &[u8]) -> Option<String> {
    NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == libc::IFLA_INFO_KIND)
        .map(|nla| text(nla.value()))
}
