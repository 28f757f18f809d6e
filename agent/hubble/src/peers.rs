//! The nodes that a relay is told of: who there is, where each one's Hubble listens, and by which name its
//! certificate is to know it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use crate::messages::{ChangeNotification, PeerTls};

/// A node was added, is gone, or is elsewhere.
const ADDED: i32 = 1;
const DELETED: i32 = 2;
const UPDATED: i32 = 3;

/// Nodes by name, as flows have it, with where Hubble listens.
pub type Peers = BTreeMap<String, PeerNode>;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Its name without its cluster.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// How peers are told.
#[derive(Clone, Copy, Debug)]
pub struct PeerTerms {
    /// The port at which each node's Hubble listens, as this one's does.
    pub port: u16,
    /// Whether they want TLS, as this one does.
    pub tls: bool,
    /// Whether IPv6 is told where a node has both.
    pub prefer_ipv6: bool,
}

impl PeerTerms {
    fn address(&self, peer: &PeerNode) -> String {
        let of = |ipv6: bool| peer.addresses.iter().find(|it| it.is_ipv6() == ipv6);
        let found = of(self.prefer_ipv6).or_else(|| of(!self.prefer_ipv6));
        found.map_or_else(String::new, |ip| SocketAddr::new(*ip, self.port).to_string())
    }

    fn tell(&self, name: &str, peer: &PeerNode, kind: i32) -> ChangeNotification {
        let server_name = server_name(&peer.node, &peer.cluster);
        let tls = self.tls.then_some(PeerTls { server_name });
        ChangeNotification { name: name.to_owned(), address: self.address(peer), kind, tls }
    }

    /// What changed from one set of nodes to the next.
    pub(crate) fn changes(&self, before: &Peers, after: &Peers) -> Vec<ChangeNotification> {
        let gone = before.iter().filter(|(name, _)| !after.contains_key(*name));
        let mut changes: Vec<_> = gone.map(|(name, peer)| self.tell(name, peer, DELETED)).collect();
        for (name, peer) in after {
            match before.get(name) {
                None => changes.push(self.tell(name, peer, ADDED)),
                Some(old) if self.address(old) != self.address(peer) => {
                    changes.push(self.tell(name, peer, UPDATED));
                }
                Some(_) => {}
            }
        }
        changes
    }
}

/// The name in a node's certificate.
pub fn server_name(node: &str, cluster: &str) -> String {
    if node.is_empty() {
        return String::new();
    }
    let cluster = if cluster.is_empty() { "default" } else { cluster };
    let word = |name: &str| name.replace('.', "-");
    format!("{}.{}.hubble-grpc.cilium.io", word(node), word(cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(node: &str, addresses: &[&str]) -> PeerNode {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        PeerNode { node: node.into(), cluster: "default".into(), addresses }
    }

    #[test]
    fn each_change_of_a_node_is_told_once() {
        let terms = PeerTerms { port: 4244, tls: true, prefer_ipv6: false };
        let first = Peers::from([
            ("a".to_owned(), peer("a", &["fd00::1", "10.0.0.1"])),
            ("b".to_owned(), peer("b", &["10.0.0.2"])),
        ]);
        let mut second = first.clone();
        second.remove("b");
        second.insert("a".to_owned(), peer("a", &["10.0.0.9"]));
        second.insert("c.x".to_owned(), peer("c.x", &["fd00::3"]));
        let told = |before: &Peers, after: &Peers| -> Vec<(String, String, i32)> {
            let all = terms.changes(before, after).into_iter();
            all.map(|it| (it.name, it.address, it.kind)).collect()
        };
        let all = |list: &[(&str, &str, i32)]| -> Vec<(String, String, i32)> {
            list.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), *c)).collect()
        };
        let added = all(&[("a", "10.0.0.1:4244", 1), ("b", "10.0.0.2:4244", 1)]);
        assert_eq!(told(&Peers::new(), &first), added);
        let changed = all(&[
            ("b", "10.0.0.2:4244", 2),
            ("a", "10.0.0.9:4244", 3),
            ("c.x", "[fd00::3]:4244", 1),
        ]);
        assert_eq!(told(&first, &second), changed);
        assert_eq!(told(&second, &second), []);
        let tls = terms.changes(&first, &second)[2].tls.clone().unwrap();
        assert_eq!(tls.server_name, "c-x.default.hubble-grpc.cilium.io");
        assert_eq!(server_name("", "x"), "");
    }
}
