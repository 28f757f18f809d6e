//! Packets go to other nodes as they are, by routes that agents make.

use std::{process::Command, thread, time::Duration};

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Setup, TestCluster, wait_for},
    traffic::stop_clean,
};

use super::reach::{exchange, streams, wait};

pub(crate) const FLAGS: [(&str, &str); 2] =
    [("routing-mode", "native"), ("auto-direct-node-routes", "true")];

/// A client on the first node, web on that one.
fn setup(of_web: u8) -> Setup<'static> {
    let setup = Setup::new().flags(&FLAGS).pod("shop/client", &[("app", "client")]);
    setup.pod_on(of_web, "shop/web", &[("app", "web")])
}

#[test]
fn pods_and_hosts_of_two_nodes_reach_each_other() {
    lab::test("native::pods_and_hosts_of_two_nodes_reach_each_other", || {
        let (mut cluster, [client, web]) = setup(2).start_nodes(2)?;
        let [one, two] = [1, 2].map(|number| cluster.member(number).netns.clone());
        for ipv6 in [false, true] {
            let (web_at, two_at) = (web.address(ipv6)?, cluster.member(2).address(ipv6)?);
            wait("from pod to pod", &client.netns, &web.netns, web_at, true)?;
            let own = Some(client.address(ipv6)?);
            wait_for("the client is seen by its own address", || {
                Ok(exchange(&client.netns, &web.netns, web_at)? == own)
            })?;
            wait("from pod to another node", &client.netns, &two, two_at, true)?;
            wait("from a node to a pod of another", &one, &web.netns, web_at, true)?;
        }
        let routes = cluster.member(1).ip("route show proto 155")?;
        ensure!(routes.contains("10.2.0.0/24 via 192.0.2.2 dev eth0"), "{routes}");
        for family in ["-4", "-6"] {
            wait_for("there is room before the rule for the node's own addresses", || {
                let rules = cluster.members[0].ip(&format!("{family} rule show"))?;
                Ok(rules.starts_with("100:\tfrom all lookup local\n"))
            })?;
        }
        let member = cluster.members.remove(0);
        let netns = member.netns.clone();
        member.uninstall()?;
        let shown = |what| {
            netns.run(move || {
                let output = Command::new("ip").args([what, "show"]).output()?;
                Ok(String::from_utf8(output.stdout)?)
            })
        };
        let left = shown("route")?;
        ensure!(!left.contains("155"), "left: {left}");
        let rules = shown("rule")?;
        ensure!(rules.starts_with("0:\tfrom all lookup local\n"), "left: {rules}");
        Ok(())
    });
}

#[test]
fn agents_come_and_go_and_nothing_is_lost() {
    lab::test("native::agents_come_and_go_and_nothing_is_lost", || {
        let (mut cluster, [client, web]) = setup(2).start_nodes(2)?;
        for ipv6 in [false, true] {
            wait("from pod to pod", &client.netns, &web.netns, web.address(ipv6)?, true)?;
        }
        let before = [1, 2].map(|number| routes(&mut cluster, number));
        let streams = streams(&client, &web)?;
        for number in [1, 2, 1] {
            cluster.member(number).run(lab::Node::kill_agent)?;
            thread::sleep(Duration::from_millis(200));
            cluster.member(number).run(lab::Node::start_agent)?;
            cluster.wait_until_known()?;
        }
        stop_clean(streams)?;
        for (number, before) in [1, 2].into_iter().zip(before) {
            let (before, after) = (before?, routes(&mut cluster, number)?);
            ensure!(before == after, "routes of node {number} were {before}, are {after}");
        }
        Ok(())
    });
}

fn routes(cluster: &mut TestCluster, number: u8) -> Result<String> {
    let member = cluster.member(number);
    Ok(member.ip("route show proto 155")? + &member.ip("-6 route show proto 155")?)
}

#[test]
fn a_node_that_is_cut_off_is_reached_again_when_it_is_back() {
    lab::test("native::a_node_that_is_cut_off_is_reached_again_when_it_is_back", || {
        let (mut cluster, [client, web]) = setup(3).start_nodes(3)?;
        let reaches = |what: &str, expected| {
            [false, true].into_iter().try_for_each(|ipv6| {
                wait(what, &client.netns, &web.netns, web.address(ipv6)?, expected)
            })
        };
        reaches("at first", true)?;
        // Its routes go with its interface.
        let cut = cluster.member(3);
        cut.ip("link set eth0 down")?;
        reaches("cut off", false)?;
        ensure!(!cut.ip("route show")?.contains("10.1.0.0/24"), "routes outlive their interface");
        cut.ip("link set eth0 up")?;
        // Its IPv6 address went, too: whoever configures the machine gives it again.
        cut.ip("addr replace 2001:db8::3/64 dev eth0 nodad")?;
        reaches("back", true)?;
        cluster.wait_until_known()?;
        // Another one's going is that one's routes' going.
        let two = cluster.members.remove(1);
        two.uninstall()?;
        cluster.etcd.expire_leases()?;
        wait_for("the routes to node 2 go", || {
            Ok(!cluster.members[0].ip("route show")?.contains("10.2.0.0/24"))
        })?;
        reaches("after the other one's going", true)
    });
}
