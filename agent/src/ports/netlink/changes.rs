use std::time::{Duration, Instant};

use netlink_packet_core::NlasIterator;
use netlink_packet_route::{RouteNetlinkMessage, address::AddressScope, route::RouteHeader};

use super::{
    NetlinkError, Socket,
    message::{Body, Messages, text},
    socket::{Call, decode},
};

/// What belongs together comes within this time.
const QUIET: Duration = Duration::from_millis(50);
/// A network that never is quiet is looked at nevertheless.
const LONGEST: Duration = Duration::from_secs(1);
/// For ever, nearly: whoever waits is woken by the next change.
const NEVER: Duration = Duration::from_secs(3600);

/// Notices of what changes at the node's interfaces; those of pods are passed over.
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
        ] {
            socket.join(&call, group)?;
        }
        Ok(Self { socket, call, pods: pods.to_owned() })
    }

    /// Waits for a change, and until what comes with it has come.
    pub fn wait(&mut self) -> Result<(), NetlinkError> {
        while !self.hear(NEVER)?.unwrap_or(false) {}
        let first = Instant::now();
        while first.elapsed() < LONGEST && self.hear(QUIET)?.is_some() {}
        Ok(())
    }

    /// Takes the next notices: whether one of them is of interest; `None` if there is none so long.
    fn hear(&mut self, longest: Duration) -> Result<Option<bool>, NetlinkError> {
        match self.socket.hear(&self.call, longest) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            // There were too many to be kept: what they said is seen by whoever looks.
            Err(NetlinkError::Socket { source, .. })
                if source.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                return Ok(Some(true));
            }
            Err(error) => return Err(error),
        }
        let notices = Messages(self.socket.received()).flatten();
        let mut bodies = notices.filter_map(|notice| match notice.body {
            Body::Object(kind, bytes) => Some((kind, bytes)),
            _ => None,
        });
        Ok(Some(bodies.any(|(kind, bytes)| is_of_interest(kind, bytes, &self.pods))))
    }
}

/// Whether a notice may change what the node's interfaces are, and what leads out.
fn is_of_interest(kind: u16, bytes: &[u8], pods: &str) -> bool {
    match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            let mut nlas = NlasIterator::new(bytes.get(16..).unwrap_or_default());
            let name = nlas.find_map(|nla| {
                let nla = nla.ok()?;
                (nla.kind() == libc::IFLA_IFNAME).then(|| text(nla.value()))
            });
            name.is_none_or(|name| !name.starts_with(pods))
        }
        libc::RTM_NEWADDR | libc::RTM_DELADDR => match decode(kind, bytes) {
            Some(RouteNetlinkMessage::NewAddress(it) | RouteNetlinkMessage::DelAddress(it)) => {
                it.header.scope != AddressScope::Link
            }
            _ => true,
        },
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => match decode(kind, bytes) {
            Some(RouteNetlinkMessage::NewRoute(it) | RouteNetlinkMessage::DelRoute(it)) => {
                it.header.destination_prefix_length == 0
                    && it.header.table == RouteHeader::RT_TABLE_MAIN
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, thread};

    use volvox_actors::model::Mac;

    use super::*;
    use crate::{netns::Netns, ports::netlink::Veth};

    const SOON: Duration = Duration::from_secs(5);

    /// Whether anything of interest is said before it is quiet.
    fn is_told(changes: &mut Changes) -> bool {
        let mut told = false;
        while let Some(is) = changes.hear(QUIET).unwrap() {
            told |= is;
        }
        told
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
            assert!(!is_told(&mut changes), "pods come and go");
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
        };
        // A namespace is a thread's.
        let netns = Netns::create().unwrap();
        thread::scope(|scope| scope.spawn(|| netns.run(test).unwrap()).join().unwrap());
    }
}
