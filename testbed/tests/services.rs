//! Services of a real agent: packets that come by them while it is killed and while they change.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Resource, getrlimit, setrlimit},
};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, Binaries, Cgroup, Neighbour, Netns, Node, Pod, Through},
    random::Random,
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Where backends serve.
const PORT: u16 = 7000;

fn service(name: &str, address: &str, transport: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "clusterIPs": [address], "ports": [{ "port": PORT, "protocol": transport }] },
    })
}

fn slice(name: &str, of: &str, transport: &str, port: u16, backends: &[IpAddr]) -> Value {
    let kind = if backends.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": of },
        },
        "addressType": kind,
        "ports": [{ "port": port, "protocol": transport }],
        "endpoints": backends.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
    })
}

fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

/// What the agent knows of services: their numbers, and where each is reached.
fn numbers(node: &Node) -> Result<Vec<Value>> {
    let all: Vec<Value> = node.rest().get("/service")?;
    let spec = |it: &Value| json!([it["spec"]["id"], it["spec"]["frontend-address"]]);
    Ok(all.iter().map(spec).collect())
}

fn wait_for_services(node: &mut Node, count: usize) -> Result<()> {
    node.wait("services are not there", |node| Ok(numbers(node)?.len() == count)).map(drop)
}

#[test]
fn packets_to_services_are_not_lost_whenever_the_agent_is_killed() {
    lab::test("packets_to_services_are_not_lost_whenever_the_agent_is_killed", || {
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        let kinds = [(Kind::Udp, "UDP"), (Kind::Tcp, "TCP"), (Kind::Connect, "TCP")];
        let (mut plans, mut objects) = (Vec::new(), Vec::new());
        for ipv6 in [false, true] {
            for (nth, (kind, transport)) in kinds.into_iter().enumerate() {
                let pod = |who: &str| {
                    let name = format!("shop/{who}-{nth}-{}", u8::from(ipv6));
                    Pod::create(&node, &name, &[("app", who)], Through::Rest)
                };
                let (client, server) = (pod("client")?, pod("server")?);
                let address = match ipv6 {
                    true => format!("fd96::{}", nth + 1),
                    false => format!("10.96.0.{}", nth + 1),
                };
                let name = format!("s{nth}{}", u8::from(ipv6));
                objects.push(service(&name, &address, transport));
                let backends = [server.address(ipv6)?];
                objects.push(slice(&name, &name, transport, PORT, &backends));
                let (from, to) = (client.netns.clone(), server.netns.clone());
                let target = SocketAddr::new(address.parse()?, PORT);
                plans.push(Plan { kind, from, to, target, rate: 200 });
            }
        }
        node.write_manifest("services.yaml", &list(&objects))?;
        wait_for_services(&mut node, plans.len())?;
        let before = numbers(&node)?;
        let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
        streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
        let longest = Duration::from_millis(120);
        node.kill_again_and_again(8, longest, &mut Random::new(11))?;
        node.wait_for_ready(12)?;
        wait_for_services(&mut node, before.len())?;
        stop_clean(streams)?;
        ensure!(numbers(&node)? == before, "numbers moved");
        Ok(())
    });
}

/// Answers one byte at each of these ports.
fn serve(netns: &Netns, ports: std::ops::Range<u16>, stop: &Arc<AtomicBool>) -> Result<()> {
    let bind = move || {
        let bind = |port| Ok(TcpListener::bind(("0.0.0.0", port))?);
        let all: Result<Vec<TcpListener>> = ports.map(bind).collect();
        all.context("cannot bind the servers")
    };
    let (listeners, stop) = (netns.run(bind)?, Arc::clone(stop));
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let mut polls: Vec<_> =
                listeners.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
            if poll(&mut polls, Some(&limit)).is_err() {
                return;
            }
            let ready = polls.iter().map(|it| !it.revents().is_empty()).collect::<Vec<_>>();
            for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
                while let Ok((stream, _)) = listener.accept() {
                    // What goes wrong here, the client sees.
                    let _ = exchange(stream, true);
                }
            }
        }
    });
    Ok(())
}

fn exchange(mut stream: TcpStream, answers: bool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(8)))?;
    let mut byte = [7];
    if !answers {
        stream.write_all(&byte)?;
    }
    stream.read_exact(&mut byte)?;
    if answers { stream.write_all(&byte) } else { Ok(()) }
}

/// Connects again and again; how often, and how often in vain.
fn connect(netns: &Netns, to: SocketAddr, stop: &Arc<AtomicBool>) -> Result<[Arc<AtomicU64>; 2]> {
    let counts = [Arc::<AtomicU64>::default(), Arc::default()];
    let (counted, stop) = (counts.clone(), Arc::clone(stop));
    drop(netns.spawn("connects", move || {
        while !stop.load(Ordering::Relaxed) {
            counted[0].fetch_add(1, Ordering::Relaxed);
            let stream = TcpStream::connect_timeout(&to, Duration::from_secs(8));
            if stream.and_then(|stream| exchange(stream, false)).is_err() {
                counted[1].fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    })?);
    Ok(counts)
}

#[test]
fn a_thousand_backends_are_replaced_again_and_again_while_the_agent_is_killed() {
    lab::test("a_thousand_backends_are_replaced_again_and_again_while_the_agent_is_killed", || {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        let pod = |name: &str| Pod::create(&node, name, &[("app", "web")], Through::Rest);
        let (client, servers) = (pod("shop/client")?, [pod("shop/one")?, pod("shop/two")?]);
        let backends = servers.iter().map(|pod| pod.address(false));
        let backends = backends.collect::<Result<Vec<_>>>()?;
        let stop = Arc::<AtomicBool>::default();
        servers.iter().try_for_each(|pod| serve(&pod.netns, 8000..9000, &stop))?;
        let generations = [8000, 8500].map(|first| {
            let slice = |port| slice(&format!("web-{}", port % 500), "web", "TCP", port, &backends);
            let slices = (first..first + 500).map(slice);
            list(
                &[service("web", "10.96.0.1", "TCP")].into_iter().chain(slices).collect::<Vec<_>>(),
            )
        });
        let target = SocketAddr::new("10.96.0.1".parse()?, PORT);
        node.write_manifest("services.yaml", &generations[0])?;
        node.wait("the first backends are not there", |node| {
            let all: Vec<Value> = node.rest().get("/service")?;
            let backends = all.first().and_then(|it| it["spec"]["backend-addresses"].as_array());
            Ok(backends.is_some_and(|all| all.len() == 1000))
        })?;
        let before = numbers(&node)?;
        let [tried, failed] = connect(&client.netns, target, &stop)?;
        let mut random = Random::new(5);
        for round in 1..=16 {
            node.write_manifest("services.yaml", &generations[round % 2])?;
            thread::sleep(random.below(Duration::from_millis(80)));
            node.kill_agent()?;
            node.exec_agent()?;
            thread::sleep(random.below(Duration::from_millis(200)));
        }
        node.wait_for_ready(3)?;
        node.wait("the last backends are not there", |node| {
            let all: Vec<Value> = node.rest().get("/service")?;
            let backends = all.first().and_then(|it| it["spec"]["backend-addresses"].as_array());
            let is_of_last = |it: &Value| it["port"].as_u64().is_some_and(|port| port < 8500);
            Ok(backends.is_some_and(|all| all.len() == 1000 && all.iter().all(is_of_last)))
        })?;
        let last = tried.load(Ordering::Relaxed);
        lab::wait_for("more connections", || Ok(tried.load(Ordering::Relaxed) > last + 20))?;
        stop.store(true, Ordering::Relaxed);
        let failed = failed.load(Ordering::Relaxed);
        ensure!(failed == 0 && last > 100, "{failed} of {last} connections failed");
        ensure!(numbers(&node)? == before, "the service's number moved");
        Ok(())
    });
}

/// A process of the cgroup, in a namespace, that connects a datagram socket there and sends as long as
/// it can.
fn sender(cgroup: &Cgroup, netns: &Netns, to: SocketAddr) -> Result<Child> {
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec 3<>/dev/udp/{}/{} && \
         while printf '?' >&3; do sleep 0.02; done",
        cgroup.path().display(),
        to.ip(),
        to.port(),
    );
    netns.run(move || {
        let mut command = Command::new("timeout");
        Ok(command.args(["40", "bash", "-c", &script]).stderr(Stdio::null()).spawn()?)
    })
}

/// The node's sockets and those of its pods that are connected to a backend hear when it is gone from
/// its service, though it lives; also if it went while the agent was dead. Others go on.
#[test]
fn a_datagram_socket_hears_that_its_backend_is_gone() {
    lab::test("a_datagram_socket_hears_that_its_backend_is_gone", || {
        // The node has an address by it.
        let _neighbour = Neighbour::connect()?;
        let mut node = Node::new(Binaries::find()?)?;
        let cgroup = Cgroup::create(&node.path("cgroups"))?;
        node.set_flag("bpf-lb-sock", Some("true"));
        node.set_flag("cgroup-root", Some(&cgroup.path().display().to_string()));
        node.start_agent()?;
        let pod = |name: &str| Pod::create(&node, &format!("shop/{name}"), &[], Through::Cni);
        let (first, second, client) = (pod("first")?, pod("second")?, pod("client")?);
        let here = Netns::open(Path::new("/proc/self/ns/net"))?;
        let bind = || Ok(UdpSocket::bind(("0.0.0.0", PORT))?);
        let servers = [first.netns.run(bind)?, second.netns.run(bind)?];
        let web = |backend: &Pod| -> Result<String> {
            let backends = [backend.address(false)?];
            let slice = slice("web", "web", "UDP", PORT, &backends);
            Ok(list(&[service("web", "10.96.0.1", "UDP"), slice]))
        };
        let to: SocketAddr = (Ipv4Addr::new(10, 96, 0, 1), PORT).into();
        let (mut from, mut other) = (&first, &second);
        for kills in [false, true] {
            node.write_manifest("services.yaml", &web(from)?)?;
            let leads = format!("{}", from.address(false)?);
            node.wait("the service leads elsewhere", |node| {
                let all: Vec<Value> = node.rest().get("/service")?;
                Ok(all.iter().any(|it| it["spec"]["backend-addresses"][0]["ip"] == leads[..]))
            })?;
            let mut senders = [sender(&cgroup, &here, to)?, sender(&cgroup, &client.netns, to)?];
            let server = &servers[usize::from(kills)];
            server.set_read_timeout(Some(Duration::from_secs(10)))?;
            let mut heard = std::collections::BTreeSet::new();
            while heard.len() < 2 {
                let from =
                    server.recv_from(&mut [0]).with_context(|| format!("only {heard:?} send"))?;
                heard.insert(from.1);
            }
            for sender in &mut senders {
                ensure!(sender.try_wait()?.is_none(), "it ended although its backend is there");
            }
            if kills {
                node.kill_agent()?;
            }
            node.write_manifest("services.yaml", &web(other)?)?;
            if kills {
                node.start_agent()?;
            }
            for sender in &mut senders {
                let status = sender.wait()?;
                ensure!(status.code() != Some(124), "it sent on, though its backend was gone");
            }
            (from, other) = (other, from);
        }
        Ok(())
    });
}

/// Which of the servers a new connection reaches, and its two ends.
fn reached(
    client: &Pod,
    to: SocketAddr,
    servers: &[TcpListener; 2],
) -> Result<(usize, TcpStream, TcpStream)> {
    let connect = move || Ok(TcpStream::connect_timeout(&to, Duration::from_secs(8))?);
    let near = client.netns.run(connect)?;
    let own = near.local_addr()?;
    for _ in 0..200 {
        for (nth, server) in servers.iter().enumerate() {
            match server.accept() {
                Ok((far, from)) if from == own => return Ok((nth, near, far)),
                _ => {}
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!("the connection is nobody's")
}

/// Who is quarantined keeps its connections and gets no new ones, whatever agents come and go, until
/// it is released.
#[test]
fn a_quarantined_backend_keeps_what_it_has_and_gets_nothing_new() {
    lab::test("a_quarantined_backend_keeps_what_it_has_and_gets_nothing_new", || {
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        let pod = |name: &str| Pod::create(&node, &format!("shop/{name}"), &[], Through::Cni);
        let (first, second, client) = (pod("first")?, pod("second")?, pod("client")?);
        let bind = || {
            let listener = TcpListener::bind(("0.0.0.0", PORT))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let servers = [first.netns.run(bind)?, second.netns.run(bind)?];
        let places = [first.address(false)?, second.address(false)?];
        let web = |backends| slice("web", "web", "TCP", PORT, backends);
        let objects = |backends| list(&[service("web", "10.96.0.1", "TCP"), web(backends)]);
        let leads = |node: &mut Node, count| {
            node.wait("the service leads elsewhere", |node| {
                let all: Vec<Value> = node.rest().get("/service")?;
                let backends = |it: &Value| it["spec"]["backend-addresses"].as_array().cloned();
                Ok(all.first().and_then(backends).is_some_and(|all| all.len() == count))
            })
        };
        let to: SocketAddr = (Ipv4Addr::new(10, 96, 0, 1), PORT).into();
        node.write_manifest("services.yaml", &objects(&places[..1]))?;
        leads(&mut node, 1)?;
        let (nth, mut near, mut far) = reached(&client, to, &servers)?;
        ensure!(nth == 0, "there is only one");
        node.write_manifest("services.yaml", &objects(&places))?;
        leads(&mut node, 2)?;
        let unknown = node.volvox("backend quarantine 10.9.9.9:7000/TCP");
        ensure!(unknown.is_err_and(|it| it.to_string().contains("no service has a backend")));
        let place = format!("{}:{PORT}/TCP", places[0]);
        let said = node.volvox(&format!("backend quarantine {place}"))?;
        ensure!(said.contains("quarantined"), "{said}");
        let only_second = |when: &str| -> Result<()> {
            for _ in 0..24 {
                let (nth, ..) = reached(&client, to, &servers)?;
                ensure!(nth == 1, "a new connection came to who is quarantined, {when}");
            }
            Ok(())
        };
        only_second("at once")?;
        node.kill_agent()?;
        only_second("without an agent")?;
        node.start_agent()?;
        leads(&mut node, 2)?;
        only_second("after a restart")?;
        let mut byte = [7];
        near.write_all(&byte)?;
        far.set_nonblocking(false)?;
        far.set_read_timeout(Some(Duration::from_secs(8)))?;
        far.read_exact(&mut byte).context("the connection from before is lost")?;
        let rows = node.volvox("bpf lb list")?;
        ensure!(rows.contains("1 used, 1 quarantined"), "{rows}");
        ensure!(node.volvox("status")?.contains("1 quarantined"), "status does not say it");
        node.volvox(&format!("backend release {place}"))?;
        lab::wait_for("who was released is reached", || Ok(reached(&client, to, &servers)?.0 == 0))
    });
}
