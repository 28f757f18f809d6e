//! Packets go to other nodes in tunnels, with the identity of who sent them.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Pod, Setup, TestCluster, wait_for},
    traffic::stop_clean,
};

use super::reach::{exchange, streams, wait};

/// Web lets clients in, wherever they are.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client}}]
  - fromEntities: [remote-node]
"#;

/// A client and somebody else on the first node, web on the second.
pub(crate) fn setup() -> Setup<'static> {
    Setup::new()
        .manifest("web.yaml", POLICY)
        .pod("shop/client", &[("app", "client")])
        .pod("shop/other", &[("app", "other")])
        .pod_on(2, "shop/web", &[("app", "web")])
}

/// The network between the nodes routes no pod's packets.
fn start() -> Result<(TestCluster, [Pod; 3])> {
    setup().start_nodes(2)
}

#[test]
fn pods_and_hosts_of_two_nodes_reach_each_other_as_policy_says() {
    lab::test("tunnel::pods_and_hosts_of_two_nodes_reach_each_other_as_policy_says", || {
        let (mut cluster, [client, other, web]) = start()?;
        let one = cluster.member(1).netns.clone();
        for ipv6 in [false, true] {
            let web_at = web.address(ipv6)?;
            wait("from pod to pod", &client.netns, &web.netns, web_at, true)?;
            let own = Some(client.address(ipv6)?);
            wait_for("the client is seen by its own address", || {
                Ok(exchange(&client.netns, &web.netns, web_at)? == own)
            })?;
            wait("from a node to a pod of another", &one, &web.netns, web_at, true)?;
            let refused = exchange(&other.netns, &web.netns, web_at)?;
            ensure!(refused.is_none(), "policy does not hold across nodes: {refused:?}");
        }
        for (words, expected) in [
            ("-d link show cilium_vxlan", "external"),
            ("route show proto 155", "10.2.0.0/24  encap ip id 6 src 0.0.0.0 dst 192.0.2.2"),
        ] {
            let said = cluster.member(1).ip(words)?;
            ensure!(said.contains(expected), "{said}");
        }
        let inside = cluster.member(1).run(|_| Ok(client.links()?[0].mtu))?;
        ensure!(inside == 1450, "the pod's MTU is {inside}");
        let member = cluster.members.remove(0);
        let netns = member.netns.clone();
        member.uninstall()?;
        let links = netns.run(|| Ok(volvox_system::netlink::Socket::open()?.links()?))?;
        let ours: Vec<_> = links.values().filter(|link| link.name.starts_with("cilium_")).collect();
        ensure!(ours.is_empty(), "left: {ours:?}");
        Ok(())
    });
}

/// What the tunnel carries says who somebody is, also where nobody else has said it yet.
#[test]
fn a_pod_of_which_the_receiver_has_not_heard_is_known_by_the_tunnel() {
    lab::test("tunnel::a_pod_of_which_the_receiver_has_not_heard_is_known_by_the_tunnel", || {
        let (mut cluster, [client, other, web]) = start()?;
        let web_at = web.address(false)?;
        wait("from pod to pod", &client.netns, &web.netns, web_at, true)?;
        // Of this one the second agent never hears.
        cluster.member(2).run(lab::Node::kill_agent)?;
        let late = cluster.member(1).pod("shop/late", &[("app", "client")])?;
        wait("from a new pod", &late.netns, &web.netns, web_at, true)?;
        ensure!(exchange(&other.netns, &web.netns, web_at)?.is_none(), "policy does not hold");
        Ok(())
    });
}

/// Until a node has heard of an address, routes lead there: they do not make a pod the node.
#[test]
fn a_pod_of_which_the_sender_has_not_heard_knows_who_speaks() {
    lab::test("tunnel::a_pod_of_which_the_sender_has_not_heard_knows_who_speaks", || {
        let (mut cluster, [client, other, web]) = start()?;
        for ipv6 in [false, true] {
            wait("from pod to pod", &client.netns, &web.netns, web.address(ipv6)?, true)?;
        }
        let one = cluster.member(1).netns.clone();
        cluster.member(1).run(lab::Node::kill_agent)?;
        let late = cluster.member(2).pod("shop/late", &[("app", "web")])?;
        for ipv6 in [false, true] {
            let late_at = late.address(ipv6)?;
            wait("to a new pod", &client.netns, &late.netns, late_at, true)?;
            wait("from a node to a new pod", &one, &late.netns, late_at, true)?;
            let refused = exchange(&other.netns, &late.netns, late_at)?;
            ensure!(refused.is_none(), "policy does not hold: {refused:?}");
        }
        Ok(())
    });
}

#[test]
fn agents_come_and_go_and_nothing_is_lost() {
    lab::test("tunnel::agents_come_and_go_and_nothing_is_lost", || {
        let (mut cluster, [client, _, web]) = start()?;
        for ipv6 in [false, true] {
            wait("from pod to pod", &client.netns, &web.netns, web.address(ipv6)?, true)?;
        }
        let streams = streams(&client, &web)?;
        let before = cluster.member(1).ip("-d link show cilium_vxlan")?;
        for number in [1, 2, 1] {
            cluster.member(number).run(lab::Node::kill_agent)?;
            thread::sleep(Duration::from_millis(200));
            cluster.member(number).run(lab::Node::start_agent)?;
            cluster.wait_until_known()?;
        }
        stop_clean(streams)?;
        let after = cluster.member(1).ip("-d link show cilium_vxlan")?;
        ensure!(before == after, "it was {before}, is {after}");
        Ok(())
    });
}

#[test]
fn from_tunnels_to_routes_and_back() {
    lab::test("tunnel::from_tunnels_to_routes_and_back", || {
        let (mut cluster, [client, _, web]) = start()?;
        let web_at = web.address(false)?;
        wait("in a tunnel", &client.netns, &web.netns, web_at, true)?;
        for native in [true, false] {
            for number in [1, 2] {
                let member = cluster.member(number);
                member.run(|node| {
                    node.kill_agent()?;
                    node.set_flag("routing-mode", native.then_some("native"));
                    node.set_flag("auto-direct-node-routes", native.then_some("true"));
                    node.start_agent()
                })?;
            }
            for number in [1, 2] {
                wait_for("the other mode's devices are as they should be", || {
                    let has = cluster.member(number).ip("link show cilium_vxlan").is_ok();
                    Ok(has != native)
                })?;
            }
            wait("after a change of mode", &client.netns, &web.netns, web_at, true)?;
        }
        Ok(())
    });
}
