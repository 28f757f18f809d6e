//! Services of a real agent: packets that come by them while it is killed and while they change.

mod leaving;
mod rows;

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
use volvox_sim::random::Random;
use volvox_testbed::{
    lab::{
        self, Binaries, Cgroup, Injection, Neighbour, Netns, Node, Pod, Setup, Through,
        objects::{list, service, slice},
    },
    traffic::{Kind, Plan, Stream, stop_clean},
};

use rows::Rows;

/// Where backends serve.
const PORT: u16 = 7000;
/// Where they are reached.
const WEB: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)), PORT);

/// Services that the kernel has, by the agent's word: their numbers, and where each is reached.
fn numbers(node: &Node) -> Result<Vec<Value>> {
    Ok(node.served()?.iter().map(|it| json!([it["id"], it["frontend-address"]])).collect())
}

/// The same of backends.
fn backends(node: &Node) -> Result<Vec<Value>> {
    let all: Vec<Value> = node.rest().get("/volvox/backends")?;
    Ok(all.iter().map(|it| json!([it["id"], it["ip"], it["port"], it["protocol"]])).collect())
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
                let target = SocketAddr::new(address.parse()?, PORT);
                objects.push(service(&name, target, transport));
                let backends = [server.address(ipv6)?];
                objects.push(slice(&name, &name, transport, PORT, &backends));
                let (from, to) = (client.netns.clone(), server.netns.clone());
                plans.push(Plan { kind, from, to, target, rate: 200 });
            }
        }
        node.write_manifest("services.yaml", &list(&objects))?;
        wait_for_services(&mut node, plans.len())?;
        let before = (numbers(&node)?, backends(&node)?);
        ensure!(before.1.len() == before.0.len(), "not every service has a backend: {before:?}");
        let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
        streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
        let longest = Duration::from_millis(120);
        node.kill_again_and_again(8, longest, &mut Random::new(11))?;
        node.wait_for_ready(12)?;
        wait_for_services(&mut node, before.0.len())?;
        stop_clean(streams)?;
        let after = (numbers(&node)?, backends(&node)?);
        ensure!(after == before, "numbers moved: {before:?}, {after:?}");
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

/// A service of a thousand backends, and who connects to it all the time.
struct Thousand {
    node: Node,
    /// Manifests with the same service and other backends.
    generations: [String; 2],
    /// Number of the service.
    number: Vec<Value>,
    /// What the kernel has of backends.
    rows: Rows,
    stop: Arc<AtomicBool>,
    tried: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    _pods: [Pod; 3],
}

impl Thousand {
    /// Starts all of it with the first generation of backends.
    fn start() -> Result<Self> {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
        let labels = [("app", "web")];
        let setup = Setup::new().pod("shop/client", &labels);
        let setup = setup.pod("shop/one", &labels).pod("shop/two", &labels);
        let (mut node, [client, servers @ ..]) = setup.start::<3>()?;
        let backends = servers.iter().map(|pod| pod.address(false));
        let backends = backends.collect::<Result<Vec<_>>>()?;
        let stop = Arc::<AtomicBool>::default();
        servers.iter().try_for_each(|pod| serve(&pod.netns, 8000..9000, &stop))?;
        // The second one is smaller: their number is written, too, and slots go.
        let generations = [8000..8500, 8500..8999].map(|ports| {
            let slice = |port| slice(&format!("web-{}", port % 500), "web", "TCP", port, &backends);
            let slices = ports.map(slice);
            list(&[service("web", WEB, "TCP")].into_iter().chain(slices).collect::<Vec<_>>())
        });
        node.write_manifest("services.yaml", &generations[0])?;
        has_generation(&mut node, 0)?;
        let number = numbers(&node)?;
        let [tried, failed] = connect(&client.netns, WEB, &stop)?;
        let (rows, [one, two]) = (Rows::read(&node)?, servers);
        let _pods = [client, one, two];
        Ok(Self { node, generations, number, rows, stop, tried, failed, _pods })
    }

    /// Has the backends replaced by those of a generation.
    fn replace(&self, generation: usize) -> Result<()> {
        self.node.write_manifest("services.yaml", &self.generations[generation])
    }

    /// Has the backends replaced by an agent that is killed before its `when`th call, and by the next
    /// one. False if there was no such call.
    fn replace_killed_at(&mut self, when: u32, generation: usize) -> Result<bool> {
        let effect = format!("signal=KILL:when={when}");
        let strace = Injection::attach(self.node.agent()?.pid(), "bpf", &effect)?;
        self.replace(generation)?;
        let mut survived = false;
        lab::wait_for("the agent dies or is done", || {
            survived = is_at(&self.node, generation).unwrap_or_default();
            Ok(survived || self.node.agent()?.check().is_err())
        })?;
        drop(strace);
        // It may have died as strace let go of it.
        survived &= self.node.served().is_ok();
        self.look().with_context(|| format!("killed at call {when}"))?;
        if !survived {
            // Only what is in the maps counts meanwhile.
            self.connected(8).with_context(|| format!("killed at call {when}"))?;
            self.node.kill_agent()?;
            self.node.start_agent()?;
            has_generation(&mut self.node, generation)?;
            self.look().with_context(|| format!("after a death at call {when}"))?;
        }
        Ok(!survived)
    }

    /// Fails if a number moved.
    fn look(&mut self) -> Result<()> {
        let now = Rows::read(&self.node)?;
        self.rows.ensure_kept(&now)?;
        self.rows = now;
        Ok(())
    }

    /// The same of the backends of a generation only: others may have gone and come back.
    fn look_at(&mut self, generation: usize) -> Result<()> {
        self.rows.0.retain(|_, at| is_of(generation, at.port()));
        self.look()
    }

    /// Waits for some connections from now on; fails if there was ever one in vain.
    fn connected(&self, more: u64) -> Result<()> {
        let before = self.tried.load(Ordering::Relaxed);
        lab::wait_for("more connections", || {
            let failed = self.failed.load(Ordering::Relaxed);
            let tried = self.tried.load(Ordering::Relaxed);
            ensure!(failed == 0, "{failed} of {tried} connections failed");
            Ok(tried > before + more)
        })
    }

    fn end(mut self) -> Result<()> {
        self.look()?;
        self.connected(100)?;
        self.stop.store(true, Ordering::Relaxed);
        ensure!(numbers(&self.node)? == self.number, "the service's number moved");
        Ok(())
    }
}

/// Whether the service leads to a generation of backends, and the kernel has all of them; rows of the other
/// one may stay for connections.
fn is_at(node: &Node, generation: usize) -> Result<bool> {
    let all = node.served()?;
    let backends = all.first().and_then(|it| it["backend-addresses"].as_array());
    let is_of_it = |it: &Value| {
        let port = it["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        port.is_some_and(|port| is_of(generation, port))
    };
    let is_led = |all: &Vec<_>| all.len() == size(generation) && all.iter().all(is_of_it);
    let rows = Rows::read(node)?.0;
    let there = rows.values().filter(|at| is_of(generation, at.port())).count();
    Ok(backends.is_some_and(is_led) && there == size(generation))
}

fn has_generation(node: &mut Node, generation: usize) -> Result<()> {
    node.wait("the backends are not there", |node| is_at(node, generation)).map(drop)
}

/// Whether the backend at a port is of a generation.
const fn is_of(generation: usize, port: u16) -> bool {
    (port >= 8500) == (generation == 1)
}

/// How many backends a generation has.
const fn size(generation: usize) -> usize {
    1000 - 2 * generation
}

#[test]
fn a_thousand_backends_are_replaced_again_and_again_while_the_agent_is_killed() {
    lab::test("a_thousand_backends_are_replaced_again_and_again_while_the_agent_is_killed", || {
        let mut web = Thousand::start()?;
        let mut random = Random::new(5);
        for round in 1..=16 {
            web.replace(round % 2)?;
            thread::sleep(random.below(Duration::from_millis(80)));
            web.node.kill_agent()?;
            // Of the other one the agent may have removed what was left, and made it again.
            web.look_at((round + 1) % 2)?;
            web.node.exec_agent()?;
            thread::sleep(random.below(Duration::from_millis(200)));
        }
        web.node.wait_for_ready(3)?;
        has_generation(&mut web.node, 0)?;
        web.end()
    });
}

/// More system calls than any thread makes while a thousand backends are replaced.
const CALLS_MAX: u32 = 100;
/// Steps of it: numbers, backends, slots, how many there are, and which slots are too many. Backends that
/// left keep their rows as long as connections may have them.
const STEPS_MIN: usize = 5;

#[test]
fn a_thousand_backends_are_replaced_by_an_agent_that_is_killed_at_every_step() {
    lab::test("a_thousand_backends_are_replaced_by_an_agent_that_is_killed_at_every_step", || {
        let mut web = Thousand::start()?;
        let mut deaths = [0; 2];
        for when in 1..CALLS_MAX {
            let died = [web.replace_killed_at(when, 1)?, web.replace_killed_at(when, 0)?];
            deaths.iter_mut().zip(died).for_each(|(all, died)| *all += usize::from(died));
            if died == [false, false] {
                break;
            }
        }
        // Fewer backends, then more: then no slot is too many.
        ensure!(deaths[0] >= STEPS_MIN && deaths[1] >= STEPS_MIN - 1, "only {deaths:?} deaths");
        web.end()
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

/// Two servers and their client.
fn pods() -> Setup<'static> {
    Setup::new()
        .with_plugin()
        .pod("shop/first", &[])
        .pod("shop/second", &[])
        .pod("shop/client", &[])
}

/// The node's sockets and those of its pods that are connected to a backend hear when it is gone from
/// its service, though it lives; also if it went while the agent was dead. Others go on.
#[test]
fn a_datagram_socket_hears_that_its_backend_is_gone() {
    lab::test("a_datagram_socket_hears_that_its_backend_is_gone", || {
        // The node has an address by it.
        let _neighbour = Neighbour::connect()?;
        let cgroup = Cgroup::create(&lab::path("cgroups"))?;
        let root = cgroup.path().display().to_string();
        let setup = pods().flag("bpf-lb-sock", "true").flag("cgroup-root", &root);
        let (mut node, [first, second, client]) = setup.start()?;
        let here = Netns::open(Path::new("/proc/self/ns/net"))?;
        let bind = || Ok(UdpSocket::bind(("0.0.0.0", PORT))?);
        let servers = [first.netns.run(bind)?, second.netns.run(bind)?];
        let web = |backend: &Pod| -> Result<String> {
            let backends = [backend.address(false)?];
            let slice = slice("web", "web", "UDP", PORT, &backends);
            Ok(list(&[service("web", WEB, "UDP"), slice]))
        };
        let (mut from, mut other) = (&first, &second);
        for kills in [false, true] {
            node.write_manifest("services.yaml", &web(from)?)?;
            let leads = format!("{}", from.address(false)?);
            node.wait("the service leads elsewhere", |node| {
                let all = node.served()?;
                Ok(all.iter().any(|it| it["backend-addresses"][0]["ip"] == leads[..]))
            })?;
            let mut senders = [sender(&cgroup, &here, WEB)?, sender(&cgroup, &client.netns, WEB)?];
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
fn reached(client: &Pod, servers: &[TcpListener; 2]) -> Result<(usize, TcpStream, TcpStream)> {
    let connect = || Ok(TcpStream::connect_timeout(&WEB, Duration::from_secs(8))?);
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

/// Listens in a pod, and waits for nobody.
fn listener(pod: &Pod) -> Result<TcpListener> {
    let listener = pod.netns.run(|| Ok(TcpListener::bind(("0.0.0.0", PORT))?))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Who is quarantined keeps its connections and gets no new ones, whatever agents come and go, until
/// it is released.
#[test]
fn a_quarantined_backend_keeps_what_it_has_and_gets_nothing_new() {
    lab::test("a_quarantined_backend_keeps_what_it_has_and_gets_nothing_new", || {
        let (mut node, [first, second, client]) = pods().start()?;
        let servers = [listener(&first)?, listener(&second)?];
        let places = [first.address(false)?, second.address(false)?];
        let web = |backends| slice("web", "web", "TCP", PORT, backends);
        let objects = |backends| list(&[service("web", WEB, "TCP"), web(backends)]);
        let leads = |node: &mut Node, count| {
            node.wait("the service leads elsewhere", |node| {
                let all = node.served()?;
                let backends = all.first().and_then(|it| it["backend-addresses"].as_array());
                Ok(backends.is_some_and(|all| all.len() == count))
            })
        };
        node.write_manifest("services.yaml", &objects(&places[..1]))?;
        leads(&mut node, 1)?;
        let (nth, mut near, mut far) = reached(&client, &servers)?;
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
                let (nth, ..) = reached(&client, &servers)?;
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
        lab::wait_for("who was released is reached", || Ok(reached(&client, &servers)?.0 == 0))
    });
}
