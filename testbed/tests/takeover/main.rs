//! A node is taken over from Cilium with its pods under traffic, and given back. Programs of the lab stand in
//! for Cilium's: they forward and enforce by the maps, pins and records that it leaves.

mod refusals;

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_system::netlink::Socket;
use volvox_testbed::{
    fleet::{self, Fleet},
    lab::{self, Cgroup, Former, Inventory, Neighbour, Netns, Node, Through, objects},
    progress::Progress,
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Pods on the node.
const PODS: usize = 22;
/// From this one on pods have no stream.
const UNUSED: usize = 20;
/// Pairs of pods of which the first asks the second by a service, one of each family.
const BY_SERVICE: [(usize, bool); 2] = [(8, false), (18, true)];
/// The version of Cilium that is stood in for.
const VERSION: &str = "1.19.4";

/// A node with pods as Cilium left it, and who has which numbers.
struct Left {
    fleet: Fleet,
    before: Inventory,
    routers: Vec<IpAddr>,
}

/// The address of a service.
fn service_address(ipv6: bool) -> Result<SocketAddr> {
    let address = if ipv6 { "fd96::1" } else { "10.96.0.1" };
    Ok(SocketAddr::new(address.parse()?, fleet::PORT))
}

impl Left {
    fn launch(flags: &[&str]) -> Result<Self> {
        let mut node = Node::new(lab::Binaries::find()?)?;
        node.flags(flags);
        let mut fleet = Fleet::launch_on(node, PODS, Through::Rest, &Progress::new(true))?;
        Self::serve(&mut fleet)?;
        let before = Inventory::read(&fleet.node)?;
        let config: Value = fleet.node.rest().get("/config")?;
        let router = |family| {
            let address = config["status"]["addressing"][family]["ip"].as_str();
            Ok(address.context("no router")?.parse()?)
        };
        let routers = ["ipv4", "ipv6"].map(router).into_iter().collect::<Result<Vec<_>>>()?;
        fleet.node.stop_agent()?;
        Former::settle(&fleet.node, VERSION, &routers)?;
        Ok(Self { fleet, before, routers })
    }

    /// Has services stand for pods, of each family.
    fn serve(fleet: &mut Fleet) -> Result<()> {
        let mut all = Vec::new();
        for (client, ipv6) in BY_SERVICE {
            let (at, backend) = (service_address(ipv6)?, fleet.pods[client + 1].address(ipv6)?);
            for transport in ["UDP", "TCP"] {
                let name = format!("{}-{client}", transport.to_lowercase());
                all.push(objects::service(&name, at, transport));
                all.push(objects::slice(&name, &name, transport, fleet::PORT, &[backend]));
            }
        }
        let count = all.len() / 2;
        fleet.node.write_manifest("services.yaml", &objects::list(&all))?;
        fleet.node.wait("services are not there", |node| Ok(node.served()?.len() == count))?;
        Ok(())
    }

    /// Has Cilium's stand-in left it once more.
    fn settle(&self) -> Result<Former<'_>> {
        Former::settle(&self.fleet.node, VERSION, &self.routers)
    }

    /// A Cilium that starts on what is there.
    fn given_back(&self) -> Former<'_> {
        Former::at(&self.fleet.node, VERSION)
    }

    fn take_over(&mut self) -> Result<()> {
        self.fleet.node.set_flag("take-over", Some("cilium"));
        self.fleet.node.start_agent()?;
        self.fleet.node.wait_for_ready(PODS)?;
        ensure!(self.before.moved(&Inventory::read(&self.fleet.node)?) == 0, "numbers moved");
        Ok(())
    }

    /// Streams that policy allows, and one that it forbids, which nothing may answer.
    fn streams(&self) -> Result<(Vec<Stream>, Vec<Stream>)> {
        let mut streams = self.fleet.all_streams()?;
        for (client, ipv6) in BY_SERVICE {
            for kind in [Kind::Udp, Kind::Connect] {
                streams.push(Stream::start(Plan {
                    kind,
                    from: self.fleet.pods[client].netns.clone(),
                    to: self.fleet.pods[client + 1].netns.clone(),
                    target: service_address(ipv6)?,
                    rate: 200,
                })?);
            }
        }
        for stream in &streams {
            stream.wait_for_answers(50)?;
        }
        let node = Plan {
            kind: Kind::Ping,
            from: Netns::open("/proc/self/ns/net".as_ref())?,
            to: self.fleet.pods[UNUSED].netns.clone(),
            target: SocketAddr::new(self.fleet.pods[UNUSED].address(false)?, 0),
            rate: 200,
        };
        let node = Stream::start(node)?;
        node.wait_for_answers(20)?;
        streams.push(node);
        let forbidden = [(0, 5), (7, 2)];
        let forbidden =
            forbidden.map(|(from, to)| self.fleet.stream(Kind::Udp, from, to, false, 200));
        Ok((streams, forbidden.into_iter().collect::<Result<_>>()?))
    }

    /// The program at each link that is pinned for endpoints and devices.
    fn programs(&self) -> Result<BTreeMap<String, u32>> {
        let mut programs = BTreeMap::new();
        for kind in ["endpoints", "devices"] {
            let all = self.fleet.node.bpf_root().join("cilium").join(kind);
            for entry in fs::read_dir(all).into_iter().flatten() {
                for link in fs::read_dir(entry?.path().join("links")).into_iter().flatten() {
                    let path = link?.path();
                    let link = aya::programs::links::PinnedLink::from_pin(&path)?;
                    let link = aya::programs::links::FdLink::from(link);
                    programs.insert(path.display().to_string(), link.info()?.program_id());
                }
            }
        }
        Ok(programs)
    }

    /// Prepares the node for Cilium, which starts then.
    fn hand_back(&self) -> Result<()> {
        let node = &self.fleet.node;
        let mut hand_back = Command::new(&node.binaries().agent);
        let done = hand_back.arg("hand-back").args(node.arguments()).output()?;
        ensure!(done.status.success(), "{}", text(&done));
        ensure!(Socket::open()?.routes()?.is_empty(), "routes stay: {}", text(&done));
        self.given_back().serve()?;
        let links = self.programs()?;
        let left = links.keys().find(|path| path.contains("cil_to_container"));
        ensure!(left.is_none(), "{left:?} stays");
        Ok(())
    }

    fn check(&self) -> Result<Output> {
        let node = &self.fleet.node;
        let mut check = Command::new(&node.binaries().agent);
        Ok(check.arg("migrate-check").args(node.arguments()).output()?)
    }
}

/// Ends streams: those that are allowed lost nothing, those that are forbidden had no answer.
fn end((streams, forbidden): (Vec<Stream>, Vec<Stream>)) -> Result<()> {
    for stream in &forbidden {
        ensure!(stream.answers() == 0, "a packet got through that policy forbids");
    }
    stop_clean(streams)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_living_cilium_is_taken_over_and_given_back_and_nothing_is_lost() {
    lab::test("a_living_cilium_is_taken_over_and_given_back_and_nothing_is_lost", || {
        let neighbour = Neighbour::connect()?;
        let mut left = Left::launch(&[])?;
        let streams = left.streams()?;
        let cilium = left.programs()?;
        // What is to come is said, and nothing is done.
        let check = left.check()?;
        let said = text(&check);
        ensure!(check.status.success(), "{said}");
        for words in ["Cilium 1.19.4", "22 endpoints", "cilium_ct4_global as it is", "uplink"] {
            ensure!(said.contains(words), "it does not say {words:?}: {said}");
        }
        ensure!(left.programs()? == cilium, "looking changed something");
        for round in 0..3 {
            left.take_over()?;
            left.fleet.node.wait_for_device()?;
            let ours = left.programs()?;
            let same = |path: &&String| cilium.get(*path) == ours.get(*path);
            let still: Vec<_> = cilium.keys().filter(same).collect();
            ensure!(still.iter().all(|path| path.contains("cilium_host")), "not ours: {still:?}");
            for pod in &left.fleet.pods[UNUSED..] {
                ensure!(!neighbour.reaches(pod)?, "a stranger's packet got through");
            }
            // It stays ours; there is nothing more to take.
            left.fleet.node.kill_agent()?;
            left.fleet.node.start_agent()?;
            left.fleet.node.wait_for_ready(PODS)?;
            left.fleet.node.stop_agent()?;
            // Cilium starts on what is there now: with our records, and our maps beside its own.
            left.hand_back()?;
            if round == 1 {
                left.settle()?;
            }
            for pod in &left.fleet.pods[UNUSED..] {
                ensure!(!neighbour.reaches(pod)?, "a stranger's packet got through");
            }
        }
        // Without the flag maps get sizes of ours: there is no way back then without loss.
        left.take_over()?;
        for flag in [None, Some("cilium")] {
            left.fleet.node.kill_agent()?;
            left.fleet.node.set_flag("take-over", flag).start_agent()?;
            left.fleet.node.wait_for_ready(PODS)?;
        }
        end(streams)
    });
}

#[test]
fn without_the_flag_every_endpoint_says_why_it_is_not_ready_and_nothing_is_lost() {
    let name = "without_the_flag_every_endpoint_says_why_it_is_not_ready_and_nothing_is_lost";
    lab::test(name, || {
        let mut left = Left::launch(&[])?;
        let streams = left.streams()?;
        let cilium = left.programs()?;
        left.fleet.node.start_agent()?;
        left.fleet.node.wait("endpoints do not say what is in the way", |node| {
            let endpoints = node.endpoints()?;
            let says = |endpoint: &Value| {
                let text = endpoint.to_string();
                text.contains("--take-over=cilium") && !text.contains("CAP_")
            };
            Ok(endpoints.len() == PODS && endpoints.iter().all(says))
        })?;
        let health: Value = left.fleet.node.rest().get("/healthz")?;
        let text = health.to_string();
        ensure!(text.contains("(cil_from_contai) of another agent runs"), "{health:#}");
        let moved = left.before.moved(&Inventory::read(&left.fleet.node)?);
        ensure!(moved == 0, "numbers moved");
        ensure!(left.programs()? == cilium, "it changed what Cilium left");
        left.fleet.node.kill_agent()?;
        left.take_over()?;
        end(streams)
    });
}

/// About how many moments of a takeover it is killed at.
const MOMENTS: u32 = 16;

#[test]
fn a_takeover_killed_anywhere_is_finished_or_given_back() {
    lab::test("a_takeover_killed_anywhere_is_finished_or_given_back", || {
        let mut left = Left::launch(&[])?;
        let streams = left.streams()?;
        // How many calls it takes.
        let calls = left.fleet.node.trace_calls("calls");
        left.take_over()?;
        left.fleet.node.stop_agent()?;
        left.fleet.node.trace_no_calls();
        let most = lab::Calls::read(&calls)?.most_in_a_thread;
        ensure!(most > MOMENTS, "a takeover of {most} calls");
        let mut killed = 0;
        for (round, when) in (1..=most).step_by(most.div_ceil(MOMENTS) as usize).enumerate() {
            left.settle()?;
            left.fleet.node.doom("bpf", when);
            left.fleet.node.exec_agent()?;
            killed += u32::from(!left.fleet.node.ready_or_ended(PODS)?);
            left.fleet.node.kill_agent()?;
            if round % 2 == 0 {
                // Cilium starts where the takeover stopped.
                left.given_back().serve()?;
            }
            left.take_over().with_context(|| format!("killed at call {when}"))?;
            left.fleet.node.kill_agent()?;
        }
        ensure!(killed > MOMENTS / 2, "it was killed {killed} times only");
        end(streams)
    });
}

#[test]
fn programs_of_sockets_are_taken_over_too() {
    lab::test("programs_of_sockets_are_taken_over_too", || {
        let cgroup = Cgroup::create(&lab::path("cgroups"))?;
        let path = cgroup.path().display().to_string();
        let mut left = Left::launch(&[])?;
        left.given_back().balance_sockets(cgroup.path())?;
        // Sockets that were balanced are not left to nobody unless that is said.
        let refused = left.check()?;
        let said = text(&refused);
        ensure!(!refused.status.success() && said.contains("--bpf-lb-sock=true"), "{said}");
        left.fleet.node.set_flag("bpf-lb-sock", Some("true")).set_flag("cgroup-root", Some(&path));
        // Without the flag they stay Cilium's, and that is named.
        left.fleet.node.start_agent()?;
        left.fleet.node.wait("it does not say whose the sockets are", |node| {
            Ok(fs::read_to_string(node.log())?.contains("cil_sock4_conne"))
        })?;
        left.fleet.node.kill_agent()?;
        left.take_over()?;
        let status: Value = left.fleet.node.rest().get("/volvox/devices")?;
        ensure!(!status.to_string().contains("it is Cilium's"), "{status:#}");
        Ok(())
    });
}
