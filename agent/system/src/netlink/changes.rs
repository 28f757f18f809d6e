//! What the kernel says unasked of interfaces, addresses, routes and rules.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use netlink_packet_core::NlasIterator;
use netlink_packet_route::{RouteNetlinkMessage, address::AddressScope};
use volvox_actors::ports::Notices;

use super::{
    NetlinkError, ROUTE_PROTOCOL, Socket,
    link::parse,
    message::{Body, Message, Messages, array},
    socket::{Call, decode},
};

/// What belongs together comes within this time.
const QUIET: Duration = Duration::from_millis(50);
/// A network that never is quiet is looked at nevertheless.
const LONGEST: Duration = Duration::from_millis(300);
/// For ever, nearly: whoever waits is woken by the next change.
const NEVER: Duration = Duration::from_secs(3600);

/// Notices of what changes at the node's interfaces.
pub struct Changes {
    socket: Socket,
    call: Call,
    pods: String,
}

impl Changes {
    /// Listens from now on, in the calling thread's network namespace. Interfaces whose names begin
    /// with `pods` are pods'.
    pub fn listen(pods: &str) -> Result<Self, NetlinkError> {
        let call = Call::new("listen to", "changes of interfaces");
        let mut socket = Socket::open()?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
            libc::RTNLGRP_IPV4_RULE,
            libc::RTNLGRP_IPV6_RULE,
        ] {
            socket.join(&call, group)?;
        }
        Ok(Self { socket, call, pods: pods.to_owned() })
    }

    /// Waits for a change, and until what comes with it has come.
    pub fn wait(&mut self) -> Result<Notices, NetlinkError> {
        let mut notices = Notices::default();
        while notices == Notices::default() {
            self.hear(NEVER, &mut notices)?;
        }
        let first = Instant::now();
        while first.elapsed() < LONGEST && self.hear(QUIET, &mut notices)? {}
        Ok(notices)
    }

    /// Takes the next notices; false if there are none so long.
    fn hear(&mut self, longest: Duration, notices: &mut Notices) -> Result<bool, NetlinkError> {
        match self.socket.hear(&self.call, longest) {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            // There were too many to be kept: what they said is seen by whoever looks.
            Err(NetlinkError::Socket { source, .. })
                if source.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                notices.all = true;
                return Ok(true);
            }
            Err(error) => return Err(error),
        }
        let heard = Messages(self.socket.received()).flatten();
        heard.for_each(|message| note(&message, &self.pods, notices));
        Ok(true)
    }
}

/// Takes a message in, if it may change what somebody relies on.
pub(super) fn note(message: &Message<'_>, pods: &str, notices: &mut Notices) {
    let Body::Object(kind, bytes) = message.body else { return };
    match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => note_link(kind, bytes, pods, notices),
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            let is_local = match decode(kind, bytes) {
                Some(RouteNetlinkMessage::NewAddress(it) | RouteNetlinkMessage::DelAddress(it)) => {
                    it.header.scope == AddressScope::Link
                }
                _ => false,
            };
            notices.node |= !is_local;
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            if let Some(route) = Route::parse(bytes) {
                note_route(&route, kind == libc::RTM_DELROUTE, message.replaces, notices);
            }
        }
        libc::RTM_NEWRULE | libc::RTM_DELRULE => notices.routing = true,
        _ => {}
    }
}

fn note_link(kind: u16, bytes: &[u8], pods: &str, notices: &mut Notices) {
    // A bridge says that one of its ports is gone by the same message.
    if bytes.first() != Some(&0) {
        return;
    }
    let Some(link) = parse(libc::RTM_NEWLINK, bytes) else { return };
    notices.node |= !link.name.starts_with(pods);
    notices.links.insert(link.ifindex, (kind == libc::RTM_NEWLINK).then_some(link));
}

fn note_route(route: &Route, is_gone: bool, replaces: bool, notices: &mut Notices) {
    let (is_ours, is_single) = (route.protocol == ROUTE_PROTOCOL, !route.leads_on);
    match route.single.filter(|_| is_single) {
        _ if route.length == 0 => notices.node = true,
        // Who routes an address of a pod elsewhere takes its place.
        Some(address) if is_gone == is_ours => drop(notices.addresses.insert(address)),
        Some(_) => {}
        None => notices.routing |= if is_gone { is_ours } else { replaces && !is_ours },
    }
}

/// Attributes of a route: `RTA_DST`, `RTA_GATEWAY`, `RTA_TABLE`, `RTA_ENCAP`.
const DESTINATION: u16 = 1;
const GATEWAY: u16 = 5;
const TABLE: u16 = 15;
const ENCAPSULATION: u16 = 22;

/// What matters of a route of the main table. It is read as far as that: routes into tunnels have
/// attributes that not every decoder knows.
struct Route {
    length: u8,
    protocol: u8,
    /// The address that it leads to, if it is one alone.
    single: Option<IpAddr>,
    /// It leads through a gateway or into a tunnel.
    leads_on: bool,
}

impl Route {
    fn parse(bytes: &[u8]) -> Option<Self> {
        // struct rtmsg: family, length of the destination, of the source, tos, table, protocol, …
        let [family, length, _, _, table, protocol] = array(bytes, 0)?;
        let mut route = Self { length, protocol, single: None, leads_on: false };
        let mut table = u32::from(table);
        for nla in NlasIterator::new(bytes.get(12..)?).map_while(Result::ok) {
            let value = nla.value();
            match nla.kind() {
                DESTINATION => route.single = single(family, length, value),
                GATEWAY | ENCAPSULATION => route.leads_on = true,
                TABLE => table = array(value, 0).map(u32::from_ne_bytes)?,
                _ => {}
            }
        }
        (table == u32::from(libc::RT_TABLE_MAIN)).then_some(route)
    }
}

fn single(family: u8, length: u8, value: &[u8]) -> Option<IpAddr> {
    match (i32::from(family), length) {
        (libc::AF_INET, 32) => array::<4>(value, 0).map(IpAddr::from),
        (libc::AF_INET6, 128) => array::<16>(value, 0).map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, thread};

    use volvox_actors::{
        model::Mac,
        ports::{Hop, LocalRule},
    };

    use super::*;
    use crate::{netlink::Veth, netns::Netns};

    const SOON: Duration = Duration::from_secs(5);

    /// What is said before it is quiet.
    fn reported(changes: &mut Changes) -> Notices {
        let mut notices = Notices::default();
        while changes.hear(QUIET, &mut notices).unwrap() {}
        notices
    }

    /// Whether that is of interest to the node.
    fn is_told(changes: &mut Changes) -> bool {
        reported(changes).node
    }

    /// What somebody takes away from pods, or of what leads to other nodes.
    fn what_is_lost_is_told(socket: &mut Socket, changes: &mut Changes, (pod, device): (u32, u32)) {
        reported(changes);
        let address: IpAddr = "10.9.9.9".parse().unwrap();
        assert!(socket.delete_route(address, device).unwrap());
        let notices = reported(changes);
        assert_eq!(notices.addresses, [address].into());
        assert!(!notices.node && !notices.routing && !notices.all, "{notices:?}");
        let rule = LocalRule { ipv6: false, priority: 77 };
        socket.put_local_rule(rule).unwrap();
        assert!(reported(changes).routing, "a rule comes");
        socket.delete_local_rule(rule).unwrap();
        assert!(reported(changes).routing, "a rule goes");
        let prefix = "10.8.0.0/24".parse().unwrap();
        let gateway = "192.0.2.9".parse().unwrap();
        socket.put_node_route(prefix, Hop::Direct { gateway, ifindex: device }, false).unwrap();
        assert!(!reported(changes).routing, "of our own doing");
        socket.delete_node_route(prefix).unwrap();
        assert!(reported(changes).routing, "a route to another node goes");
        socket.rename(pod, "lxc9").unwrap();
        assert!(reported(changes).links[&pod].as_ref().is_some_and(|link| link.name == "lxc9"));
        socket.delete_link(pod).unwrap();
        assert_eq!(reported(changes).links[&pod], None);
    }

    #[test]
    fn what_leads_out_is_told_of_and_pods_are_not() {
        let test = || {
            let mut socket = Socket::open().unwrap();
            let mac = |last| Mac([2, 0, 0, 0, 0, last]);
            let veth = |name, peer| Veth {
                name,
                peer,
                peer_netns: None,
                mtu: 1500,
                mac: mac(1),
                peer_mac: mac(2),
            };
            let mut changes = Changes::listen("lxc").unwrap();
            assert!(!is_told(&mut changes));
            socket.create_veth(&veth("lxc1", "lxc2")).unwrap();
            let pod = socket.link_by_name("lxc1").unwrap().unwrap().ifindex;
            socket.set_link_up(pod).unwrap();
            let notices = reported(&mut changes);
            assert!(!notices.node, "pods come and go");
            assert!(notices.links[&pod].as_ref().is_some_and(|link| link.up));
            socket.create_veth(&veth("eth0", "eth1")).unwrap();
            changes.wait().unwrap();
            let device = socket.link_by_name("eth0").unwrap().unwrap().ifindex;
            let other = socket.link_by_name("eth1").unwrap().unwrap().ifindex;
            socket.set_link_up(device).unwrap();
            socket.set_link_up(other).unwrap();
            assert!(socket.wait_for_carrier(device, SOON).unwrap());
            is_told(&mut changes);
            let address: IpAddr = "192.0.2.7".parse().unwrap();
            socket.add_address(device, "192.0.2.7/24".parse().unwrap()).unwrap();
            assert!(is_told(&mut changes), "an address");
            socket.put_route("10.9.9.9".parse().unwrap(), device).unwrap();
            assert!(!is_told(&mut changes), "a pod's route");
            assert!(!socket.links_and_ways_out().unwrap()[&device].default_route);
            let router: IpAddr = "192.0.2.1".parse().unwrap();
            socket.add_default_via(router, device).unwrap();
            assert!(is_told(&mut changes), "a default route");
            let links = socket.links_and_ways_out().unwrap();
            assert!(links[&device].default_route && !links[&other].default_route);
            assert_eq!(links[&device].addresses[0].addr(), address);
            what_is_lost_is_told(&mut socket, &mut changes, (pod, device));
        };
        // A namespace is a thread's.
        let netns = Netns::create().unwrap();
        thread::scope(|scope| scope.spawn(|| netns.run(test).unwrap()).join().unwrap());
    }
}
