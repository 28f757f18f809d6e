//! Routes for what is sent from one address, beside those for everything else.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol},
    rule::{RuleAction, RuleAttribute, RuleMessage},
};

use super::{
    NetlinkError, ROUTE_PROTOCOL, Socket,
    route::{full_length, host_route, via},
    socket::Call,
};

impl Socket {
    /// Routes what is sent from `source` through the router at an interface, by a table of its own:
    /// nobody else's route is touched.
    pub fn route_from(
        &mut self,
        source: IpAddr,
        router: IpAddr,
        (ifindex, table): (u32, u32),
    ) -> Result<(), NetlinkError> {
        for route in [host_route(router, ifindex), via(router, ifindex)] {
            let message = RouteNetlinkMessage::NewRoute(in_table(route, table));
            let call = Call::new("route via", format!("{router} from {source}"));
            self.change(&call, message, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let call = Call::new("make the routing rule of", source.to_string());
        let rule = RouteNetlinkMessage::NewRule(rule(source, table));
        match self.change(&call, rule, NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.is_taken() => Ok(()),
            made => made,
        }
    }
}

fn in_table(mut route: RouteMessage, table: u32) -> RouteMessage {
    route.header.table = RouteHeader::RT_TABLE_UNSPEC;
    route.attributes.push(RouteAttribute::Table(table));
    route
}

fn rule(source: IpAddr, table: u32) -> RuleMessage {
    let mut rule = RuleMessage::default();
    rule.header.family = if source.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    rule.header.src_len = full_length(source);
    rule.header.action = RuleAction::ToTable;
    rule.attributes.extend([
        RuleAttribute::Source(source),
        RuleAttribute::Table(table),
        RuleAttribute::Protocol(RouteProtocol::Other(ROUTE_PROTOCOL)),
    ]);
    rule
}
