//! Our routes to local endpoints, each a single address, and the default routes of a namespace.
//! Routes to other nodes are in `node_route`.

use std::{collections::BTreeMap, net::IpAddr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
        RouteType,
    },
};

use super::{
    NetlinkError, Socket,
    address::family,
    socket::{Call, decode},
};

/// Origin number that marks the routes of ours, as `ip route` shows it: `proto 155`.
pub const ROUTE_PROTOCOL: u8 = 155;

/// One way of a default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Number of the interface that it leads to.
    pub ifindex: u32,
    /// Whether it is of IPv4.
    pub is_ipv4: bool,
    /// The lower, the more preferred.
    pub metric: u32,
    /// The address by which the node sends there, where the route says it.
    pub source: Option<IpAddr>,
}

impl Socket {
    /// Routes an address to an interface, in place of another route of ours to it.
    pub fn put_route(&mut self, address: IpAddr, ifindex: u32) -> Result<(), NetlinkError> {
        let request = host_route(address, ifindex);
        self.put("route", address, ifindex, request)
    }

    /// Routes everything of the router's address family through it; the router itself is reached
    /// by [`put_route`](Self::put_route).
    pub fn add_default_via(&mut self, router: IpAddr, ifindex: u32) -> Result<(), NetlinkError> {
        self.put("route everything via", router, ifindex, via(router, ifindex))
    }

    /// Removes our route from an address to an interface. False if there was none.
    pub fn delete_route(&mut self, address: IpAddr, ifindex: u32) -> Result<bool, NetlinkError> {
        let call = Call::new("unroute", format!("{address} from interface {ifindex}"));
        let message = RouteNetlinkMessage::DelRoute(host_route(address, ifindex));
        match self.change(&call, message, 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => self.with_name(Err(error), ifindex),
        }
    }

    /// Our routes to single addresses, and the interface each leads to.
    pub fn routes(&mut self) -> Result<BTreeMap<IpAddr, u32>, NetlinkError> {
        let mut routes = BTreeMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.header.table = RouteHeader::RT_TABLE_MAIN;
            request.header.protocol = RouteProtocol::Other(ROUTE_PROTOCOL);
            let call = Call::new("list", "routes");
            match self.dump(&call, &RouteNetlinkMessage::GetRoute(request), parse) {
                Ok(found) => routes.extend(found),
                // The kernel makes a table with its first route.
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(routes)
    }

    /// Default routes, those of a lower metric first.
    pub fn default_routes(&mut self) -> Result<Vec<DefaultRoute>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.header.table = RouteHeader::RT_TABLE_MAIN;
            let call = Call::new("list", "default routes");
            match self.dump(&call, &RouteNetlinkMessage::GetRoute(request), default_route) {
                Ok(found) => routes.extend(found.into_iter().flatten()),
                // The kernel makes a table with its first route.
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(error),
            }
        }
        routes.sort_by_key(|route| route.metric);
        Ok(routes)
    }

    fn put(
        &mut self,
        op: &'static str,
        address: IpAddr,
        ifindex: u32,
        request: RouteMessage,
    ) -> Result<(), NetlinkError> {
        let call = Call::new(op, format!("{address} to interface {ifindex}"));
        let message = RouteNetlinkMessage::NewRoute(request);
        let result = self.change(&call, message, NLM_F_CREATE | NLM_F_REPLACE);
        self.with_name(result, ifindex)
    }
}

fn route(of_family: IpAddr, ifindex: u32) -> RouteMessage {
    let mut request = RouteMessage::default();
    request.header.address_family = family(of_family);
    request.header.table = RouteHeader::RT_TABLE_MAIN;
    request.header.protocol = RouteProtocol::Other(ROUTE_PROTOCOL);
    request.header.scope = RouteScope::Link;
    request.header.kind = RouteType::Unicast;
    request.attributes.push(RouteAttribute::Oif(ifindex));
    request
}

/// Everything of a family through a router.
pub(super) fn via(router: IpAddr, ifindex: u32) -> RouteMessage {
    let mut request = route(router, ifindex);
    request.header.scope = RouteScope::Universe;
    request.attributes.push(RouteAttribute::Gateway(router.into()));
    request
}

pub(super) fn host_route(address: IpAddr, ifindex: u32) -> RouteMessage {
    let mut request = route(address, ifindex);
    request.header.destination_prefix_length = full_length(address);
    request.attributes.push(RouteAttribute::Destination(address.into()));
    request
}

pub(super) fn full_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Where a default route leads to, by one way or several.
fn default_route(kind: u16, bytes: &[u8]) -> Option<Vec<DefaultRoute>> {
    let RouteNetlinkMessage::NewRoute(message) = decode(kind, bytes)? else { return None };
    let header = &message.header;
    let is_way_out = header.destination_prefix_length == 0
        && header.table == RouteHeader::RT_TABLE_MAIN
        && header.kind == RouteType::Unicast;
    if !is_way_out {
        return None;
    }
    let is_ipv4 = header.address_family == AddressFamily::Inet;
    let mut said = DefaultRoute { ifindex: 0, is_ipv4, metric: 0, source: None };
    let mut ways = Vec::new();
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Oif(ifindex) => ways.push(ifindex),
            RouteAttribute::MultiPath(hops) => {
                ways.extend(hops.iter().map(|hop| hop.interface_index));
            }
            RouteAttribute::Priority(metric) => said.metric = metric,
            RouteAttribute::PrefSource(RouteAddress::Inet(ip)) => said.source = Some(ip.into()),
            RouteAttribute::PrefSource(RouteAddress::Inet6(ip)) => said.source = Some(ip.into()),
            _ => {}
        }
    }
    Some(ways.into_iter().map(|ifindex| DefaultRoute { ifindex, ..said }).collect())
}

pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<(IpAddr, u32)> {
    let RouteNetlinkMessage::NewRoute(message) = decode(kind, bytes)? else { return None };
    // A kernel that filters no dump sends the routes of others too.
    if message.header.protocol != RouteProtocol::Other(ROUTE_PROTOCOL)
        || message.header.table != RouteHeader::RT_TABLE_MAIN
    {
        return None;
    }
    let mut address = None;
    let mut ifindex = None;
    // Routes to other nodes are another thing.
    let leads_on = |attribute: &RouteAttribute| {
        matches!(attribute, RouteAttribute::Gateway(_) | RouteAttribute::EncapType(_))
    };
    if message.attributes.iter().any(leads_on) {
        return None;
    }
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => address = Some(IpAddr::V4(ip)),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => address = Some(IpAddr::V6(ip)),
            RouteAttribute::Oif(index) => ifindex = Some(index),
            _ => {}
        }
    }
    let address = address?;
    (message.header.destination_prefix_length == full_length(address))
        .then_some((address, ifindex?))
}
