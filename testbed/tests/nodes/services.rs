//! Pods reach services whose backends are on the other node.

use std::{
    net::{IpAddr, SocketAddr},
    thread,
    time::Duration,
};

use anyhow::Result;
use volvox_testbed::{
    lab::{self, Node, Pod, Setup, objects},
    traffic::{Kind, Plan, Stream, stop_clean},
};

use super::{native, reach::wait};

const PORT: u16 = 7000;

#[test]
fn backends_of_another_node_answer_in_tunnels_while_agents_are_killed() {
    lab::test(
        "services::backends_of_another_node_answer_in_tunnels_while_agents_are_killed",
        || serve(&[]),
    );
}

#[test]
fn backends_of_another_node_answer_by_routes_while_agents_are_killed() {
    lab::test(
        "services::backends_of_another_node_answer_by_routes_while_agents_are_killed",
        || serve(&native::FLAGS),
    );
}

/// What goes to services. Two kinds that count a namespace's segments share no pods.
const GROUPS: [&[(Kind, &str)]; 2] =
    [&[(Kind::Udp, "UDP"), (Kind::Tcp, "TCP")], &[(Kind::Connect, "TCP")]];

fn serve(flags: &[(&str, &str)]) -> Result<()> {
    let (mut cluster, []) = Setup::new().flags(flags).start_nodes(2)?;
    let (mut plans, mut objects, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for ipv6 in [false, true] {
        for (nth, kinds) in GROUPS.into_iter().enumerate() {
            let mut pod = |number: u8, who: &str| -> Result<Pod> {
                let name = format!("shop/{who}-{nth}-{}", u8::from(ipv6));
                cluster.member(number).pod(&name, &[("app", who)])
            };
            let (client, server) = (pod(1, "client")?, pod(2, "server")?);
            for (kind, transport) in kinds {
                let network = if ipv6 { "fd96::" } else { "10.96.0." };
                let address: IpAddr = format!("{network}{}", plans.len() + 1).parse()?;
                let target = SocketAddr::new(address, PORT);
                let name = format!("{kind}-{}", u8::from(ipv6));
                objects.push(objects::service(&name, target, transport));
                let backends = [server.address(ipv6)?];
                objects.push(objects::slice(&name, &name, transport, PORT, &backends));
                let (from, to) = (client.netns.clone(), server.netns.clone());
                plans.push(Plan { kind: *kind, from, to, target, rate: 200 });
            }
            pairs.push((client.netns.clone(), server.netns.clone(), server.address(ipv6)?));
        }
    }
    for member in &mut cluster.members {
        member.run(|node| {
            node.write_manifest("services.yaml", &objects::list(&objects))?;
            node.wait("services are not there", |node| Ok(node.served()?.len() == plans.len()))
        })?;
    }
    // Who knows a service need not know yet how its backends are reached.
    for (client, server, at) in &pairs {
        wait("from pod to pod", client, server, *at, true)?;
    }
    cluster.wait_until_known()?;
    let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    for number in [1, 2, 1, 2] {
        cluster.member(number).run(Node::kill_agent)?;
        thread::sleep(Duration::from_millis(200));
        cluster.member(number).run(Node::start_agent)?;
        cluster.wait_until_known()?;
    }
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    stop_clean(streams)
}
