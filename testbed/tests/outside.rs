//! A node and the world: what pods send out leaves as the node, what the world sends to services
//! finds its backends, and neither notices what happens to the agent.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_sim::random::Random;
use volvox_testbed::{
    lab::{self, Binaries, Neighbour, Netns, Node, Pod, Setup, Through},
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Kills the agent again and again while streams go on.
fn kill_under(node: &mut Node, pods: usize, plans: Vec<Plan>) -> Result<()> {
    let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    let longest = Duration::from_millis(120);
    node.kill_again_and_again(8, longest, &mut Random::new(3))?;
    node.wait_for_ready(pods)?;
    stop_clean(streams).map(drop)
}

/// By which address the receiver sees the sender.
fn seen_as(from: &Netns, to: &Netns, at: SocketAddr) -> Result<IpAddr> {
    let any: IpAddr = if at.is_ipv6() { "::".parse()? } else { "0.0.0.0".parse()? };
    let receiver = to.run(|| Ok(UdpSocket::bind((any, at.port()))?))?;
    receiver.set_read_timeout(Some(Duration::from_secs(4)))?;
    let sender = from.run(|| Ok(UdpSocket::bind((any, 0))?))?;
    sender.set_read_timeout(Some(Duration::from_secs(4)))?;
    sender.send_to(b"?", at)?;
    let (_, source) = receiver.recv_from(&mut [0])?;
    receiver.send_to(b"!", source)?;
    let (_, answerer) = sender.recv_from(&mut [0])?;
    ensure!(answerer == at, "{answerer} answered for {at}");
    Ok(source.ip())
}

#[test]
fn pods_go_out_as_their_node_whenever_the_agent_is_killed() {
    lab::test("pods_go_out_as_their_node_whenever_the_agent_is_killed", || {
        let neighbour = Neighbour::connect()?;
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        node.wait_for_device()?;
        // Two streams of TCP must not share a namespace, and the world has one only.
        let rounds = [
            vec![(Kind::Udp, false), (Kind::Ping, false), (Kind::Ping, true), (Kind::Tcp, false)],
            vec![(Kind::Udp, true), (Kind::Connect, true)],
        ];
        let mut pods = Vec::new();
        for round in rounds {
            let mut plans = Vec::new();
            for (kind, ipv6) in round {
                let name = format!("shop/client-{}", pods.len());
                let pod = Pod::create(&node, &name, &[("app", "client")], Through::Rest)?;
                let [theirs, ours] = Neighbour::addresses(ipv6);
                let target = SocketAddr::new(theirs, 6000 + u16::try_from(pods.len())?);
                let seen = seen_as(&pod.netns, neighbour.netns(), target)?;
                ensure!(seen == ours, "{} is seen as {seen}, not {ours}", pod.name);
                let (from, to) = (pod.netns.clone(), neighbour.netns().clone());
                plans.push(Plan { kind, from, to, target, rate: 200 });
                pods.push(pod);
            }
            kill_under(&mut node, pods.len(), plans)?;
        }
        Ok(())
    });
}

/// A service of that kind, served by these.
fn service(name: &str, spec: Value, status: Value, port: u16, backends: &[IpAddr]) -> [Value; 2] {
    let kind = if backends.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    let metadata = json!({ "namespace": "shop", "name": name });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": name },
        },
        "addressType": kind,
        "ports": [{ "port": port, "protocol": spec["ports"][0]["protocol"] }],
        "endpoints": backends.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec,
        "status": status,
    });
    [service, slice]
}

fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

#[test]
fn the_world_reaches_node_ports_whenever_the_agent_is_killed() {
    lab::test("the_world_reaches_node_ports_whenever_the_agent_is_killed", || {
        let neighbour = Neighbour::connect()?;
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        node.wait_for_device()?;
        let (mut plans, mut objects) = (Vec::new(), Vec::new());
        for ipv6 in [false, true] {
            for (kind, transport) in [(Kind::Udp, "UDP"), (Kind::Connect, "TCP")] {
                // The two of TCP would share the world's namespace.
                if kind == Kind::Connect && ipv6 {
                    continue;
                }
                let nth = plans.len();
                let name = format!("shop/server-{nth}");
                let pod = Pod::create(&node, &name, &[("app", "server")], Through::Rest)?;
                let [_, ours] = Neighbour::addresses(ipv6);
                let port = 30_080 + u16::try_from(nth)?;
                let cluster = if ipv6 { "fd96::1" } else { "10.96.0.1" };
                let spec = json!({
                    "type": "NodePort", "clusterIPs": [cluster],
                    "ports": [{ "port": 80 + nth, "nodePort": port, "protocol": transport }],
                });
                let backends = [pod.address(ipv6)?];
                objects.extend(service(&format!("s{nth}"), spec, json!({}), port, &backends));
                let (from, to) = (neighbour.netns().clone(), pod.netns.clone());
                let target = SocketAddr::new(ours, port);
                plans.push(Plan { kind, from, to, target, rate: 200 });
            }
        }
        node.write_manifest("services.yaml", &list(&objects))?;
        node.wait("services are not there", |node| {
            let is_node_port = |it: &&Value| it["flags"]["type"] == json!("NodePort");
            Ok(node.served()?.iter().filter(is_node_port).count() >= 3)
        })?;
        for plan in &plans {
            if plan.kind == Kind::Udp {
                let pod = &plan.to;
                let [theirs, _] = Neighbour::addresses(plan.target.is_ipv6());
                let seen = seen_as(neighbour.netns(), pod, plan.target)?;
                ensure!(seen == theirs, "a client is seen as {seen}, not as itself");
            }
        }
        kill_under(&mut node, 3, plans)
    });
}

/// Whether a connection comes to be.
fn connects(from: &Netns, to: SocketAddr) -> Result<bool> {
    from.run(|| Ok(TcpStream::connect_timeout(&to, Duration::from_millis(800)).is_ok()))
}

#[test]
fn a_load_balancers_address_admits_whom_its_ranges_name() {
    lab::test("a_load_balancers_address_admits_whom_its_ranges_name", || {
        let neighbour = Neighbour::connect()?;
        let setup = Setup::new().pod("shop/server", &[("app", "server")]);
        let (mut node, [pod]) = setup.start()?;
        node.wait_for_device()?;
        let _server = pod.netns.run(|| Ok(TcpListener::bind("0.0.0.0:8080")?))?;
        let backends = [pod.address(false)?];
        let offer = |ranges: &[&str]| {
            let spec = json!({
                "type": "LoadBalancer", "clusterIPs": ["10.96.0.9"],
                "loadBalancerSourceRanges": ranges,
                "ports": [{ "port": 80, "protocol": "TCP" }],
            });
            let status = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } });
            list(&service("lb", spec, status, 8080, &backends))
        };
        let reaches =
            |address: &str| connects(neighbour.netns(), SocketAddr::new(address.parse()?, 80));
        for (ranges, admitted) in
            [(&["198.51.100.0/24"][..], true), (&["192.0.2.0/24"][..], false), (&[][..], true)]
        {
            node.write_manifest("service.yaml", &offer(ranges))?;
            node.wait(&format!("{ranges:?} are not in force"), |_| {
                Ok(reaches("203.0.113.9")? == admitted)
            })?;
            ensure!(!reaches("10.96.0.9")?, "the world reached a cluster's address");
        }
        Ok(())
    });
}
