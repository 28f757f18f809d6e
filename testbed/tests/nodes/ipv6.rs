//! Nodes that have no IPv4 addresses carry both families of their pods in tunnels over IPv6.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Node, Pod, TestCluster, wait_for},
    traffic::stop_clean,
};

use super::{
    reach::{exchange, streams, wait},
    tunnel,
};

fn start() -> Result<(TestCluster, [Pod; 3])> {
    tunnel::setup().nodes_on_ipv6().start_nodes(2)
}

#[test]
fn pods_and_hosts_reach_each_other_as_policy_says() {
    lab::test("ipv6::pods_and_hosts_reach_each_other_as_policy_says", || {
        let (mut cluster, [client, other, web]) = start()?;
        let [one, two] = [1, 2].map(|number| cluster.member(number).netns.clone());
        let two_at = cluster.member(2).address(true)?;
        for ipv6 in [false, true] {
            let web_at = web.address(ipv6)?;
            wait("from pod to pod", &client.netns, &web.netns, web_at, true)?;
            let own = Some(client.address(ipv6)?);
            wait_for("the client is seen by its own address", || {
                Ok(exchange(&client.netns, &web.netns, web_at)? == own)
            })?;
            // By a route, whose packets have no checksum.
            wait("from a node to a pod of another", &one, &web.netns, web_at, true)?;
            let refused = exchange(&other.netns, &web.netns, web_at)?;
            ensure!(refused.is_none(), "policy does not hold across nodes: {refused:?}");
        }
        wait("from pod to another node", &client.netns, &two, two_at, true)?;
        wait("from node to node", &one, &two, two_at, true)?;
        for words in ["route show proto 155", "-6 route show proto 155"] {
            let said = cluster.member(1).ip(words)?;
            ensure!(said.contains("encap ip6 id 6 src :: dst 2001:db8::2"), "{said}");
        }
        let inside = cluster.member(1).run(|_| Ok(client.links()?[0].mtu))?;
        ensure!(inside == 1430, "the pod's MTU is {inside}");
        Ok(())
    });
}

/// Who sends is said by the tunnel alone: of these pods the second agent never hears.
#[test]
fn pods_of_which_the_receiver_has_not_heard_are_known_by_the_tunnel() {
    lab::test("ipv6::pods_of_which_the_receiver_has_not_heard_are_known_by_the_tunnel", || {
        let (mut cluster, [client, _, web]) = start()?;
        for ipv6 in [false, true] {
            wait("from pod to pod", &client.netns, &web.netns, web.address(ipv6)?, true)?;
        }
        cluster.member(2).run(Node::kill_agent)?;
        let late = cluster.member(1).pod("shop/late", &[("app", "client")])?;
        let stranger = cluster.member(1).pod("shop/stranger", &[("app", "other")])?;
        for ipv6 in [false, true] {
            let web_at = web.address(ipv6)?;
            wait("from a new pod", &late.netns, &web.netns, web_at, true)?;
            let refused = exchange(&stranger.netns, &web.netns, web_at)?;
            ensure!(refused.is_none(), "policy does not hold: {refused:?}");
        }
        Ok(())
    });
}

#[test]
fn agents_come_and_go_and_nothing_is_lost() {
    lab::test("ipv6::agents_come_and_go_and_nothing_is_lost", || {
        let (mut cluster, [client, other, web]) = start()?;
        for ipv6 in [false, true] {
            wait("from pod to pod", &client.netns, &web.netns, web.address(ipv6)?, true)?;
        }
        let streams = streams(&client, &web)?;
        for number in [1, 2, 1] {
            cluster.member(number).run(Node::kill_agent)?;
            thread::sleep(Duration::from_millis(200));
            cluster.member(number).run(Node::start_agent)?;
            cluster.wait_until_known()?;
            for ipv6 in [false, true] {
                let refused = exchange(&other.netns, &web.netns, web.address(ipv6)?)?;
                ensure!(refused.is_none(), "policy does not hold after a restart: {refused:?}");
            }
        }
        stop_clean(streams)
    });
}
