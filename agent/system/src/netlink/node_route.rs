//! Our routes to the prefixes of other nodes, direct or by tunnel. Routes to local endpoints are
//! kept apart from them, in `route`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NlasIterator};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{
        RouteAttribute, RouteHeader, RouteIp6Tunnel, RouteIpTunnel, RouteLwEnCapType,
        RouteLwTunnelEncap, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
    },
};
use volvox_actors::{model::IdentityId, ports::Hop};

use super::{NetlinkError, ROUTE_PROTOCOL, Socket, address::family, message::array, socket::Call};

/// Hops that a packet in a tunnel may take.
const HOPS: u8 = 64;
/// `LWTUNNEL_ENCAP_IP` and `LWTUNNEL_ENCAP_IP6`.
const BY_IPV4: u16 = 2;
const BY_IPV6: u16 = 4;
/// `LWTUNNEL_IP_ID` and `LWTUNNEL_IP_DST`, the same with IPv6.
const TUNNEL_ID: u16 = 1;
const TUNNEL_DESTINATION: u16 = 2;

/// Our routes to prefixes of other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRoutes {
    /// By which hop each prefix is reached.
    pub hops: BTreeMap<IpNet, Hop>,
    /// Prefixes that are reached in another way.
    pub odd: BTreeSet<IpNet>,
}

impl Socket {
    /// Our routes to prefixes of other nodes: all that lead through another node.
    pub fn node_routes(&mut self) -> Result<NodeRoutes, NetlinkError> {
        let mut routes = NodeRoutes::default();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.header.table = RouteHeader::RT_TABLE_MAIN;
            request.header.protocol = RouteProtocol::Other(ROUTE_PROTOCOL);
            let call = Call::new("list", "routes to other nodes");
            match self.dump(&call, &RouteNetlinkMessage::GetRoute(request), parse) {
                Ok(found) => found.into_iter().for_each(|(prefix, hop)| match hop {
                    Some(hop) => drop(routes.hops.insert(prefix, hop)),
                    None => drop(routes.odd.insert(prefix)),
                }),
                // The kernel makes a table with its first route.
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(routes)
    }

    /// Routes a prefix, in place of the one that is there if that is to be replaced; if not, one
    /// that is there stays, and this fails.
    pub fn put_node_route(
        &mut self,
        prefix: IpNet,
        hop: Hop,
        replaces: bool,
    ) -> Result<(), NetlinkError> {
        let mut request = to(prefix);
        request.header.kind = RouteType::Unicast;
        let attributes = &mut request.attributes;
        let (scope, ifindex) = match hop {
            Hop::Direct { gateway, ifindex } => {
                attributes.push(RouteAttribute::Gateway(gateway.into()));
                (RouteScope::Universe, ifindex)
            }
            Hop::Tunnel { node, ifindex, source, mtu } => {
                attributes.extend(encapsulation(node));
                attributes.extend(source.map(|it| RouteAttribute::PrefSource(it.into())));
                attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
                (RouteScope::Link, ifindex)
            }
        };
        attributes.push(RouteAttribute::Oif(ifindex));
        request.header.scope = scope;
        let call = Call::new("route", format!("{prefix} {}", words(hop)));
        let flag = if replaces { NLM_F_REPLACE } else { NLM_F_EXCL };
        let result =
            self.change(&call, RouteNetlinkMessage::NewRoute(request), NLM_F_CREATE | flag);
        self.with_name(result, ifindex)
    }

    /// Removes our route to a prefix. False if there was none.
    pub fn delete_node_route(&mut self, prefix: IpNet) -> Result<bool, NetlinkError> {
        let mut request = to(prefix);
        // Of any scope.
        request.header.scope = RouteScope::NoWhere;
        let call = Call::new("unroute", prefix.to_string());
        match self.change(&call, RouteNetlinkMessage::DelRoute(request), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn words(hop: Hop) -> String {
    match hop {
        Hop::Direct { gateway, .. } => format!("via {gateway}"),
        Hop::Tunnel { node, .. } => format!("in a tunnel to {node}"),
    }
}

fn to(prefix: IpNet) -> RouteMessage {
    let mut request = RouteMessage::default();
    request.header.address_family = family(prefix.addr());
    request.header.table = RouteHeader::RT_TABLE_MAIN;
    request.header.protocol = RouteProtocol::Other(ROUTE_PROTOCOL);
    request.header.destination_prefix_length = prefix.prefix_len();
    request.attributes.push(RouteAttribute::Destination(prefix.network().into()));
    request
}

/// What the node itself sends carries the identity of another node.
fn encapsulation(node: IpAddr) -> [RouteAttribute; 2] {
    let id = u64::from(IdentityId::REMOTE_NODE.0);
    let (kind, around) = match node {
        IpAddr::V4(node) => {
            let of =
                [RouteIpTunnel::Id(id), RouteIpTunnel::Destination(node), RouteIpTunnel::Ttl(HOPS)];
            (RouteLwEnCapType::Ip, of.map(RouteLwTunnelEncap::Ip).to_vec())
        }
        IpAddr::V6(node) => {
            let of = [
                RouteIp6Tunnel::Id(id),
                RouteIp6Tunnel::Destination(node),
                RouteIp6Tunnel::Hoplimit(HOPS),
            ];
            (RouteLwEnCapType::Ip6, of.map(RouteLwTunnelEncap::Ip6).to_vec())
        }
    };
    [RouteAttribute::EncapType(kind), RouteAttribute::Encap(around)]
}

/// What a message says of a route, as far as it is compared.
#[derive(Default)]
struct Said {
    destination: Option<IpAddr>,
    gateway: Option<IpAddr>,
    ifindex: u32,
    source: Option<IpAddr>,
    mtu: u32,
    by: u16,
    id: u64,
    node: Option<IpAddr>,
    nested: bool,
}

/// A route of ours that leads through another node, or in a way that none of ours does; routes to
/// endpoints are another thing.
pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<(IpNet, Option<Hop>)> {
    if kind != libc::RTM_NEWROUTE {
        return None;
    }
    // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
    let [of, length, _, _, table, protocol, _, route_kind] = array(bytes, 0)?;
    // A kernel that filters no dump sends the routes of others too.
    if protocol != ROUTE_PROTOCOL || table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let said = Said::of(bytes.get(12..)?);
    let any = match i32::from(of) {
        libc::AF_INET => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    let prefix = IpNet::new(said.destination.unwrap_or(any), length).ok()?;
    let is_endpoint = prefix.prefix_len() == prefix.max_prefix_len()
        && said.gateway.is_none()
        && said.by == 0
        && !said.nested;
    let is_unicast = route_kind == libc::RTN_UNICAST;
    (!is_endpoint).then(|| (prefix, said.hop().filter(|_| is_unicast)))
}

impl Said {
    fn of(attributes: &[u8]) -> Self {
        let mut said = Self::default();
        for nla in NlasIterator::new(attributes).map_while(Result::ok) {
            let value = nla.value();
            match nla.kind() {
                libc::RTA_DST => said.destination = address(value),
                libc::RTA_GATEWAY => said.gateway = address(value),
                libc::RTA_OIF => said.ifindex = number(value),
                libc::RTA_PREFSRC => said.source = address(value),
                libc::RTA_METRICS => {
                    said.mtu = member(value, MTU, |it| Some(number(it))).unwrap_or_default();
                }
                libc::RTA_ENCAP_TYPE => {
                    said.by = array(value, 0).map(u16::from_ne_bytes).unwrap_or_default();
                }
                libc::RTA_ENCAP => {
                    let id = member(value, TUNNEL_ID, |it| array(it, 0));
                    said.id = id.map(u64::from_be_bytes).unwrap_or_default();
                    said.node = member(value, TUNNEL_DESTINATION, address);
                }
                libc::RTA_MULTIPATH | libc::RTA_VIA => said.nested = true,
                _ => {}
            }
        }
        said
    }

    fn hop(&self) -> Option<Hop> {
        let &Self { ifindex, source, mtu, .. } = self;
        match (self.by, self.gateway, self.node) {
            _ if self.nested => None,
            (0, Some(gateway), _) => Some(Hop::Direct { gateway, ifindex }),
            (BY_IPV4 | BY_IPV6, None, Some(node))
                if self.id == u64::from(IdentityId::REMOTE_NODE.0) =>
            {
                Some(Hop::Tunnel { node, ifindex, source, mtu })
            }
            _ => None,
        }
    }
}

/// `RTAX_MTU`.
const MTU: u16 = 2;

/// What the attribute of that kind within another one says.
fn member<T>(attributes: &[u8], kind: u16, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    all.find(|nla| nla.kind() == kind).and_then(|nla| read(nla.value()))
}

fn number(value: &[u8]) -> u32 {
    array(value, 0).map(u32::from_ne_bytes).unwrap_or_default()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => array::<4>(value, 0).map(IpAddr::from),
        16 => array::<16>(value, 0).map(IpAddr::from),
        _ => None,
    }
}
