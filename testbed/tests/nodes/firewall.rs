//! Nodes that are held to policies of their own: these say who speaks with the nodes, not what the
//! nodes carry for their pods.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Node, Setup},
    traffic::{Kind, Plan, Stream, stop_clean},
};

use super::reach::{exchange, wait};

/// Clients are let in to the nodes and nobody else is, and nodes do not speak with web. The agents were
/// connected to the store before.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumClusterwideNetworkPolicy
metadata: {name: nodes}
spec:
  nodeSelector: {}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client}}]
  egress:
  - toEntities: [all]
  egressDeny:
  - toEndpoints: [{matchLabels: {app: web}}]
"#;

#[test]
fn nodes_are_held_to_their_policy_and_carry_what_their_pods_send() {
    lab::test("firewall::nodes_are_held_to_their_policy_and_carry_what_their_pods_send", || {
        let setup = Setup::new()
            .flag("enable-host-firewall", "true")
            .pod("shop/client", &[("app", "client")])
            .pod("shop/other", &[("app", "other")])
            .pod_on(2, "shop/web", &[("app", "web")]);
        let (mut cluster, [client, other, web]) = setup.start_nodes(2)?;
        let [one, two] = [1, 2].map(|number| cluster.member(number).netns.clone());
        for ipv6 in [false, true] {
            let (web_at, two_at) = (web.address(ipv6)?, cluster.member(2).address(ipv6)?);
            wait("from pod to pod", &client.netns, &web.netns, web_at, true)?;
            wait("from a node to a pod of another", &one, &web.netns, web_at, true)?;
            wait("from a node to its own pod", &two, &web.netns, web_at, true)?;
            wait("from node to node", &one, &two, two_at, true)?;
        }
        for member in &mut cluster.members {
            member.run(|node| node.write_manifest("nodes.yaml", POLICY))?;
        }
        for ipv6 in [false, true] {
            let (web_at, one_at) = (web.address(ipv6)?, cluster.member(1).address(ipv6)?);
            let two_at = cluster.member(2).address(ipv6)?;
            wait("from node to node", &one, &two, two_at, false)?;
            wait("from a node to its own pod", &two, &web.netns, web_at, false)?;
            wait("from a node to a pod of another", &one, &web.netns, web_at, false)?;
            wait("from a pod to its node", &other.netns, &one, one_at, false)?;
            // By IPv6 the node's stack answers from another address of its own.
            if !ipv6 {
                wait("from a client to its node", &client.netns, &one, one_at, true)?;
            }
            let [allowed, own] = [&web, &other].map(|pod| pod.address(ipv6));
            wait("from pod to pod", &client.netns, &web.netns, allowed?, true)?;
            wait("from a node to another pod of its own", &one, &other.netns, own?, true)?;
        }
        let target = SocketAddr::new(web.address(false)?, 5001);
        let (from, to) = (client.netns.clone(), web.netns.clone());
        let stream = Stream::start(Plan { kind: Kind::Udp, from, to, target, rate: 500 })?;
        stream.wait_for_answers(10)?;
        for number in [1, 2, 1, 2] {
            cluster.member(number).run(Node::kill_agent)?;
            thread::sleep(Duration::from_millis(100));
            let refused = exchange(&one, &two, cluster.member(2).address(false)?)?;
            ensure!(refused.is_none(), "a node speaks with another while no agent runs");
            cluster.member(number).run(Node::start_agent)?;
            cluster.wait_until_known()?;
        }
        // Switched off and on again, what the nodes carry is not lost.
        let node = cluster.member(2).address(false)?;
        for held in [false, true] {
            for member in &mut cluster.members {
                member.run(|node| hold(node, held))?;
            }
            wait("from node to node", &one, &two, node, !held)?;
        }
        stop_clean(vec![stream]).map(drop)
    });
}

/// Starts another agent that holds the node to its policy, or does not.
fn hold(node: &mut Node, held: bool) -> Result<()> {
    node.set_flag("enable-host-firewall", held.then_some("true"));
    node.kill_agent()?;
    node.start_agent()
}
