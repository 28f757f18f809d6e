//! Policies of the node itself: what they let pass is not lost and what they deny does not pass,
//! whatever happens to the agent.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_sim::random::Random;
use volvox_testbed::{
    lab::{self, Binaries, Neighbour, Netns, Node, Pod, Through, wait_for},
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// What the world may use of the node.
const TCP_OPEN: u16 = 7100;
const UDP_OPEN: u16 = 7101;
/// What it may not.
const UDP_CLOSED: u16 = 7102;
/// What the node may use of the world, and what it may not.
const OUT_OPEN: u16 = 7103;
const OUT_CLOSED: u16 = 7104;

/// Datagrams that must not arrive, sent all the while.
struct Forbidden {
    what: String,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: JoinHandle<Result<()>>,
    receiver: UdpSocket,
}

impl Forbidden {
    fn start(from: &Netns, to: &Netns, target: SocketAddr) -> Result<Self> {
        let any: IpAddr = if target.is_ipv6() { "::".parse()? } else { "0.0.0.0".parse()? };
        let receiver = to.run(|| Ok(UdpSocket::bind((any, target.port()))?))?;
        receiver.set_nonblocking(true)?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let sender = from.spawn("forbidden", move || {
            let socket = UdpSocket::bind((any, 0))?;
            while !stopped.load(Ordering::Relaxed) {
                // The kernel refuses what is dropped on the way out.
                let _ = socket.send_to(b"?", target);
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        })?;
        Ok(Self { what: format!("datagrams to {target}"), stop, sent, sender, receiver })
    }

    /// Stops, and fails if one arrived.
    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().ok().context("the sender panicked")??;
        thread::sleep(Duration::from_millis(50));
        let sent = self.sent.load(Ordering::Relaxed);
        ensure!(sent > 100, "only {sent} {} were tried", self.what);
        let mut arrived = 0;
        while self.receiver.recv(&mut [0; 8]).is_ok() {
            arrived += 1;
        }
        ensure!(arrived == 0, "{arrived} of {sent} {} arrived", self.what);
        Ok(())
    }
}

/// Whether one of a few datagrams arrives.
fn arrives(from: &Netns, to: &Netns, target: SocketAddr) -> Result<bool> {
    let any: IpAddr = if target.is_ipv6() { "::".parse()? } else { "0.0.0.0".parse()? };
    let receiver = to.run(|| Ok(UdpSocket::bind((any, target.port()))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = from.run(|| Ok(UdpSocket::bind((any, 0))?))?;
    for _ in 0..5 {
        let _ = sender.send_to(b"?", target);
    }
    Ok(receiver.recv(&mut [0; 8]).is_ok())
}

/// What nodes of that role let in and send out.
fn policy(role: &str) -> String {
    let world = json!(["198.51.100.0/24", "2001:db8:1::/64"]);
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumClusterwideNetworkPolicy",
        "metadata": { "name": "nodes" },
        "spec": {
            "nodeSelector": { "matchLabels": { "role": role } },
            "ingress": [
                { "fromCIDR": world, "toPorts": [{ "ports": [
                    { "port": TCP_OPEN.to_string(), "protocol": "TCP" },
                    { "port": UDP_OPEN.to_string(), "protocol": "UDP" },
                ] }] },
                { "fromCIDR": world, "icmps": [{ "fields": [
                    { "type": 8 }, { "type": 128, "family": "IPv6" },
                ] }] },
            ],
            "egress": [{ "toEntities": ["all"] }],
            "egressDeny": [{ "toCIDR": world, "toPorts": [{ "ports": [
                { "port": OUT_CLOSED.to_string(), "protocol": "UDP" },
            ] }] }],
        },
    })
    .to_string()
}

/// Says how the node is labelled.
fn label(node: &Node, role: &str) -> Result<()> {
    let health: Value = node.rest().get("/healthz")?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": health["cluster"]["self"], "labels": { "role": role } },
    });
    node.write_manifest("node.yaml", &manifest.to_string())
}

/// The endpoint that is the node itself, if there is one.
fn host(node: &Node) -> Result<Option<Value>> {
    let all = node.endpoints()?;
    let is_host = |it: &Value| it["status"]["identity"]["id"] == json!(1);
    Ok(all.into_iter().find(is_host))
}

/// The node's own namespace.
fn own() -> Result<Netns> {
    Netns::open(Path::new("/proc/thread-self/ns/net"))
}

/// Waits until a datagram to there arrives, or does not any more.
fn wait_until(node: &mut Node, arrive: bool, way: (&Netns, &Netns), port: u16) -> Result<()> {
    let [theirs, ours] = Neighbour::addresses(false);
    let target = SocketAddr::new(if port >= OUT_OPEN { theirs } else { ours }, port);
    let complaint = format!("datagrams to {target}: arriving is not {arrive}");
    node.wait(&complaint, |_| Ok(arrives(way.0, way.1, target)? == arrive)).map(drop)
}

/// A node that is held to its policy, with a neighbour in the world and the number of pods.
fn held() -> Result<(Node, Neighbour)> {
    let neighbour = Neighbour::connect()?;
    let mut node = Node::new(Binaries::find()?)?;
    node.set_flag("enable-host-firewall", Some("true"));
    node.start_agent()?;
    node.wait_for_device()?;
    label(&node, "edge")?;
    node.write_manifest("policy.yaml", &policy("edge"))?;
    let here = own()?;
    wait_until(&mut node, false, (neighbour.netns(), &here), UDP_CLOSED)?;
    wait_until(&mut node, false, (&here, neighbour.netns()), OUT_CLOSED)?;
    Ok((node, neighbour))
}

#[test]
fn a_node_is_held_to_its_policy_whenever_the_agent_is_killed() {
    lab::test("a_node_is_held_to_its_policy_whenever_the_agent_is_killed", || {
        let (mut node, neighbour) = held()?;
        let (here, there) = (own()?, neighbour.netns().clone());
        let number = host(&node)?.context("there is no host endpoint")?["id"].clone();
        let _pod = Pod::create(&node, "shop/client", &[("app", "client")], Through::Rest)?;
        for ipv6 in [false, true] {
            let [theirs, ours] = Neighbour::addresses(ipv6);
            let plan = |kind, (from, to): (&Netns, &Netns), target| Plan {
                kind,
                from: from.clone(),
                to: to.clone(),
                target,
                rate: 200,
            };
            let (inward, outward) = ((&there, &here), (&here, &there));
            let plans = [
                plan(Kind::Connect, inward, SocketAddr::new(ours, TCP_OPEN)),
                plan(Kind::Udp, inward, SocketAddr::new(ours, UDP_OPEN)),
                plan(Kind::Ping, inward, SocketAddr::new(ours, 0)),
                plan(Kind::Udp, outward, SocketAddr::new(theirs, OUT_OPEN)),
            ];
            let forbidden = [
                Forbidden::start(&there, &here, SocketAddr::new(ours, UDP_CLOSED))?,
                Forbidden::start(&here, &there, SocketAddr::new(theirs, OUT_CLOSED))?,
            ];
            let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
            streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
            let longest = Duration::from_millis(150);
            node.kill_again_and_again(8, longest, &mut Random::new(3))?;
            node.wait_for_ready(2)?;
            stop_clean(streams)?;
            forbidden.into_iter().try_for_each(Forbidden::stop)?;
        }
        let now = host(&node)?.context("the host endpoint is gone")?;
        ensure!(now["id"] == number, "its number is {}, not {number}", now["id"]);
        Ok(())
    });
}

#[test]
fn a_node_is_held_to_policy_as_long_as_that_is_switched_on() {
    lab::test("a_node_is_held_to_policy_as_long_as_that_is_switched_on", || {
        let (mut node, neighbour) = held()?;
        let (here, there) = (own()?, neighbour.netns().clone());
        let host = |node: &Node| host(node)?.context("there is no host endpoint");
        let number = host(&node)?["id"].clone();
        let list = node.volvox("endpoint list")?;
        ensure!(list.contains("reserved:host"), "{list}");
        let shown = node.volvox(&format!("endpoint get {number}"))?;
        ensure!(shown.contains("none of its own") && shown.contains("k8s:role=edge"), "{shown}");
        for (method, body) in
            [("DELETE", None), ("PATCH", Some(json!({ "labels": ["k8s:role=core"] })))]
        {
            let path = format!("/endpoint/{number}");
            let answer = node.rest().request(method, &path, body.as_ref())?;
            ensure!(answer.status == 400, "{method}: {answer:?}");
        }

        // Labels choose the policy.
        label(&node, "core")?;
        wait_until(&mut node, true, (&there, &here), UDP_CLOSED)?;
        wait_until(&mut node, true, (&here, &there), OUT_CLOSED)?;
        label(&node, "edge")?;
        wait_until(&mut node, false, (&there, &here), UDP_CLOSED)?;

        // Off, everything passes, and the policy is said not to be enforced.
        node.set_flag("enable-host-firewall", None);
        node.stop_agent()?;
        node.start_agent()?;
        wait_until(&mut node, true, (&there, &here), UDP_CLOSED)?;
        wait_until(&mut node, true, (&here, &there), OUT_CLOSED)?;
        ensure!(node.endpoints()?.is_empty(), "there is a host endpoint");
        let policies: Value = node.rest().get("/volvox/policy")?;
        ensure!(policies["policies"][0]["unsupported"] != json!([]), "{policies}");
        let pin = format!("tc/globals/cilium_policy_v2_{:05}", number.as_u64().unwrap_or(0));
        let pin = node.bpf_root().join(pin);
        node.wait("its policy is still pinned", |_| Ok(!pin.exists()))?;

        // On again, it is who it was.
        node.set_flag("enable-host-firewall", Some("true"));
        node.stop_agent()?;
        node.start_agent()?;
        wait_until(&mut node, false, (&there, &here), UDP_CLOSED)?;
        wait_until(&mut node, false, (&here, &there), OUT_CLOSED)?;
        ensure!(host(&node)?["id"] == number, "it has another number");
        node.stop_agent()?;
        // Without an agent it goes on, until all is uninstalled.
        ensure!(!arrives(&there, &here, closed(false)?)?, "the policy ended with the agent");
        node.uninstall()?;
        let target = closed(false)?;
        wait_for("the policy goes with what was installed", || arrives(&there, &here, target))
    });
}

/// Where the world may not send on the node.
fn closed(ipv6: bool) -> Result<SocketAddr> {
    let [_, ours] = Neighbour::addresses(ipv6);
    Ok(SocketAddr::new(ours, UDP_CLOSED))
}
