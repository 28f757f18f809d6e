//! Addresses of interfaces: to list them and to assign them.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
};

use super::{
    NetlinkError, Socket,
    socket::{Call, decode},
};

impl Socket {
    /// Every address with the number of its interface.
    pub fn addresses(&mut self) -> Result<Vec<(u32, IpNet)>, NetlinkError> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.dump(&Call::new("list", "addresses"), &request, parse)
    }

    /// IPv6 addresses that do not last or may not be used (yet): temporary, deprecated, tentative
    /// ones, and duplicates of others'.
    pub fn passing_addresses(&mut self) -> Result<BTreeSet<Ipv6Addr>, NetlinkError> {
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet6;
        let request = RouteNetlinkMessage::GetAddress(request);
        let found = self.dump(&Call::new("list", "IPv6 addresses"), &request, parse_passing)?;
        Ok(found.into_iter().collect())
    }

    /// Assigns an address; one that is there stays. An IPv6 address is usable at once: duplicate
    /// address detection is off, because the agent gives no address twice.
    pub fn add_address(&mut self, ifindex: u32, address: IpNet) -> Result<(), NetlinkError> {
        let mut request = AddressMessage::default();
        request.header.family = family(address.addr());
        request.header.prefix_len = address.prefix_len();
        request.header.index = ifindex;
        request.attributes.push(AddressAttribute::Local(address.addr()));
        request.attributes.push(AddressAttribute::Address(address.addr()));
        if address.addr().is_ipv6() {
            request.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let call = Call::new("assign", format!("{address} to interface {ifindex}"));
        let message = RouteNetlinkMessage::NewAddress(request);
        let result = self.change(&call, message, NLM_F_CREATE | NLM_F_REPLACE);
        self.with_name(result, ifindex)
    }
}

/// The address family of an address.
pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

pub(super) fn parse_passing(kind: u16, bytes: &[u8]) -> Option<Ipv6Addr> {
    // Of IPv6, `Secondary` means temporary.
    const PASSING: AddressHeaderFlags = AddressHeaderFlags::Secondary
        .union(AddressHeaderFlags::Deprecated)
        .union(AddressHeaderFlags::Tentative)
        .union(AddressHeaderFlags::Dadfailed);
    let RouteNetlinkMessage::NewAddress(message) = decode(kind, bytes)? else { return None };
    let passes = message.header.flags.intersects(PASSING);
    match parse(kind, bytes)?.1.addr() {
        IpAddr::V6(address) if passes => Some(address),
        _ => None,
    }
}

pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<(u32, IpNet)> {
    let RouteNetlinkMessage::NewAddress(message) = decode(kind, bytes)? else { return None };
    let mut local = None;
    let mut address = None;
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(ip),
            AddressAttribute::Address(ip) => address = Some(ip),
            _ => {}
        }
    }
    // On a point-to-point interface the other one is the peer's.
    let net = IpNet::new(local.or(address)?, message.header.prefix_len).ok()?;
    Some((message.header.index, net))
}
