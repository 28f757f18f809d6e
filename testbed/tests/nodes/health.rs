//! Nodes probe each other and each other's health endpoints. A restart is no gap for anybody, and who is cut off is
//! named soon.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use volvox_system::netlink::Socket;
use volvox_testbed::{
    lab::{self, Member, Node, Setup, ip, wait_for},
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// What is said of a node that cannot be reached.
const SAID: &str = "node default/n2 cannot be reached";
const UNREACHED: &str = "node n2 cannot be reached";
/// How soon, and how much later a busy machine may say it.
const SOON: Duration = Duration::from_secs(30);
const BUSY: Duration = Duration::from_secs(15);
const PORT: u16 = 4240;
/// What holds the namespace of a health endpoint.
const FILE: &str = "health-endpoint.netns";

/// The node's health endpoint.
fn endpoint(node: &Node) -> Result<Value> {
    let all = node.endpoints()?;
    let mut own = all
        .into_iter()
        .filter(|it| it["status"]["external-identifiers"]["container-name"] == "cilium-health");
    let endpoint = own.next().context("there is no health endpoint")?;
    ensure!(own.next().is_none(), "there are two");
    Ok(endpoint)
}

fn is_ready(node: &Node) -> bool {
    endpoint(node).is_ok_and(|it| it["status"]["state"] == "ready")
}

/// Its number, interface and addresses.
fn place(node: &Node) -> Result<[Value; 3]> {
    let mut it = endpoint(node)?;
    let networking = &mut it["status"]["networking"];
    let (ifindex, addresses) =
        (networking["interface-index"].take(), networking["addressing"].take());
    Ok([it["id"].take(), ifindex, addresses])
}

fn address(node: &Node) -> Result<IpAddr> {
    let [_, _, addresses] = place(node)?;
    addresses[0]["ipv4"].as_str().and_then(|ip| ip.parse().ok()).context("it has no address")
}

/// Waits until kernel, disk and agent agree.
fn is_well(node: &Node) -> Result<()> {
    wait_for("nothing differs", || {
        let lib = node.path("lib").display().to_string();
        let verdict = node.client(&format!("verify --lib-dir={lib}")).output()?;
        Ok(verdict.status.success())
    })
}

/// What is answered there, from a node's namespace.
fn ask(member: &Member, to: IpAddr, path: &str) -> Result<String> {
    member.netns.run(|| {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::new(to, PORT), SOON)?;
        stream.set_read_timeout(Some(SOON))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    })
}

#[test]
fn a_restart_is_no_gap_and_who_is_cut_off_is_named() {
    lab::test("health::a_restart_is_no_gap_and_who_is_cut_off_is_named", || {
        let setup = Setup::new().flag("enable-health-checking", "true");
        let (mut cluster, []) = setup.start_nodes(2)?;
        wait_for("both nodes have a health endpoint", || {
            let ready = [1, 2].map(|number| cluster.member(number).run(|node| Ok(is_ready(node))));
            Ok(ready.into_iter().collect::<Result<Vec<_>>>()?.iter().all(|it| *it))
        })?;
        wait_for("the first node reaches all of the second", || {
            let said = cluster.member(1).run(|node| node.volvox("health"))?;
            let of_second = said.lines().find(|line| line.contains("n2 ")).unwrap_or_default();
            Ok(of_second.contains("2/2") && !of_second.contains("none") && said.contains("2 of 2"))
        })?;
        let before = cluster.member(2).run(|node| place(node))?;
        let at = cluster.member(2).run(|node| address(node))?;
        let host = cluster.member(2).address(false)?;
        for to in [at, host] {
            let one = cluster.member(1);
            ensure!(ask(one, to, "/hello")?.contains("200"), "{to} does not answer");
            ensure!(ask(one, to, "/healthz")?.contains("404"), "{to} answers what it should not");
        }
        // Through the tunnel to the other node's endpoint, while its agent is killed.
        let (from, to) = (cluster.member(1).netns.clone(), cluster.member(2).netns.clone());
        let target = SocketAddr::new(at, 0);
        let pings = Stream::start(Plan { kind: Kind::Ping, from, to, target, rate: 200 })?;
        pings.wait_for_answers(10)?;
        for _ in 0..2 {
            cluster.member(2).run(|node| {
                node.kill_agent()?;
                node.start_agent()?;
                node.wait("its health endpoint is not ready", |node| Ok(is_ready(node)))
            })?;
            let one = cluster.member(1);
            wait_for("it is answered by HTTP again", || {
                Ok(ask(one, at, "/hello").is_ok_and(|it| it.contains("200")))
            })?;
            let said = one.run(|node| node.volvox("status"))?;
            ensure!(!said.contains("cannot be reached"), "a restart is a gap: {said}");
        }
        stop_clean([pings])?;
        ensure!(cluster.member(2).run(|node| place(node))? == before, "something moved");
        cluster.member(2).run(|node| is_well(node))?;

        ip("link set n2 nomaster")?;
        let cut_off = Instant::now();
        named(cluster.member(1), true)?;
        ensure!(cut_off.elapsed() < SOON + BUSY, "named after {:?}", cut_off.elapsed());
        let why = cluster.member(1).run(|node| node.volvox("why"))?;
        ensure!(why.contains("cannot be reached"), "{why}");
        ip("link set n2 master cluster")?;
        named(cluster.member(1), false)?;

        let member = cluster.members.remove(0);
        let netns = member.netns.clone();
        member.uninstall()?;
        netns.run(|| nothing_is_left("volvox-n1"))
    });
}

/// Waits until the second node is named by the first, or is not any more.
fn named(member: &mut Member, expected: bool) -> Result<()> {
    wait_for(&format!("that a node is named is {expected}"), || {
        let said = member.run(|node| node.volvox("status"))?;
        Ok((said.contains(SAID) || said.contains(UNREACHED)) == expected)
    })
}

/// No interface and no namespace of the endpoint.
fn nothing_is_left(root: &str) -> Result<()> {
    let links = Socket::open()?.links()?;
    let ours = links.values().find(|link| link.name == "lxc_health");
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo")?;
    let mount = mounts.lines().find(|line| line.contains(&format!("{root}/cilium/{FILE}")));
    ensure!(ours.is_none() && mount.is_none(), "left: {ours:?}, {mount:?}");
    Ok(())
}

#[test]
fn an_agent_that_is_killed_on_the_way_leaves_nothing() {
    lab::test("health::an_agent_that_is_killed_on_the_way_leaves_nothing", || {
        let setup = Setup::new().flag("enable-health-checking", "true");
        let (mut node, []) = setup.start()?;
        node.wait("its health endpoint is not ready", |node| Ok(is_ready(node)))?;
        let before = address(&node)?;
        // The calls by which the namespace, the mount and interfaces are made, each in turn.
        for (call, when) in [("mount", 1), ("unshare", 1), ("setns", 2)] {
            node.kill_agent()?;
            // As with a container: all that holds the namespace is gone with it.
            drop_place(&node)?;
            node.doom(call, when);
            node.exec_agent()?;
            let deadline = Instant::now() + SOON;
            while node.has_agent() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            if node.has_agent() {
                bail!("it was not killed before {call} {when}");
            }
            node.bury_agent();
            node.start_agent()?;
            node.wait("its health endpoint is not ready again", |node| Ok(is_ready(node)))?;
            ensure!(address(&node)? == before, "{call} {when}: its address changed");
            let links = Socket::open()?.links()?;
            let count = links.values().filter(|link| link.name.starts_with("lxc_health")).count();
            let mounts = fs::read_to_string("/proc/thread-self/mountinfo")?;
            let mounts = mounts.lines().filter(|line| line.contains(FILE)).count();
            ensure!((count, mounts) == (1, 1), "{call} {when}: {count} links, {mounts} mounts");
            is_well(&node)?;
        }
        node.uninstall()?;
        nothing_is_left("volvox")
    });
}

/// Unmounts the namespace: nothing else holds it, and its interfaces go.
fn drop_place(node: &Node) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    unmount(node.path("cilium").join(FILE), UnmountFlags::DETACH)?;
    wait_for("its interface is gone", || Ok(Socket::open()?.link_by_name("lxc_health")?.is_none()))
}
