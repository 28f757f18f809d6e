//! Three nodes that carry their pods' packets in tunnels, and one of them is cut off.

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Node, Pod, Setup, TestCluster, ip},
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
"#;

#[test]
fn a_node_that_is_cut_off_comes_back_by_itself_and_others_lose_nothing() {
    let name = "cut_off::a_node_that_is_cut_off_comes_back_by_itself_and_others_lose_nothing";
    lab::test(name, || {
        let setup = Setup::new()
            .manifest("web.yaml", POLICY)
            .pod("shop/client", &[("app", "client")])
            .pod_on(2, "shop/server", &[("app", "server")])
            .pod_on(3, "shop/far", &[("app", "web")]);
        let (mut cluster, [client, server, far]) = setup.start_nodes(3)?;
        reach("at first", &client, &far, true)?;
        reach("at first", &client, &server, true)?;
        let streams = streams(&client, &server)?;
        // Nobody is told: packets just go nowhere.
        ip("link set n3 nomaster")?;
        reach("cut off", &client, &far, false)?;
        restart(&mut cluster, 1)?;
        // Of these the third node cannot hear now.
        let late = cluster.member(2).pod("shop/late", &[("app", "client")])?;
        let stranger = cluster.member(2).pod("shop/stranger", &[("app", "other")])?;
        reach("between the others", &late, &server, true)?;
        ip("link set n3 master cluster")?;
        reach("back", &client, &far, true)?;
        reach("back, from a new pod", &late, &far, true)?;
        reach("back, to a new pod", &far, &late, true)?;
        refused(&stranger, &far)?;
        // And without its interface and its agent. The next one starts without a store.
        cluster.member(3).ip("link set eth0 down")?;
        reach("cut off again", &client, &far, false)?;
        restart(&mut cluster, 3)?;
        restart(&mut cluster, 2)?;
        let later = cluster.member(1).pod("shop/later", &[("app", "client")])?;
        cluster.member(3).ip("link set eth0 up")?;
        // Its IPv6 address went, too: whoever configures the machine gives it again.
        cluster.member(3).ip("addr replace 2001:db8::3/64 dev eth0 nodad")?;
        for pod in [&client, &late, &later] {
            reach("back again", pod, &far, true)?;
        }
        refused(&stranger, &far)?;
        cluster.wait_until_known()?;
        stop_clean(streams)
    });
}

fn restart(cluster: &mut TestCluster, number: u8) -> Result<()> {
    cluster.member(number).run(|node: &mut Node| {
        node.kill_agent()?;
        node.start_agent()
    })
}

fn reach(when: &str, from: &Pod, to: &Pod, expected: bool) -> Result<()> {
    [false, true]
        .into_iter()
        .try_for_each(|ipv6| wait(when, &from.netns, &to.netns, to.address(ipv6)?, expected))
}

fn refused(from: &Pod, to: &Pod) -> Result<()> {
    for ipv6 in [false, true] {
        let through = exchange(&from.netns, &to.netns, to.address(ipv6)?)?;
        ensure!(through.is_none(), "policy does not hold: {through:?} gets through");
    }
    Ok(())
}
