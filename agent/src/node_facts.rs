//! What the kernel says of the node as a whole while the agent runs: the addresses by which others reach
//! it, and the largest packet that its devices take.

use std::{collections::BTreeMap, time::Duration};

use volvox_actors::{
    model::{Addresses, NodeFacts},
    ports::Link,
};
use volvox_system::netlink::Socket;

use crate::{
    boot::{own_links, own_mtu},
    config::Config,
    node_address::{self, Expected, Ways},
};

/// Whoever takes an address away may be about to give it back: DHCP clients do so when they are
/// restarted. The node moves to another address only if it is still gone then.
const GRACE: Duration = Duration::from_millis(400);

/// Follows what the kernel says of the node.
pub struct FactsWatch {
    expected: Expected,
    /// What `--mtu` or the CNI configuration says, if either does.
    mtu: Option<u32>,
    now: NodeFacts,
}

impl FactsWatch {
    /// From what was read at start.
    pub fn new(config: &Config, addresses: Addresses, mtu: u32) -> Self {
        Self {
            expected: Expected { ipv4: config.ipv4_node, ipv6: config.ipv6_node },
            mtu: Some(config.said_mtu()).filter(|mtu| *mtu != 0),
            now: NodeFacts { addresses, mtu, trouble: None },
        }
    }

    /// Looks again; what is new, if anything is.
    pub async fn look(&mut self) -> Option<NodeFacts> {
        let mut found = self.read().await?;
        let moves = found.addresses != self.now.addresses || found.trouble.is_some();
        if moves && found != self.now {
            tokio::time::sleep(GRACE).await;
            found = self.read().await?;
        }
        if found == self.now {
            return None;
        }
        let (before, after) = (self.now.addresses, found.addresses);
        match &found.trouble {
            Some(trouble) => tracing::error!(trouble, "the node is not where it was"),
            None => tracing::warn!(?before, ?after, mtu = found.mtu, "the node changed"),
        }
        self.now = found.clone();
        Some(found)
    }

    /// Netlink is asked on a thread that may wait.
    async fn read(&self) -> Option<NodeFacts> {
        let (expected, mtu, before) = (self.expected, self.mtu, self.now.clone());
        let read = tokio::task::spawn_blocking(move || {
            let links = Socket::open()?.links()?;
            Ok::<_, anyhow::Error>(facts(expected, mtu, &before, (&links, &Ways::read()?)))
        });
        match read.await {
            Ok(Ok(facts)) => Some(facts),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the node's own addresses are as they were read before");
                None
            }
            Err(error) => {
                tracing::error!(%error, "the node's own addresses were not read");
                None
            }
        }
    }
}

/// What is true of a node with these interfaces. One that has lost its last address keeps it, and says
/// so: nobody else is told that it is nowhere.
fn facts(
    expected: Expected,
    mtu: Option<u32>,
    before: &NodeFacts,
    (links, ways): (&BTreeMap<u32, Link>, &Ways),
) -> NodeFacts {
    let own: Vec<&Link> = own_links(links).collect();
    let mtu = mtu.unwrap_or_else(|| own_mtu(links));
    let retained = before.addresses;
    let found = match node_address::choose(expected, retained, &own, ways) {
        Ok(found) => found,
        Err(error) => {
            return NodeFacts { addresses: retained, mtu, trouble: Some(error.to_string()) };
        }
    };
    if let Some(lost) = retained.iter().next()
        && found.iter().next().is_none()
    {
        let trouble = format!(
            "the node's address {lost} is on no interface, and there is no other one: others do not \
             reach it; give it one"
        );
        return NodeFacts { addresses: retained, mtu, trouble: Some(trouble) };
    }
    NodeFacts { addresses: found, mtu, trouble: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeAddress;

    const AUTO: Expected = Expected { ipv4: NodeAddress::Auto, ipv6: NodeAddress::Auto };

    fn link(ifindex: u32, mtu: u32, addresses: &[&str]) -> (u32, Link) {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        let name = format!("eth{ifindex}");
        (ifindex, Link { ifindex, name, up: true, mtu, addresses, ..Link::default() })
    }

    fn now(expected: Expected, before: &str, links: &[(u32, Link)]) -> NodeFacts {
        let before = [before.parse().unwrap()].into_iter().collect();
        let before = NodeFacts { addresses: before, mtu: 1500, trouble: None };
        facts(expected, None, &before, (&links.iter().cloned().collect(), &Ways::default()))
    }

    #[test]
    fn it_stays_where_it_is_as_long_as_it_can_and_moves_then() {
        let both = [link(2, 1500, &["192.0.2.7/24", "192.0.2.1/24"])];
        let stays = now(AUTO, "192.0.2.1", &both);
        assert_eq!(
            (stays.addresses.iter().next().unwrap().to_string(), stays.trouble),
            ("192.0.2.1".to_owned(), None)
        );
        let other = now(AUTO, "192.0.2.1", &[link(2, 1400, &["192.0.2.7/24"])]);
        assert_eq!(
            (other.addresses.iter().next().unwrap().to_string(), other.mtu),
            ("192.0.2.7".to_owned(), 1400)
        );
        // One that has lost a family has the other one.
        let both = [link(2, 1500, &["2001:db8::1/64"])];
        let other = now(AUTO, "192.0.2.1", &both);
        assert_eq!(
            (other.addresses.iter().next().unwrap().to_string(), other.trouble),
            ("2001:db8::1".to_owned(), None)
        );
        // Without any other it is nowhere, and says so.
        let nowhere = now(AUTO, "192.0.2.1", &[link(2, 1500, &[])]);
        assert_eq!(nowhere.addresses.iter().next().unwrap().to_string(), "192.0.2.1");
        assert!(nowhere.trouble.unwrap().contains("192.0.2.1 is on no interface"));
    }

    #[test]
    fn what_a_flag_names_stays_also_while_it_is_gone() {
        let given = NodeAddress::Given("192.0.2.1".parse().unwrap());
        let fixed =
            now(Expected { ipv4: given, ..AUTO }, "192.0.2.1", &[link(2, 1500, &["192.0.2.7/24"])]);
        assert_eq!(fixed.addresses.iter().next().unwrap().to_string(), "192.0.2.1");
        assert!(fixed.trouble.unwrap().contains("--ipv4-node=192.0.2.1"));
    }
}
