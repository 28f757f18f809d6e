//! What an ADD leaves that was killed before it had moved one side of its veth pair into a container.

use super::Link;

/// How the node's side of such a pair is called, by us and by Cilium.
const POD_INTERFACES: &str = "lxc";
const VETH: &str = "veth";

impl Link {
    /// Whether this and the other are one pair, made for a pod and used by nobody: both sides are
    /// here, no address is on them, and one of them is down, so that no packet passes. A number alone
    /// proves nothing: a peer in a container may have any.
    pub fn is_idle_pair(&self, peer: &Self) -> bool {
        let is_veth = |link: &Self| link.kind.as_deref() == Some(VETH) && link.peer_netns.is_none();
        let is_pair = self.ifindex != peer.ifindex
            && self.peer_ifindex == peer.ifindex
            && peer.peer_ifindex == self.ifindex;
        let is_unused = |link: &Self| {
            link.addresses.iter().all(|net| match net.addr() {
                std::net::IpAddr::V4(_) => false,
                std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
            })
        };
        self.name.starts_with(POD_INTERFACES)
            && is_pair
            && [self, peer].into_iter().all(|link| is_veth(link) && is_unused(link))
            && !(self.up && peer.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Link, Link) {
        let link = |ifindex, peer_ifindex, name: &str| Link {
            ifindex,
            peer_ifindex,
            name: name.to_owned(),
            kind: Some(VETH.to_owned()),
            ..Link::default()
        };
        (Link { up: true, ..link(7, 8, "lxc1") }, link(8, 7, "tmp1"))
    }

    #[test]
    fn only_a_pair_that_carries_nothing_and_lies_here_is_idle() {
        let (host, peer) = pair();
        assert!(host.is_idle_pair(&peer));
        assert!(!peer.is_idle_pair(&host), "that side is not called so");
        let spoil: [fn(&mut Link, &mut Link); 7] = [
            |_, peer| peer.up = true,
            |_, peer| peer.peer_ifindex = 9,
            |host, _| host.peer_ifindex = 9,
            // In a container, where that number is another interface's.
            |host, _| host.peer_netns = Some(0),
            |_, peer| peer.peer_netns = Some(0),
            |_, peer| peer.addresses.push("10.0.0.1/24".parse().unwrap()),
            |host, _| host.kind = Some("vxlan".to_owned()),
        ];
        for (at, spoil) in spoil.into_iter().enumerate() {
            let (mut host, mut peer) = pair();
            spoil(&mut host, &mut peer);
            assert!(!host.is_idle_pair(&peer), "{at}");
        }
    }
}
